"""How much memory there is, who holds it, whether a model fits, and when memory is free again.

device     one accelerator, and the protocol of the back ends
probe      all accelerators of this machine
nvidia     NVML (the extra `nvidia`); amd, intel: from the kernel, read by drm
host       main memory, control group limits, the memory of a process group
in_use     memory of the machine that is in use, for /metrics
measure    the memory of a running serve, and how it was measured
ledger     the memory of one slot: budget, holders, room, and whether another serve would fit (pure)
freed      waits between stop and start until the memory is free
fit/       before a start: what a model will need, and whether it suits the device

Unknown is None everywhere, never 0.
"""
