"""OpenAI Responses (https://platform.openai.com/docs/api-reference/responses), as Codex and the official SDKs speak it.

read_prompt    a client's request -> Prompt
write_prompt   Prompt -> a serve's request
read_answer    a serve's answer -> events, or Answer
write_answer   events, or Answer -> a client's answer
"""
