"""Serving faults on command: a proxy before a real server that breaks it in one named way.

fault      Fault: what is done to a request, an answer, a stream, a page
table      FAULTS by name, each with the gates that should name it
texts, calls, wire, pieces    the faults, one family each
grafts     what a tiny model lacks (pictures, two calls at once, thinking), played by the proxy
proxy      the server; `python -m stoker.measure.faults --upstream URL --fault NAME --port N`
"""
