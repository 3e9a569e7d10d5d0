"""From the kind of a check to the function that checks an answer. Pure, but for running a program.

table       CHECKERS by kind        plain_text  copies, words, numbers, needles, facts
structured  tool calls and JSON     form        lines, bullets, words, case
edits       search/replace blocks   plans       the structural grade of a plan    code  programs with tests
"""
