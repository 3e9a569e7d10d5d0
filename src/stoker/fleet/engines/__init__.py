"""What to run for a serve, when it is ready, what it says of itself, and why it ended.

plan         which adapter: the serve's own `cmd`, or its engine's; what an engine cannot express
generic      any `cmd` with placeholders (engine `openai`)
llama_cpp    llama-server from PATH, or the embedded engine (embedded: its own main program)
vllm, sglang  their command lines
words        from configuration keys to an engine's words: one table per engine
backends     attention backends: what each needs on this machine
names        served names that an engine or a client cannot have
placement    weights and caches under the vault, and nowhere else
launch       Place and Launch: what goes into a command line, what comes out
weights      a look at the weights on disk
readiness    health, the exact served id, a canary (http: the client for it; facts: what the engine tells)
signals      an engine's /metrics in one shape: queued, running, KV cache in use
memory_verbs  sleeping and waking by an engine's own verbs
failures     what engines say when they end, and what to do about it (last_words: shown short and safe)
"""
