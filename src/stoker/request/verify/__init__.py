"""Is this answer well formed? Cheap checks, fed event by event; they fail only what is provably wrong.

finding       what a check found: proved, or only noted
text_buffer   text that grows piece by piece, in linear time
json_value    parses JSON text to a value, or says why it cannot
schema        a JSON schema as the client wrote it
schema_rules  whether a value satisfies the schema: yes, no, or not known
expectation   what the request implies for its answer, computed once
check_calls   tools, arguments, ids, `tool_choice`, repetition
check_json    the requested JSON, against its schema
fences        which lines are code, and the text of each closed block of code
brackets      do brackets match
check_code    Python, JSON and diffs in labelled fences
check_diff    hunks of unified diffs against their headers
check_edits   search/replace blocks
markers       markers of chat templates
loops         endings that repeat themselves
check_text    empty answers, leaked markers, loops, truncation
held_events   events that are held back
verifier      runs all checks on one answer; decides which events may pass, and when

Nothing here knows whether an answer is right: a wrong one that is well formed passes.
"""
