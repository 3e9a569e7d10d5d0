"""The replies of each dialect, as the scripted server gives them.

terms      Terms, Stream, Voice: what every dialect gets and what it gives
chat       Chat Completions and the older Completions
messages   Anthropic Messages and its token count
responses  OpenAI Responses
vectors    embeddings and rerank
voices     which dialect is whose
telling    Telling: a rich answer with the facts of its reply
rich       which rich reply is whose: rich_chat, rich_messages, rich_responses
"""
