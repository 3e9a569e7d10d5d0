"""Stoker: one stable endpoint for the language models that you run yourself.

One request passes, in this order:

    accept   bytes in: framing, limits, key, request id
    decide   which serve does this model name mean
    lease    may it run now: grant, queue, swap, reject
    fleet    carries out what lease asked: stop, start, wait until proved
    relay    the upstream call; streams both ways; cancels; releases
    flow     the one screen that calls these in order
    store    decisions, kept for `stoker explain`

Start reading at `flow.py`, then `request/lease/scheduler.py`, the heart.
"""

__version__ = "0.1.0"
