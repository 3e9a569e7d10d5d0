"""How a serve is run, watched and ended.

process   a local process in its own session: spawn, SIGTERM, grace, SIGKILL, until its whole group is gone
watch     sees the end of a process at once, ours or adopted
group     who belongs to a process group, and signals to all of it
external  a serve that somebody else runs: its address, and its health from time to time
"""
