"""Is this answer well formed? Cheap checks, fed event by event; they fail only what is provably wrong.

finding       what a check found: proved, or only noted
text_buffer   text that grows piece by piece, in linear time
schema        JSON text to its value; whether a value satisfies a schema: yes, no, or not known
expectation   what the request implies for its answer, computed once
check_calls   tools, arguments, ids, `tool_choice`, repetition
fences        which lines are code, and the text of each closed block of code
check_code    Python, JSON and diffs in labelled fences
check_edits   search/replace blocks
check_text    empty answers, leaked markers, loops, truncation, the requested JSON
verifier      runs all checks on one answer; decides which events may pass, and when
answer_check  the checks of one answer, as the relay and the translators use them

Nothing here knows whether an answer is right: a wrong one that is well formed passes.
"""
