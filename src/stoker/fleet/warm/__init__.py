"""The warm pool: models that are swapped out but start quickly.

A model is hot (loaded in a slot), warm (its weights are in the page cache, or its engine sleeps with them in host
memory) or cold (on disk only).

pool          which models stay warm: a byte budget, pins, least recently used (pure)
prediction    which model is likely to be wanted next, and how often predictions were right (pure)
keeper        asks both, owns the holder process, and says what kind of start a serve would get
holder        a program of low priority that reads files into memory and keeps them there
page_cache    how much of a file is in the page cache; pages: the system calls for it
weight_paths  the files that hold a serve's weights
statistics    what is warm, for `/status`

Reading order: pool, keeper, holder.
"""
