"""The tables of the file: every key with its type, its default and its meaning (`domain.kinds.setting`).

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
"""
