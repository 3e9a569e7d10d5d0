"""Ollama's own API (https://github.com/ollama/ollama/blob/main/docs/api.md). Only clients speak it.

read_prompt    a client's /api/chat or /api/generate -> Prompt
write_answer   events, or Answer -> a client's answer, for either; the answer to a request that only loads
embed          /api/embed and /api/embeddings
listing        /api/tags, /api/show, /api/ps, /api/version
"""
