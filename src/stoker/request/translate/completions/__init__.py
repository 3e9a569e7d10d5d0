"""OpenAI's legacy Completions (https://platform.openai.com/docs/api-reference/completions). Only clients speak it here.

read_prompt    a client's request -> Prompt
write_answer   events, or Answer -> a client's answer
"""
