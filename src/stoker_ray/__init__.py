"""Serves on the machines of a Ray cluster, over the REST API of its head. Ray itself is never imported.

driver      starts a serve as a job there, and finds it again; job_unit: one job; job_watch: what it shows; job_output:
            its log here
ranks       an engine on several machines; rank_group: its jobs as one
jobs_api    the questions and commands; each answer as a record
nodes       which node has free GPUs for a job. Pure
examine     may this cluster be used, and what is in it?
commands    `stoker cluster`
doctor      what `stoker doctor` says of clusters
"""
