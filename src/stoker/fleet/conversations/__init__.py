"""Conversations survive a swap: llama.cpp's KV cache is saved before a serve stops, and restored when it is back.

A *sequence* is a slot inside the engine (`id_slot`); it holds the KV cache of one conversation at a time.

sequences  which request gets which sequence, what to do before, and one request's use of it
store      the directory of saved conversations: private, bounded in bytes and age, verified before use
keeper     combines them, and talks to the engine; the supervisor and the flow talk to it

Reading order: sequences, keeper, store.
"""
