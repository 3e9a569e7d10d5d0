"""Is this answer built as it has to be? Cheap checks, fed event by event; they fail only what is provably wrong.

finding       what a check found: proved (`certain`) or only noted
text_buffer   text that grows piece by piece, in linear time
json_value    JSON text to its value, or the reason why it is none
schema        a JSON schema as the client wrote it
schema_rules  does a value keep to it: yes, no, or not known
expectation   what the request lets one expect, made once
check_calls   tools, arguments, ids, `tool_choice`, repetition
check_json    the wanted JSON, after its schema
fences        which lines are code, and the text of each closed block of code
brackets      do brackets match
check_code    Python, JSON and diffs in labelled fences
check_diff    hunks of unified diffs against their headers
check_edits   search/replace blocks
markers       marks of chat templates
loops         an end that repeats itself
check_text    empty answers, leaked markers, loops, cuts
held_events   events that wait
verifier      all of them over one answer; what may flow, and when

Nothing here knows whether an answer is right: a wrong one that is well built passes.
"""
