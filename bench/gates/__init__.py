"""Does preflight name serving faults, and does it stay silent without one?

`python -m bench.gates [--clean N] [--only FAULT,...] [--subject engine,assistant] [--quick]
[--json FILE]`: three subjects, each behind a proxy with one fault at a time, then N times without any, in all their
legal variations. `--quick`: of each fault, only the checks that are about it.

engine      ember or spark on the embedded llama.cpp; pictures, parallel calls and thinking are played by the proxy
embedder    the same engine with embeddings
assistant   the scripted model, which thinks, calls tools in parallel, and has no /props
"""
