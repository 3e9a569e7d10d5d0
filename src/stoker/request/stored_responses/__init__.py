"""The Responses API's state, without its storage: what a request refers to, what is stored of it, and what clients see.

items        what is stored, responses and conversations; their items: ids, form in listings, pages of them
replay       a request that refers to stored items, as a request that includes them; its refusal where nothing is stored
capture      watches the reply on its way to the client, and holds back its last event until the response is stored
compaction   a conversation summarised by its model
"""
