"""The fleet: starts, adopts, puts to sleep and stops serves.

supervisor      start, sleep, wake, stop, adopt, close
serve_registry  the serves that Stoker runs, and what happens to each
managed_serve   one serve, from launch to its end, and the messages about it
start_checks    the quick and the full check of a start; downloads missing weights
start_problems  a serve's own problems: engine, directory, port, its `requires` and `conflicts`
adoption        serves that an earlier run left running
memory_meter    measures what a serve holds in memory
"""
