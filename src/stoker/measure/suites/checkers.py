"""From kind of check to the function that makes it: the table is all there is to know. Pure but for `run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stoker.domain.answer import Answer, Stop
from stoker.measure.suites import check as kinds
from stoker.measure.suites.code import Broken, Run, code
from stoker.measure.suites.edits import edit
from stoker.measure.suites.form import form
from stoker.measure.suites.plans import plan
from stoker.measure.suites.spoken import Grade, contains, copy, exact, facts, line, needle, number
from stoker.measure.suites.structured import abstain, calls, json_value

Checker = Callable[[Any, Answer], Grade]

CHECKERS: Mapping[type[kinds.Kind], Checker] = {
    kinds.Calls: calls,
    kinds.Abstain: abstain,
    kinds.Json: json_value,
    kinds.Number: number,
    kinds.Copy: copy,
    kinds.Exact: exact,
    kinds.Contains: contains,
    kinds.Needle: needle,
    kinds.Facts: facts,
    kinds.Format: form,
    kinds.Line: line,
    kinds.Edit: edit,
    kinds.Plan: plan,
}
UNENDED = {Stop.LENGTH: "the answer was cut off", Stop.CONTEXT: "the context was full"}


def judge(check: kinds.Check, answer: Answer, run: Run) -> Grade:
    """1. it never ended  2. all of several  3. a program, by running it  4. the table.

    Raises Broken where the check could not be made, whatever the reason: that is no word about the model.
    """
    try:
        if answer.stop in UNENDED:  # 1
            return Grade(False, UNENDED[answer.stop])
        if isinstance(check, kinds.All):  # 2
            grades = (CHECKERS[type(one)](one, answer) for one in check.checks)
            return next((grade for grade in grades if not grade.passed), Grade(True))
        if isinstance(check, kinds.Code):  # 3
            return code(check, answer, run)
        return CHECKERS[type(check)](check, answer)  # 4
    except Broken:
        raise
    except Exception as error:
        raise Broken(f"{type(check).__name__.lower()}: {type(error).__name__}: {error}"[:200]) from error
