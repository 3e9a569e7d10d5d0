"""May this request run now? A pure state machine: events with `now` go in, commands come out.

commands     what the scheduler asks for: Grant, Reject, Cut, CheckStart, StartSwap, CancelSwap, WakeAt
phases       the states of a serve in its slot, as one table
state        what is remembered: ServeState, SlotState, Swap, Waiter
timing       how long things may take: everything follows the measured swap time
eviction     the question "to run X beside these, who must stop?"
hysteresis   the question "may X evict these residents now, or when?"
transitions  the elementary steps by which serves and swaps change
settle       the one decision function, in seven numbered steps
scheduler    the inputs: each changes one thing, then settles
refusals     the errors for requests that cannot wait

The only caller is `stoker.fleet.swapping.conductor`.
"""
