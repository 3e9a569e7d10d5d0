"""What the program costs, measured beside its peers. Run from the repository root.

`python -m bench.overhead`  CPU, added time to first token and memory: direct, nginx, Stoker, other gateways
`python -m bench.swap`      what a swap costs beyond the engine's own time; what hysteresis saves
`python -m bench.warm`      a start with the weights on disk, in the page cache, and loaded
`python -m bench.gpu`       what Stoker does on a GPU, by one prepared command (bench/gpu.md)
`python -m bench.timer`     how far our timer is off a server of known timing
`python -m bench.startup`   `stoker --help`, and the front door after `stoker up`
`python -m bench.routing`   what routing by measured quality saves, and what it costs (bench/routing.md)
`python -m bench.routing.public`, `bench.routing.human_turns`   the same on tables and sessions of others
`python -m bench.agents`    no figures: sessions of real coding agents, checked at both ends (bench/agents.md)

machine    facts about where it ran, at the head of every output
processes  children that are ended by pid whatever happens; CPU time, memory and pinning of a process tree
exchange   one request and its reply as both ends know it (pure)
upstream   the engine that costs nothing: a server process of its own
load       the load generator: a process of its own that checks every byte it gets back
engines    the serves of a bench that swaps: embedded llama.cpp, and a scripted engine with a load time of our choice
weights    GGUF files for them: tiny ones, and one of any size
figures    medians, percentiles and tables (pure)

Method, definitions and results: bench/README.md.
"""
