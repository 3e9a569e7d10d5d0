"""The commands of `stoker eval`, one module each.

canary     the fixed questions against a baseline       soak      hours of the same
context    the largest context that works               known     the serve that is measured, as it is configured
kept       the run, its file and the index              own_engine  an engine started anew for a candidate
drifting   what canaries say over time                  told        Ctrl-C and SIGTERM end it in order
"""
