"""Does a ready serve still work? If not: what to do, and how often.

assertions  what must hold for a ready serve; missing information counts as unknown (pure)
progress    whether work in flight moves, by bytes relayed and the engine's counters (pure)
budget      how often a serve may be restarted, and when it is parked instead (pure)
differences whether a running process still matches its configuration
probe       asks a serve over HTTP: its models, its counters
watchdog    the loop: checks each ready serve in turn, keeps the last result, acts
"""
