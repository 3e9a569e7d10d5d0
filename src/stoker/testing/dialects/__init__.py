"""The replies of each dialect, as the scripted server gives them.

terms      Terms, Stream, Voice: the input and output of every dialect
chat       Chat Completions and the older Completions
messages   Anthropic Messages and its token count
responses  OpenAI Responses
vectors    embeddings and rerank
voices     the dialect of each endpoint
telling    Telling: a rich answer with the facts of its reply
rich       the rich reply of each endpoint: rich_chat, rich_messages, rich_responses
"""
