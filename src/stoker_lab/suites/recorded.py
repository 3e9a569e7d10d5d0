"""Recorded answers to fixtures, graded again without a model: the same files give the same grades, anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.translate import answer_reader
from stoker_lab.suites.checkers.code import CheckBroken
from stoker_lab.suites.fixture import Fixture
from stoker_lab.suites.grading import CheckAnswer, GradedFixture, GradeOutcome, check_in_sandbox


class RecordedAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a file of recorded answers."""

    tier: str
    fixture: str
    """The fixture's id."""
    answer: dict[str, Any]
    """The body of the answer, as Chat Completions has it (not streamed)."""
    identity: str = ""
    execution: str = ""
    """Fingerprint of the model that answered, as results of `stoker eval` have it."""
    model: str = ""
    """Its name, by which the wording of the shipped fixtures is chosen."""
    seconds: float | None = None
    at: float = 0.0
    """Unix time."""


def parse_answers(data: bytes, shown: str) -> list[RecordedAnswer]:
    """From JSONL. Raises StokerError `bad_answers` with the line."""
    found = []
    for number, line in enumerate(data.splitlines(), start=1):
        if line.strip():
            try:
                found.append(msgspec.json.decode(line, type=RecordedAnswer))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                text = f"{shown}:{number}: is no recorded answer: {error}; docs/reference/cli.md has its keys"
                raise StokerError(text, code="bad_answers", status=400) from error
    return found


def grade_recorded(
    answers: Iterable[RecordedAnswer], fixtures: Iterable[Fixture], check: CheckAnswer = check_in_sandbox
) -> list[GradedFixture]:
    """In the order of the answers. Answers to other fixtures than these have no grade."""
    known = {one.id: one for one in fixtures}
    return [_graded(one, known[one.fixture], check) for one in answers if one.fixture in known]


def _graded(one: RecordedAnswer, fixture: Fixture, check: CheckAnswer) -> GradedFixture:
    answer = answer_reader(Dialect.CHAT, Losses()).read_whole(one.answer)
    try:
        grade = check(fixture.check, answer)
        outcome, reason = GradeOutcome.PASSED if grade.passed else GradeOutcome.FAILED, grade.reason
    except CheckBroken as error:
        outcome, reason = GradeOutcome.CHECKER, str(error)
    return GradedFixture(
        fixture.id, fixture.digest, fixture.task_class, outcome, reason, one.seconds, answer.tokens.output
    )
