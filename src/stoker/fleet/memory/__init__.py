"""How much memory there is, who holds it, who would fit, and when it is really free again.

probe      what every accelerator back end answers; one probe for the machine
nvidia     NVML (the extra `nvidia`)
amd, intel what the kernel shows; drm reads it: cards, and what each process holds
host       main memory, control group limits, what a process group holds of it
measure    a running serve: process numbers to bytes, and where the figure is from
ledger     one slot's books: budget, who weighs what, room; would this one fit?   (pure)
freed      between stop and start: wait until the memory is free
fit/       before anything is started: what a model will need, and whether it suits the device

Unknown is None everywhere, never 0.
"""
