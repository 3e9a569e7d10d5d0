"""May this request run now? A pure state machine: events with `now` go in, commands come out.

commands       what the scheduler asks for: Grant, Reject, Cut, CheckStart, StartSwap, CancelSwap, WakeAt
phases         the states of a serve in its slot, as one table
state          what the scheduler remembers: ServeState, SlotState, Swap
waiter         a request, or an operator's switch, that still waits
fair_queue     in which order waiting requests get places: by priority, then fairly among keys
usual_gap      for how long a serve is usually unused between two requests
slot_time      the busy time of a slot, divided among its leases
timing         how long things may take: everything follows the measured swap time
eviction       which residents must stop so that a serve fits
cheapest_victims  of several such choices, the one with the least total cost
eviction_time  may these residents be stopped now, and if not, when
places         which replica of a serve a request joins, where one is started, and when one more
replica_steps  what the decision function does for serves with several places
prefix_memory  which replica has which beginnings of prompts in its cache
transitions    the elementary steps by which serves and swaps change
reconcile      the one decision function, in numbered steps
scheduler      the inputs: each changes one thing, then calls `reconcile`
refusals       the errors for requests that cannot wait, or have waited too long

The only caller is `stoker.fleet.swapping.conductor`.
"""
