"""Trains the two tiny models that Stoker's demo and self-test run on a real llama.cpp.

Reading order: words (what is talked about), tasks (one generator per skill), talk (fixed questions and
answers), mix (conversations from tasks), template (how a conversation becomes text), tokenizer, net,
train, export, serve (the embedded llama.cpp), parity and gate (what came out, measured over HTTP).
"""
