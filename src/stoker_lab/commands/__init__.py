"""The commands of `stoker eval` and what they share.

preflight, benchmark, canary, soak, context, sweep, bootstrap, classifier, validator, planning, compare, results: one
command each

targets            what is measured: a serve of the running Stoker, or an address
running_serve      a serve that runs here: as configured, as it runs, and its fingerprint
front_door_key     the key that a measurement uses at the front door
own_engine         an engine that is started for one candidate    slot_takeover  frees a slot, and restores it
benchmark_options  from options to a benchmark (pure)             benchmark_tables  the tables of a benchmark
sweep_variant      one variant: started, measured, stopped        whole_suites      whole suites of one serve
gate_measurements  measures what a gate needs                     drift_alarm       what canaries say over time
save_run           the run, its file and the index                this_machine      facts about where it ran
fixture_run        fixtures of a serve, graded with a progress line
judge              validator --class                              questions  Stoker's own questions, one by one
interruptible      Ctrl-C and SIGTERM end it in order
"""
