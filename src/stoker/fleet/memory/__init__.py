"""How much memory there is, who holds it, whether a model fits, and when memory is free again.

bandwidth  how fast memory can be read, and what that means for the tokens of a request
devices    the accelerators of this machine: NVML (the extra `nvidia`), or from the kernel
host       main memory, control group limits, the memory of a process group
measure    the memory of a running serve, and the wait between stop and start until it is free
ledger     the memory of one slot: budget, holders, room, and whether another serve would fit (pure)
fit/       before a start: what a model will need, and whether it suits the device

Unknown is None everywhere, never 0.
"""
