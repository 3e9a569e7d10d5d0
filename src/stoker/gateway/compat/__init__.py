"""The paths of llama-swap and of llama.cpp's router, for clients that see, load and unload models by them.

endpoints      which path needs which program switched on, and what it answers
model_control  loads and unloads models, and shows which are loaded
log_tail       reads what is appended to log files
streams        replies that go on until the client leaves
"""
