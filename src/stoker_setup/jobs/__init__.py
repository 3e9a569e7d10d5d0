"""Commands of Stoker that the web page starts: each runs in a process of its own, with its progress, until it ends or
is cancelled.

job        what is asked for, the command that does it, and what is told of it; pure
output     the lines that a command writes, as progress, result and error; pure
process    runs one command: SIGINT first, SIGKILL for what does not end
jobs       all of them: who runs, who waits, what is kept across a restart
child      the beginning of such a process
"""
