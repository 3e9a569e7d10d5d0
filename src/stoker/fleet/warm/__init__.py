"""The warm pool: models that are in no slot, and yet not cold.

hot      in a slot, on its devices
warm     its weights are in the page cache and kept there, or its engine sleeps with them in host memory
cold     on disk only

pool       which models stay warm: a byte budget, pins, least recently used (pure)
predict    which model is likely to be wanted next, by what routing foresees and by habit, and how often that was right
           (pure)
statistics what is warm, as it is told
keeper     asks both, owns the holder process, and answers "what would a start find?"
holder     a program that brings files into memory out of everybody's way, and keeps them there
residency  how much of a file is in the page cache; evicting it
pages      the kernel's calls for that
files      which files a serve's weights are

Reading order: pool, keeper, holder.
"""
