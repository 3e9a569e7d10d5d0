"""The tables of the file as pydantic models: every key with its type, its default and its description.

file          the whole file, and the tables that have no module of their own
cluster       `[clusters.NAME]`
also          `[[serve]] also`
compat        `[compat]`
edge          `[edge.NAME]`
gates         `[gate.NAME]` and `[alias.NAME]`
keys          `[app.NAME]` and `[[front_door.keys]]`
media         `[media]`
orchestrator  `[orchestrator.NAME]`
request       `[serve.request]` and `[[serve.variant]]`
responses     `[responses]`
router        `[router]` and `[[tier]]`
tls           `[front_door.tls]`
translation   `[serve.translation]`
section       what every table is
value_types   the types of keys
value_checks  one check for each kind of value
"""
