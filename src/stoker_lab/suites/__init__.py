"""Suites: is a model good enough for a class of tasks? Fixtures, each with a check that needs no judge.

fixture       one question and how its answer is checked, read from JSONL; the hash of a set
check_kinds   the kinds of checks, as data             checkers/  from kind to the function that checks an answer; pure
grading       asks, checks and feeds the sequential test, class by class; rows of a quality profile
recorded      grades recorded answers again, offline
whole_suites  every fixture of a class, for an interval    time_left  how much of a run is left at most; pure
sandbox/      runs a program with its tests, with limits

data/         the fixtures in the package: made by scripts/suites.py
"""
