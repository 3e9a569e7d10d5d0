"""Settings of a serve that are tried one after the other, each with a freshly started engine.

context_search  the largest context that works    sweep  variants of a serve, and the best of them; pure
"""
