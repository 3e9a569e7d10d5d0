"""Promotions: an alias moves to another serve on evidence, is watched, and goes back if the model gets worse.

promotions     promotes and resets aliases, and rolls them back
gate_evidence  whether a stored result shows that a serve meets a gate
watch          one promoted alias: its canary, and the requests that it serves
"""
