"""What `stoker client NAME` prints: the settings with which a client reaches this Stoker.

facts      what is true of every client: address, model, key, how many tokens
shape      the nouns: a client, and the blocks of text that it wants
agents     the coding agents, each with its files and variables
programs   SDKs, `llm`, curl, and the environment names that programs read
table      all of them by name
fill       facts into blocks, each value quoted as the block's format wants it
"""
