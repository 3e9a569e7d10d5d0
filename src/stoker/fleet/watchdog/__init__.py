"""Is a serve that should be healthy really so? And if not: what is done, and how often.

assertions  what must hold of a ready serve (Observation -> Findings -> Verdict); missing information is unknown
progress    whether the work in flight moves, by what was relayed and by the engine's own counters
budget      how often a serve may be started again, and when it is parked instead
drift       whether a running process is still what its configuration says
probe       asking a serve over HTTP: its list of models, its counters
dog         the loop: looks at each ready serve in turn, keeps the last Proof, acts

`assertions`, `progress` and `budget` are pure; `dog` sees the world through `Sees` and `Probe` and acts through `Acts`.
"""
