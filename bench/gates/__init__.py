"""Does preflight name serving faults, and does it stay silent without one?

`python -m bench.gates [--clean N] [--only FAULT,...] [--json FILE]`: ember on the embedded llama.cpp, behind a proxy
with one fault at a time, then N times without any.
"""
