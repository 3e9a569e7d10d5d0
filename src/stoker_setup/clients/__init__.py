"""What `stoker client NAME` prints: the settings with which a client reaches this Stoker.

facts         what holds for every client: address, model, key, context
client_types  the records: a client, and its blocks of settings
agents        coding agents, with their files and variables
programs      SDKs, `llm`, curl, and environment variables
all_clients   all of them by name
needs         how much context a client needs, and a warning if its serve has less
running       what a running Stoker says of itself, where its configuration cannot be read
render        puts the facts into the blocks, quoted as each format needs it
"""
