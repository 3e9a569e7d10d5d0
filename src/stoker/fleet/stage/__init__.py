"""Staging: brings a model into the vault while others are served. It appears only when it is complete and verified.

orders        which files come from where, and their names in the vault (pure)
decision      whether a model is there already, and whether it fits (pure)
staging_area  the directory in which an unfinished model grows, its owner and its notes
stager        plans, fetches, verifies, moves into place; `rehydrate` does the fetching
vault         the models in the vault: files, sizes, users; removal
priority      lowers the priority of this process
"""
