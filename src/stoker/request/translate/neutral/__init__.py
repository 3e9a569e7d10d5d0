"""What every dialect is read into and written from, and what several dialects share.

protocols        the protocols of readers and writers
gaps             the table of places where dialects differ, and what is lost there
capabilities     what a serve takes where its dialect leaves room
model_families   what each Claude and each GPT takes
turns            turns, tool results and tools, as the messages of any dialect become them
calls            tool calls and the schemas of their arguments
thinking, media  reasoning and its signatures; images and files
block_sequencer  one open block at a time
json_text        decoding, with errors that name the place
"""
