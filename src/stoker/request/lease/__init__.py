"""May this request run now? A pure state machine: events with `now` go in, commands come out.

commands       what the scheduler asks for: Grant, Reject, Cut, CheckStart, StartSwap, CancelSwap, WakeAt
state          what the scheduler remembers: ServeState, SlotState, Swap
waiter         a request, or an operator's switch, that still waits
fair_queue     in which order waiting requests get places: by priority, then fairly among keys
timing         how long things may take (everything follows the measured swap time), and when residents may be stopped
eviction       which residents must stop so that a serve fits
places         which replica of a serve a request joins, where one is started, and when one more
prompt_routing which replica has most of a prompt in its cache
scheduler_state  every serve, slot and swap, and the elementary steps by which they change
reconcile      the one decision function, in numbered steps
scheduler      the inputs: each changes one thing, then calls `reconcile`
preview        what is loaded, what a switch would do now, and what could be loaded beside it
refusals       the errors for requests that cannot wait, or have waited too long, and for serves that cannot start

The only caller is `stoker.fleet.swapping.conductor`.
"""
