"""Sessions of real coding agents through the front door: `python -m bench.agents`.

Each client that is installed gets a folder with a small program that has a typo, a `stoker up` of its own, and a
scripted model that reads, edits, runs and reports. Then it is looked at what became of it, at both ends.

session_paths  where a session happens: folders, address, key, model
task           the typo, and the answers of the model that corrects it, in the words of a client's tools
clients        what a client is: its settings, its command, its tools
table          all of them
serves         what the front door stands before: one dialect each, strict where there are rules, and llama.cpp
request_parts  what reached the serve, in whichever dialect, as turns (pure)
checks         whether that is what was said (pure)
session        one client against one serve: run, gathered, checked
report         the table of outcomes, and transcripts for bench/agents.md
"""
