"""What to run for a serve, when it is ready, what it reports, and why it ended.

record        what an engine is: everything that Stoker knows of one; registry: the engines that there are
llama_cpp, vllm, sglang, generic     one engine each; embedded: the program of llama.cpp's embedded one
plan          a serve's command line, by its engine or by its own `cmd` (own_command), and what stands in its way
launch        what goes into a command line, and the result
options       configuration keys as an engine's options
backends      attention backends: what each needs on this machine
placement     keeps weights and caches under the vault
weight_files  checks the weights on disk
readiness     proves a started engine: health, the exact served id, a canary; facts: what the engine reports then
start_log     what a starting engine prints about its cache and its times
load_progress how much of a starting engine's model is loaded, as it prints it
capabilities  which dialects and templates a started engine supports
signals       an engine's /metrics in one shape: queued, running, KV cache in use
sleep_api     puts an engine to sleep and wakes it, by the engine's own endpoints
failures      recognises why an engine ended; last_output: its last lines, short and without secrets
"""
