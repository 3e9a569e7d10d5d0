"""An interrupted measurement of a tier goes on with its own answers only."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.domain.run import Fingerprint
from stoker_lab.commands.kept_grades import forget, kept_grades
from stoker_lab.statistics.stats import SprtResult
from stoker_lab.suites.grading import GradedFixture, GradeOutcome, GradingProgress

KNOWN = Fingerprint("i", "e")
GRADE = GradedFixture("chat-1", "d", "chat", GradeOutcome.PASSED)


def interrupted(state: Path, command: str, model: Fingerprint = KNOWN) -> float:
    with kept_grades(state, command, "small", model, fresh=True) as kept:
        kept.add(GradingProgress(GRADE, True, 1, 1, 60, SprtResult.UNDECIDED))
    return kept.began


def left(state: Path, command: str, model: Fingerprint = KNOWN) -> tuple[list[GradedFixture], float]:
    with kept_grades(state, command, "small", model, fresh=False) as kept:
        return kept.done, kept.began


def test_it_goes_on_with_what_the_same_command_asked_of_the_same_model(tmp_path: Path) -> None:
    began = interrupted(tmp_path, "bootstrap")
    assert left(tmp_path, "bootstrap") == ([GRADE], began)
    assert left(tmp_path, "calibrate")[0] == [], "those answers may be from before the alarm"
    assert left(tmp_path, "bootstrap", Fingerprint("other", "e"))[0] == []


def test_nothing_goes_on_once_the_tier_was_measured(tmp_path: Path) -> None:
    for command in ("bootstrap", "calibrate"):
        interrupted(tmp_path, command)
    forget(tmp_path, "small")
    assert [left(tmp_path, command)[0] for command in ("bootstrap", "calibrate")] == [[], []]


@pytest.mark.parametrize("torn", [b'{"fixture":"cha', b"i e\n"])
def test_a_torn_line_and_a_file_of_an_earlier_version_are_as_if_not_there(tmp_path: Path, torn: bytes) -> None:
    interrupted(tmp_path, "bootstrap")
    path = tmp_path / "bootstrap" / "small.jsonl"
    is_earlier = torn.endswith(b"\n")
    path.write_bytes(torn + path.read_bytes() if is_earlier else path.read_bytes() + torn)
    assert left(tmp_path, "bootstrap")[0] == ([] if is_earlier else [GRADE])


def test_of_a_model_that_is_not_known_nothing_is_kept(tmp_path: Path) -> None:
    interrupted(tmp_path, "bootstrap", Fingerprint())
    assert left(tmp_path, "bootstrap", Fingerprint())[0] == []
