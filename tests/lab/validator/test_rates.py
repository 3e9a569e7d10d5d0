"""What is reckoned from a validator's verdicts, and the blocks that it judges."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from stoker_lab.artifacts import record_file
from stoker_lab.validator.planted_faults import PlantedFault, blocks_to_judge, planted_faults
from stoker_lab.validator.rates import (
    StoredVerdict,
    ValidatorRates,
    VerdictsHeader,
    load_verdicts,
    path_of,
    rates_of,
)


def judged(passed_right: int, passed_wrong: int) -> ValidatorRates:
    """So many of the 60 right and the 60 wrong blocks passed."""
    left = {True: passed_right, False: passed_wrong}
    found = {}
    for block in blocks_to_judge():
        is_right = not block.fault
        outcome = "pass" if left[is_right] > 0 else "fail"
        left[is_right] -= 1
        found[block.digest] = StoredVerdict(block.digest, outcome, 0.1)
    return rates_of(found)


@pytest.mark.parametrize("one", planted_faults(), ids=lambda one: one.id)
def test_the_right_block_passes_its_tests_and_the_wrong_one_does_not(one: PlantedFault) -> None:
    ast.parse(one.wrong)
    exec(one.right + one.tests, {})
    with pytest.raises(Exception):  # noqa: B017
        exec(one.wrong + one.tests, {})


def test_there_are_as_many_faults_of_logic_as_of_interfaces() -> None:
    assert Counter(block.fault for block in blocks_to_judge()) == {"": 60, "logic": 30, "api": 30}
    assert len({block.digest for block in blocks_to_judge()}) == 120


def test_rates_are_shares_of_right_and_of_wrong_blocks() -> None:
    rates = judged(54, 15)
    assert (rates.false_alarms.value, rates.misses.value, rates.is_complete) == (0.1, 0.25, True)
    assert rates.misses_by_kind["logic"].n == rates.misses_by_kind["api"].n == 30
    assert rates.misses.interval.low < 0.25 < rates.misses.interval.high


@pytest.mark.parametrize(
    ("right", "wrong", "is_chance"),
    [(60, 0, False), (54, 15, False), (45, 25, False), (60, 60, True), (0, 0, True), (30, 30, True), (60, 59, True),
     (36, 29, True), (10, 40, True)],
)  # fmt: skip
def test_a_validator_that_passes_faults_as_readily_is_no_better_than_chance(
    right: int, wrong: int, is_chance: bool
) -> None:
    assert judged(right, wrong).is_chance is is_chance


def test_an_answer_that_cannot_be_read_is_a_false_alarm_and_no_miss() -> None:
    rates = rates_of({one.digest: StoredVerdict(one.digest, "unreadable", 0.1) for one in blocks_to_judge()})
    assert (rates.false_alarms.value, rates.misses.value, rates.unreadable.value) == (1.0, 0.0, 1.0)
    assert rates.is_chance


def test_what_was_not_asked_is_not_measured() -> None:
    rates = rates_of({})
    assert (rates.false_alarms.value, rates.is_complete, rates.is_chance) == (None, False, True)


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    path = path_of(tmp_path, "small", "a prompt")
    path.parent.mkdir()
    path.write_bytes(
        record_file.line(VerdictsHeader("i", "e")) + record_file.line(StoredVerdict("d", "pass", 1.0)) + b'{"di'
    )
    assert list(load_verdicts(path).verdicts) == ["d"]
    assert load_verdicts(path_of(tmp_path, "small", "another prompt")).header is None
