"""Benchmarks: time to first token and tokens per second under load.

presets    the options and steps of a benchmark; pure    benchmark  runs them: prompts, warm-up, steps, ladder
generator  N clients, or N requests a second             prompts    prompts of an exact length
replay     recorded traffic                              ladder     the next concurrency, the knee, stability; pure
step_times how long steps take; pure
figures    from timed requests to named numbers; pure    to_run     from a benchmark to its `Run`
"""
