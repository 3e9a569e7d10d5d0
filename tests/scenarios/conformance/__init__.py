"""Answers of the running program, judged strictly by others' models: the Open Responses schema, and the official SDKs.

stage      a Stoker with a serve of each dialect, the answers that they give, and how they are asked
"""
