"""The nouns, and the protocols that the layers above use. Pure: no IO, no clock.

dialect   what a client or a serve speaks, and the endpoints of each
serve     Serve, Slot, SwapPolicy: what may run where, as configured
access    Key, Scope: who may ask for what
lease     Lease, Target: the right to use a serve now, and where it answers
decision  Decision: what became of one request; never any content
events    what happened, past tense; each part publishes to the `notify` that it was built with
swap      SwapReport: what a swap did
errors    errors by fault, each with its HTTP status
answer    what a model answers, in no dialect; prompt: what it is asked
task      Outline, Task: the class of a request; tier and routing: which models may serve it
run       results of measurements; gate: what an alias asks of a serve
protocols Fleet, Leases, Journal, Clock: one seam per kind of IO
"""
