"""Every dialect to every other: requests one way, answers the other way. Pure.

neutral/    what every dialect is read into and written from
chat, messages, responses   each dialect, to be read and written: its request and its answer
completions, ollama         dialects of older clients: their requests are read, their answers written
remote      images that are given by their address: where they stand, and what takes their place
prepare     a prompt made fit for one serve, pass by pass
tidy        what changes in a request that otherwise passes through; `watched`: its answer, seen by a check
translate   one request's translation: the dialects put together
"""
