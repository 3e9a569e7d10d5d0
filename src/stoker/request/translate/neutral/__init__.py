"""What every dialect is read into and written from, and what several dialects share.

dialogue   the protocols of readers and writers     corners    the table of places where dialects do not meet
traits     what a serve is like where dialects leave room
calls, thinking, media, schemas   tool calls; reasoning and its signatures; images; tools' arguments
sequence   one open block at a time                 json_text  decoding, with errors that say where
"""
