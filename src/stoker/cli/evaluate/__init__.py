"""The commands of `stoker eval`.

preflight  `eval preflight`: parse, measure, print, keep
subject    who is measured: a serve of the running Stoker, or an address; shared by all commands
"""
