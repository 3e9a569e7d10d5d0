"""The fleet: starts, adopts, puts to sleep and stops serves.

supervisor      start, sleep, stop, adopt, close
serve_registry  the serves that Stoker runs, and what happens to each
managed_serve   one serve, from launch to its end; lifecycle: its states and events, as one table
start_checks    the quick and the full check of a start; fetches missing weights
start_problems  a serve's own problems: engine, directory, port; requirements: its `requires` and `conflicts`
adoption        serves that an earlier run left running
sleep_control   puts serves to sleep and wakes them
memory_meter    measures what a serve holds in memory
exit_report     the messages about failed starts and about serves that ended
"""
