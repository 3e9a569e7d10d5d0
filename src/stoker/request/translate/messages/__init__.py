"""Anthropic Messages (https://platform.claude.com/docs/en/api/messages).

read_prompt    a client's request -> Prompt
write_prompt   Prompt -> a serve's request
read_answer    a serve's answer -> events, or Answer
write_answer   events, or Answer -> a client's answer
"""
