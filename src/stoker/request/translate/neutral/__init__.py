"""What every dialect is read into and written from, and what several dialects share.

protocols        the protocols of readers and writers
gaps             the table of places where dialects differ, and what is lost there
capabilities     what a serve takes where its dialect leaves room
model_families   what each Claude and each GPT takes
calls, thinking, media, schemas   tool calls; reasoning and its signatures; images; tools' arguments
block_sequencer  one open block at a time
json_text        decoding, with errors that name the place
"""
