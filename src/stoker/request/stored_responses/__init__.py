"""The Responses API's state, without its storage: what a request refers to, what is stored of it, and what clients see.

records      what is stored: responses and conversations, with their items
items        items of an input or output: their ids, their form in listings, pages of them
replay       a request that refers to stored items, as a request that includes them
capture      watches the reply on its way to the client, and holds back its last event until the response is stored
compaction   a conversation summarised by its model
client_wire  the connection that it stands before, and what it only hands on
settings     messages that name the configuration
"""
