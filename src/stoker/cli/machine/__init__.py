"""What this machine has: GPUs, model files, engines, free ports.

discover    finds GPUs, GGUF files and engines
serve_plan  a slot and a context for each model file
ports       free ports
"""
