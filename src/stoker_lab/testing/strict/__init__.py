"""What the clouds' own APIs refuse. Off, unless the script says `strict_messages` or `strict_chat`.

strictness  which rules apply to which path
rules     Asked: what a rule sees; and the first rule that is broken
fields    tables of all fields and blocks
messages  Anthropic's rules: fields, names, sampling
blocks    Anthropic's rules inside messages
turns     Anthropic's rules between turns: calls and results, returned thinking
images    the media type of bytes
chat      OpenAI's rules for Chat Completions
"""
