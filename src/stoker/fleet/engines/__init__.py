"""What to run for a serve, and when it is ready.

plan        which command line: the serve's own, or llama.cpp's
generic     any `cmd` with placeholders (engine `openai`)
llama_cpp   llama-server from PATH, or the embedded engine
embedded    the embedded engine's own main program
launch      Place and Launch: what goes into a command line, what comes out
weights     a look at GGUF files on disk
readiness   health, the exact served id, a canary (http: the client for it; facts: what the engine tells)
last_words  what an engine said before it ended, and what to do about it
"""
