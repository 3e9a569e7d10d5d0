"""What the clouds' own APIs refuse. Off, unless the script says `strict_messages` or `strict_chat`.

strictness  which rules hold where
rules     Asked: what a rule sees; and the first rule that is broken
fields    tables: the fields and blocks that there are
messages  Anthropic's rules: fields, names, sampling
blocks    Anthropic's rules inside messages
turns     Anthropic's rules between turns: calls and results, thinking that comes back
images    the media type that bytes have
chat      OpenAI's rules for Chat Completions
"""
