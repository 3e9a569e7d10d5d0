"""Every dialect to every other: requests one way, answers the other way. Pure.

corners     the table: every place where dialects do not meet, what is done there, what is lost
traits      what a serve is like where dialects leave room
dialogue    what readers and writers are
chat, messages, responses   each dialect, to be read and written: its request and its answer
completions, ollama         dialects of older clients: their requests are read, their answers written
calls, thinking, media      what several dialects need: ids, names and arguments; signatures; images
remote      images that are given by their address: where they stand, and what takes their place
prepare     a prompt made fit for one serve, pass by pass
sequence    one open block at a time
translate   one request's translation: the dialects put together
"""
