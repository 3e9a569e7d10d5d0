"""What the scripted model server is told to do, and what it recorded.

script   every fault of the scripted model server, a record and a command line
ask      what a request asks for, and which fields of the script its text overrides
answers  rich answers: thinking, text, calls          assistant  answers that follow from the request
quirks   habits of real upstreams, by name            framing    how a reply's bytes are wrapped
record   the requests that came in, and how they ended
"""
