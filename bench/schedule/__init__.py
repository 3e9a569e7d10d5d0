"""The scheduler on a virtual clock, beside other policies and an offline optimum. No process, no model, no waiting.

traces       requests that arrive, and how they are read from our decision log and from Mooncake's files
agentx       sessions of agents with published statistics
synthetic    traces and small instances made from a seed
fleet        how long requests take, and what a prefix cache saves
simulation   the virtual clock: carries a policy's actions out and checks that they are possible
policies     first come, first served; llama-swap's; replicas that never move
stoker       the real scheduler as one more policy
metrics      what a run is judged by
optimum      the least total waiting that anybody who knew the future could reach
sessions     what sessions get from each policy: the tables of `--trace agentx`
session_optimum  the least completion times of sessions if models are loaded on demand
report       the tables and the plot
"""
