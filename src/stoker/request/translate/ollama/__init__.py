"""Ollama's own API (https://github.com/ollama/ollama/blob/main/docs/api.md). Only clients speak it.

read_prompt    a client's /api/chat -> Prompt
read_generate  a client's /api/generate -> Prompt
request_fields  what both requests share: options, format, thinking, keep_alive
result_matching which call a tool's result belongs to, without ids
write_answer   events, or Answer -> a client's answer, for either; the answer to a request that only loads
embed          /api/embed and /api/embeddings
listing        /api/tags, /api/show, /api/ps, /api/version
"""
