"""The front door: requests come in here.

front    every request: its route, its key, its dialect; hands inference on to `flow`
flow     one inference request from end to end: decide, lease, send, answer, release
admin    `/admin`, `/status`, `/metrics`, decisions    ollama  the read-only endpoints of Ollama
server   sockets, event loop, signals
"""
