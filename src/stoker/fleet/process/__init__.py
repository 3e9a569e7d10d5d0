"""One engine process: what it is started with, and how to recognise it later.

command_end  ends a command whose output is a pipe
environment  the variables that a child gets, and a free port
identity     what is stored about a start, and whether a process is the one that was started, with today's configuration
starter      a command that ends with Stoker, however Stoker ends
logs         append-mode files, bounded by rotation
"""
