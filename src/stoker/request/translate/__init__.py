"""Every dialect to every other: requests one way, answers the other way. Pure.

neutral/       the form that every dialect is read into and written from
chat, messages, responses   each reads and writes requests and answers of its dialect
completions, ollama         dialects of older clients: read requests, write answers
remote_images  images given by URL: finds them in a body, and puts fetched images in their place
prepare        adapts a prompt to one serve, pass by pass
vendor_rules   what Anthropic and OpenAI refuse for one of their models, put right
pass_through   the few changes to a request that otherwise passes through
checked_reply  a reply that passes through while a check reads it
restore        an answer with the client's own tool names and arguments
translate      one request's translation: puts the dialects together
"""
