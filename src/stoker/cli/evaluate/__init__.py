"""The commands of `stoker eval`, one module each.

preflight  gate by gate: may it take traffic?
benchmark  parse, measure, print, keep                  subject     who is measured: a serve, or an address
asked      from options to what is wanted (pure)        shown, bar  the tables of a benchmark; progress with time left
canary     the fixed questions against a baseline       soak        hours of the same
context    the largest context that works               known       the serve that is measured, as it is configured
kept       the run, its file and the index              own_engine  an engine started anew for a candidate
classifier whether a model tells classes better than the built-in classifier
sweep      the same serve with other settings   variants    one of them: started, measured, stopped
borrowed   a slot that a measurement has for itself      compare     two models side by side
gating     what a gate needs, measured           suite       whole suites of one serve
drifting   what canaries say over time                  told        Ctrl-C and SIGTERM end it in order
machine    facts about where it ran
"""
