"""Does a ready serve still work? If not: what to do, and how often.

assertions  what must hold for a ready serve; missing information counts as unknown (pure)
probe       what is read of a serve: its models and counters, whether its work moves, whether its process has drifted
watchdog    the loop: checks each ready serve in turn, keeps the last result, acts within its budget of restarts
"""
