"""Conversations survive a swap: llama.cpp's KV cache is saved before a serve stops, and restored when it is back.

sequence      a slot of the engine: holds the KV cache of one conversation at a time (`id_slot`)
stay          one request's use of a sequence
saved         a conversation's KV cache in a file of ours

sequences  which request gets which sequence, and what has to happen before (pure)
pace       what can be saved in the time there is (pure)
store      the directory of saved conversations: private, bounded in bytes and age, proved before use
verbs      what the engine is asked: save, restore, erase
keeper     asks all of them; what the supervisor and the flow talk to

Reading order: sequences, keeper, store.
"""
