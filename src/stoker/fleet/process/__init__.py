"""One engine process: what it is started with, and how to recognise it later.

environment  the variables that a child gets
ports        a free port for each engine
keys         each engine's own key, derived by `signing`
start_records       what is stored about a start, to adopt it later
identity            whether a process is the one that was started
launch_fingerprint  whether it was started with today's configuration
logs         append-mode files, bounded by rotation
"""
