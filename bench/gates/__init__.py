"""Does preflight name serving faults, and does it stay silent without one?

`python -m bench.gates [--clean N] [--only FAULT,...] [--subject engine,assistant] [--json FILE]`: two subjects, each
behind a proxy with one fault at a time, then N times without any, in all their legal variations.

engine      ember or spark on the embedded llama.cpp; pictures, parallel calls and thinking are played by the proxy
assistant   the scripted model, which thinks, calls tools in parallel, and has no /props
"""
