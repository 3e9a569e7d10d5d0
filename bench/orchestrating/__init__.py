"""What an orchestrator finds, what it costs, and what overlap saves: `python -m bench.orchestrating`.

blocks    the blocks of the scripted worker, and faults of six kinds     plane     the control plane, asked and timed
plants    faults that parse, or that no fence names, each beside the same block without it
scripted  faults that reach the client; overlap beside plain sequence    cost      CPU of the loop itself
real      the fixtures of code-write, answered by a model that ships
"""
