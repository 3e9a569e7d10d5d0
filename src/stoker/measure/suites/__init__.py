"""Suites: is a model good enough for a class of tasks? Fixtures, each with a check that needs no judge.

fixture    one question and how its answer is checked, read from JSONL; the hash of a set
check      the kinds of checks, as data
checkers   a table from kind to pure function: the answer in, a grade out
    spoken   copies, words, numbers, needles, facts      structured   tool calls, JSON
    form     lines, bullets, words, case                 edits        search/replace that has to apply
    plans    the structural grade of a plan              code         what of an answer is the program
sandbox    runs a program with its tests, with limits; `inside` is what runs there
grade      asks, checks and feeds the sequential test, class by class; rows of a profile
planning   grades plans that were written before, byte for byte the same

data/      the fixtures in the package: made by scripts/suites.py
"""
