"""May this request run now? A pure state machine: events in with `now`, commands out.

commands   what the scheduler asks for: Grant, Reject, Cut, StartSwap, CancelSwap, WakeAt
state      Seat (one serve at run time), Swap, Room (one slot at run time), Waiter
timing     how long things may take: everything follows the measured swap time
eviction   the question "to run X beside these, who must stop?"
hysteresis the question "may X take that place now, or when?"
seating    every serve and slot at run time, and the elementary steps by which they change
settle     the one decision function, in seven numbered steps
scheduler  the inputs: each changes one thing, then settles

The only caller is `stoker.fleet.swapping.conductor`.
"""
