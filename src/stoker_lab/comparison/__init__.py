"""Two results beside each other. Pure.

runs        two runs of any kind: every number, unrated
benchmarks  two benchmarks, step by step: better, worse or the same
models      two models: class by class, speed, memory, cost, and a summary
"""
