"""Measurements under load: benchmark, soak, context, sweep.

bench     a benchmark under way: prompts, warm-up, steps, ladder
presets   what a benchmark consists of; pure            load     so many clients, or so many requests a second
prompts   prompts of an exact length                    replay   recorded traffic
ladder    which concurrency comes next, the knee, drift; pure
figures   from requests to numbers with names; pure     result   from a benchmark to its run
compare   two benchmarks, step by step; pure            report   the HTML page, with report.html and `plots`
soak      canary and decode check in cycles, for hours (`schedule`, `decode`)
context   the largest context that works                sweep    variants of one serve, and the best
lock      one measurement at a time on one slot
"""
