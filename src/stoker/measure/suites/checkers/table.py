"""From kind of check to the function that makes it: the table is all there is to know. Pure but for `run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stoker.domain.answer import Answer, Stop
from stoker.measure.suites import check_kinds
from stoker.measure.suites.checkers.code import Broken, Run, code
from stoker.measure.suites.checkers.edits import edit
from stoker.measure.suites.checkers.form import form
from stoker.measure.suites.checkers.plain_text import Grade, contains, copy, exact, facts, line, needle, number
from stoker.measure.suites.checkers.plans import plan
from stoker.measure.suites.checkers.structured import abstain, calls, json_value

Checker = Callable[[Any, Answer], Grade]

CHECKERS: Mapping[type[check_kinds.Kind], Checker] = {
    check_kinds.Calls: calls,
    check_kinds.Abstain: abstain,
    check_kinds.Json: json_value,
    check_kinds.Number: number,
    check_kinds.Copy: copy,
    check_kinds.Exact: exact,
    check_kinds.Contains: contains,
    check_kinds.Needle: needle,
    check_kinds.Facts: facts,
    check_kinds.Format: form,
    check_kinds.Line: line,
    check_kinds.Edit: edit,
    check_kinds.Plan: plan,
}
UNENDED = {Stop.LENGTH: "the answer was cut off", Stop.CONTEXT: "the context was full"}


def judge(check: check_kinds.Check, answer: Answer, run: Run) -> Grade:
    """1. it never ended  2. all of several  3. a program, by running it  4. the table.

    Raises Broken where the check could not be made, whatever the reason: that is no word about the model.
    """
    try:
        if answer.stop in UNENDED:  # 1
            return Grade(False, UNENDED[answer.stop])
        if isinstance(check, check_kinds.All):  # 2
            grades = (CHECKERS[type(one)](one, answer) for one in check.checks)
            return next((grade for grade in grades if not grade.passed), Grade(True))
        if isinstance(check, check_kinds.Code):  # 3
            return code(check, answer, run)
        return CHECKERS[type(check)](check, answer)  # 4
    except Broken:
        raise
    except Exception as error:
        raise Broken(f"{type(check).__name__.lower()}: {type(error).__name__}: {error}"[:200]) from error
