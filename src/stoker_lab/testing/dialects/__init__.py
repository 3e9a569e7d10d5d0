"""The replies of each dialect, as the scripted server gives them.

reply_facts  ReplyFacts, Stream, EndpointWriter: the input and output of every dialect
chat       Chat Completions and the older Completions
messages   Anthropic Messages and its token count
responses  OpenAI Responses
vectors    embeddings and rerank
endpoint_writers  the writer of each endpoint
rich_reply  RichReply: a rich answer with the facts of its reply
rich       the rich writer of each endpoint: rich_chat, rich_messages, rich_responses
"""
