"""Does a model still answer as it did?

questions   the fixed questions            canary  asks them and compares the answers with a baseline
steadiness  a smaller check for a watch: a few answers compared with the first ones
"""
