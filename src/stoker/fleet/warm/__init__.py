"""The warm pool: models that are swapped out but start quickly.

A model is hot (loaded in a slot), warm (its weights are in the page cache, or its engine sleeps with them in host
memory) or cold (on disk only).

pool    which models stay warm (a byte budget, pins, least recently used), and which is likely to be wanted next (pure)
keeper  asks it, owns the holder process, and says what kind of start a serve would get
holder  a program of low priority that reads files into memory and keeps them there
pages   the system calls for a file's pages, and how many of them are in the page cache

Reading order: pool, keeper, holder.
"""
