"""What `stoker client NAME` prints: the settings with which a client reaches this Stoker.

facts         what holds for every client: address, model, key, context
client_types  the records: a client, and its blocks of settings
agents        coding agents, with their files and variables
programs      SDKs, `llm`, curl, and environment variables
all_clients   all of them by name
needs         how much context a client needs, and a warning if its serve has less
choosing      which model a client uses
launching     how `stoker launch` starts an agent
launch_lines  the same for the web page: what to type for each agent
running       what a running Stoker says of itself, where its configuration cannot be read
render        puts the facts into the blocks, quoted as each format needs it
"""
