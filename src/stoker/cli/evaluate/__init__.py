"""The commands of `stoker eval`.

benchmark  `eval benchmark`: parse, measure, print, keep
subject    who is measured: a serve of the running Stoker, or an address; shared by all commands
asked      from options to what is wanted (pure)
shown      the tables of a benchmark
bar        progress with the time left
machine    facts about where it ran
"""
