"""Which serve answers a request? Pure.

names, aliases     model name -> serve; for an unknown name the nearest known one (alias_patterns: with wildcards)
dialects, context  which dialect the serve is asked in, and whether the request fits its context
plan               who may answer a request, in which order, and what follows a failure
failover           what each failure means for the next candidate
first_byte         how long to wait for a candidate's first byte
"""
