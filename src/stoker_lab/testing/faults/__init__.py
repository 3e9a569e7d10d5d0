"""Serving faults on command: a proxy in front of a real server that breaks it in one named way.

fault    Fault: what is done to a request, an answer, a stream, a page
table    FAULTS by name, each with the preflight checks that should name it
texts, calls, wire, pieces    the faults, one family each
grafts   abilities that a tiny model lacks (pictures, two calls at once, thinking), played by the proxy
proxy    the server; `python -m stoker_lab.testing.faults --upstream URL --fault NAME --port N`
upstream one request to the real server
"""
