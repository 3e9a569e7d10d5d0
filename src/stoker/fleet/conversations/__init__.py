"""Conversations survive a swap: llama.cpp's KV cache is saved before a serve stops, and restored when it is back.

A *sequence* is a slot inside the engine (`id_slot`); it holds the KV cache of one conversation at a time.

sequences     which request gets which sequence, and what to do before (pure)
sequence_use  one request's use of a sequence
save_rate     how much can be saved in a given time (pure)
store         the directory of saved conversations: private, bounded in bytes and age, verified before use
slot_api      llama.cpp's endpoints for saving, restoring and erasing a sequence
keeper        combines them; the supervisor and the flow talk to it

Reading order: sequences, keeper, store.
"""
