"""One process of an engine: what it is started with, and how it is recognised later.

environment  the variables that a child gets                  ports  a free port for each engine
records      what is written down of a start, to adopt it later
identity     is this process the one that we started?         fingerprint  and as it would be started now?
keys         each engine's own key; `signing` derives it      logs  append-mode files, bounded by rotation
"""
