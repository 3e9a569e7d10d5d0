"""Grades of an unfinished measurement of a tier, so that it can go on: STATE/COMMAND/TIER.jsonl, of one model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.domain.run import Fingerprint
from stoker_lab.artifacts import record_file
from stoker_lab.suites.grading import GradedFixture, GradingProgress

COMMANDS = ("bootstrap", "calibrate")
"""What one of them was asked proves nothing in the other: a calibration asks again because answers got worse."""


class _Header(msgspec.Struct, frozen=True):
    identity: str
    execution: str
    began: float


class KeptGrades(NamedTuple):
    done: list[GradedFixture]
    began: float
    """Unix time at which the first of them was asked for."""
    add: Callable[[GradingProgress], None]


@contextmanager
def kept_grades(state: Path, command: str, tier: str, model: Fingerprint, fresh: bool) -> Iterator[KeptGrades]:
    """What `command` asked of just this model before it was interrupted; `fresh`: nothing. Raises OSError."""
    path = _path(state, command, tier)
    head, done = record_file.load(path, _Header, GradedFixture)
    goes_on = bool(
        head is not None and model.identity and (head.identity, head.execution) == (model.identity, model.execution)
    )
    if head is None or fresh or not goes_on:
        head, done, goes_on = _Header(model.identity, model.execution, time.time()), [], False
    with record_file.writer(path, head, goes_on) as write:

        def add(step: GradingProgress) -> None:
            if step.is_new:
                write(step.graded)

        yield KeptGrades(done, head.began, add)


def forget(state: Path, tier: str) -> None:
    """The tier was measured: what is older does not go on."""
    for command in COMMANDS:
        _path(state, command, tier).unlink(missing_ok=True)


def _path(state: Path, command: str, tier: str) -> Path:
    return state / command / f"{tier}.jsonl"
