"""One engine process: what it is started with, and how to recognise it later.

environment    the variables that a child gets
ports          a free port for each engine
start_records  what is stored about a start, to adopt it later
identity       whether a process is the one that was started, with today's configuration; each engine's own key
logs           append-mode files, bounded by rotation
"""
