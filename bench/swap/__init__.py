"""What a swap costs beyond the engine's own time, and what hysteresis saves: `python -m bench.swap --help`.

plane      `stoker up` with a configuration of ours, and its admin calls
calls      time to the first token of one request
alone      the engine's own time: the command that Stoker ran, run again without it
phases     cold, page-cached, loaded, swapped: Stoker's time beside the engine's own
alternate  two clients that want different models, with hysteresis and without
conversation  swapping back to a conversation of 8,000 tokens, with saved KV cache and without
report     figures and tables from that (pure)
"""
