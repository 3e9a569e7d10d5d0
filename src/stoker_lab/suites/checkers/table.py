"""From kind of check to the function that makes it: the table is all there is to know. Pure but for `run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stoker.domain.answer import Answer, StopReason
from stoker_lab.suites import check_kinds
from stoker_lab.suites.checkers.code import CheckBroken, RunProgram, check_code
from stoker_lab.suites.checkers.edits import check_edit
from stoker_lab.suites.checkers.form import check_format
from stoker_lab.suites.checkers.plain_text import (
    Grade,
    check_contains,
    check_copy,
    check_exact,
    check_facts,
    check_line,
    check_needle,
    check_number,
)
from stoker_lab.suites.checkers.plans import check_plan
from stoker_lab.suites.checkers.structured import check_abstain, check_calls, check_json

Checker = Callable[[Any, Answer], Grade]

CHECKERS: Mapping[type[check_kinds.CheckKind], Checker] = {
    check_kinds.CallsCheck: check_calls,
    check_kinds.AbstainCheck: check_abstain,
    check_kinds.JsonCheck: check_json,
    check_kinds.NumberCheck: check_number,
    check_kinds.CopyCheck: check_copy,
    check_kinds.ExactCheck: check_exact,
    check_kinds.ContainsCheck: check_contains,
    check_kinds.NeedleCheck: check_needle,
    check_kinds.FactsCheck: check_facts,
    check_kinds.FormatCheck: check_format,
    check_kinds.LineCheck: check_line,
    check_kinds.EditBlocksCheck: check_edit,
    check_kinds.PlanCheck: check_plan,
}
UNENDED = {StopReason.LENGTH: "the answer was cut off", StopReason.CONTEXT: "the context was full"}


def check_answer(check: check_kinds.FixtureCheck, answer: Answer, run: RunProgram) -> Grade:
    """1. an unfinished answer  2. several checks  3. a program, by running it  4. the table.

    Raises CheckBroken if the check itself failed, which says nothing about the model.
    """
    try:
        if answer.stop in UNENDED:  # 1
            return Grade(False, UNENDED[answer.stop])
        if isinstance(check, check_kinds.AllChecks):  # 2
            grades = (CHECKERS[type(one)](one, answer) for one in check.checks)
            return next((grade for grade in grades if not grade.passed), Grade(True))
        if isinstance(check, check_kinds.CodeCheck):  # 3
            return check_code(check, answer, run)
        return CHECKERS[type(check)](check, answer)  # 4
    except CheckBroken:
        raise
    except Exception as error:
        raise CheckBroken(f"{type(check).__name__.lower()}: {type(error).__name__}: {error}"[:200]) from error
