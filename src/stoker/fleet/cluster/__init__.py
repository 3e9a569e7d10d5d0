"""A Ray cluster, seen over the REST API of its head: nodes, GPUs and jobs. Ray itself is never imported.

jobs_api    the questions and commands; each answer as a record
nodes       which node has free GPUs for a job. Pure
examine     may this cluster be used, and what is in it?
"""
