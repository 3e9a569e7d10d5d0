"""The nouns of the program, and the protocols between its parts. Pure: no IO, no clock.

dialect   the API formats that clients and serves speak, and the endpoints of each
serve     Serve, Slot, SwapPolicy: what may run where, as configured
access    Settings: the whole configuration
lease     Lease, Target: the right to use a serve now, and where it answers
decision  Decision: the record of one request, without its content; speed: how fast its answer was written
events    what happened, in the past tense; each part publishes to the `notify` that it was built with
swap      SwapReport: what a swap did
errors    errors by fault, each with its HTTP status
prompt    what a model is asked, whatever the dialect; answer: what it answers
key       Key, Scope: what a caller may do; runtime_key: keys made while Stoker runs; usage: what requests used
task      Task: the class of a request; Outline: what routing reads of a request
tier      Tier: a serve that routing may choose, with its cost; routing: the settings of routing
alias_choice   aliases for one of several serves; request_parameters: what a serve sets in bodies
pauses         what operators paused
prediction     the models that requests will need next
cluster   machines that run serves as jobs
nearest   names that resemble each other; printable: text as people see it; merge_patch: what changed in a document
run       Run: the result of a measurement; gate: what a serve has to prove before an alias may mean it
conversation  which conversation a request continues
build     which build runs: plain Python, or compiled
protocols Fleet, Leases, Journal, Clock: one protocol for each kind of IO
"""
