"""What it is worth that weights are in memory: `python -m bench.warm --help`.

holder   Stoker's own holder, brought in from outside: it makes the file warm
rounds   cold, warm, hot: one swap each through `stoker up`, the page cache checked before
speeds   what this machine can do at best: memory to memory, disk to memory
report   figures, tables and the verdict from that (pure)
"""
