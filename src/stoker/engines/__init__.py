"""What to run for a serve, when it is ready, what it reports, and why it ended.

plan          chooses the adapter: the serve's own `cmd`, or its engine's
llama_cpp     llama-server from PATH, or the embedded engine (embedded: its main program)
vllm, sglang  their command lines; generic: any `cmd` with placeholders (engine `openai`)
launch        what goes into a command line, and the result
options       configuration keys as an engine's options: one table per engine
backends      attention backends: what each needs on this machine
served_names  served names that an engine or a client cannot handle
placement     keeps weights and caches under the vault
weight_files  checks the weights on disk
readiness     proves a started engine: health, the exact served id, a canary; facts: what the engine reports then
load_progress how much of a starting engine's model is loaded, as it prints it
capabilities  which dialects and templates a started engine supports
signals       an engine's /metrics in one shape: queued, running, KV cache in use
sleep_api     puts an engine to sleep and wakes it, by the engine's own endpoints
failures      recognises why an engine ended; last_output: its last lines, short and without secrets
"""
