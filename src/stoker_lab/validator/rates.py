"""The verdicts of a validator on the planted faults, and its error rates; in STATE/validator/SERVE.WORDING.jsonl.

The first line names the model; each further line is one verdict. An interrupted run continues there. A prompt of one's
own has a file of its own, because the wording decides as much as the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.domain.run import Fingerprint
from stoker_lab.artifacts import record_file
from stoker_lab.statistics.error_rate import ErrorRate
from stoker_lab.validator.planted_faults import BlockToJudge, blocks_to_judge
from stoker_lab.validator.wording import wording_of


class VerdictsHeader(msgspec.Struct, frozen=True):
    identity: str
    execution: str
    configured: str = ""
    """Hex digest of the model as the configuration and its files say it; empty: an older file."""

    def is_same_model(self, now: VerdictsHeader) -> bool:
        """Whether verdicts of this one count for the model `now`."""
        is_configured = not self.configured or self.configured == now.configured
        return is_configured and (self.identity, self.execution) == (now.identity, now.execution)


class StoredVerdict(msgspec.Struct, frozen=True):
    """The verdict on one block."""

    digest: str
    outcome: str
    """`pass`, `fail` or `unreadable`."""
    seconds: float
    tokens: int = 0


class StoredVerdicts(NamedTuple):
    """`header`: None if there is no file."""

    header: VerdictsHeader | None = None
    verdicts: Mapping[str, StoredVerdict] = {}
    """Verdicts by the digest of their block."""


class ValidatorRates(NamedTuple):
    """How often a validator is wrong."""

    false_alarms: ErrorRate
    """Right blocks that did not pass: failed, or the answer could not be read."""
    misses: ErrorRate
    """Blocks with a fault that passed."""
    misses_by_kind: Mapping[str, ErrorRate]
    unreadable: ErrorRate
    """Answers that could not be read, of all."""
    total: int
    """Blocks of the suite."""
    seconds: float | None
    """Of one verdict, the median."""

    @property
    def is_complete(self) -> bool:
        return self.unreadable.n == self.total

    @property
    def is_chance(self) -> bool:
        """Whether it may be no better than a coin: the interval of what it passes more of the right blocks than of the
        wrong ones reaches 0. It does wherever the interval of the miss rate reaches 1 less the false-alarm rate.

        Newcombe, Interval estimation for the difference between independent proportions, Statistics in Medicine 17
        (1998) 873-890, method 10.
        """
        alarms, misses = self.false_alarms.value, self.misses.value
        if alarms is None or misses is None:
            return True
        right_may_be_less = self.false_alarms.interval.high - alarms
        wrong_may_be_more = self.misses.interval.high - misses
        return 1 - alarms - misses <= math.hypot(right_may_be_less, wrong_may_be_more)


def path_of(state: str | Path, serve: str, prompt: str) -> Path:
    return Path(state) / "validator" / f"{serve}.{wording_of(prompt)}.jsonl"


def header_of(found: Fingerprint, configured: str) -> VerdictsHeader:
    return VerdictsHeader(found.identity, found.execution, configured)


def load_verdicts(path: Path) -> StoredVerdicts:
    """Never raises: what cannot be read was not measured."""
    header, verdicts = record_file.load(path, VerdictsHeader, StoredVerdict)
    return StoredVerdicts(header, {one.digest: one for one in verdicts})


def rates_of(verdicts: Mapping[str, StoredVerdict], blocks: Sequence[BlockToJudge] | None = None) -> ValidatorRates:
    """From the verdicts so far."""
    blocks = blocks_to_judge() if blocks is None else blocks
    judged = [(block, verdicts[block.digest]) for block in blocks if block.digest in verdicts]
    kinds = sorted({block.fault for block, _ in judged if block.fault})
    seconds = sorted(verdict.seconds for _, verdict in judged)
    return ValidatorRates(
        _rate(verdict.outcome != "pass" for block, verdict in judged if not block.fault),
        _rate(verdict.outcome == "pass" for block, verdict in judged if block.fault),
        {kind: _rate(verdict.outcome == "pass" for block, verdict in judged if block.fault == kind) for kind in kinds},
        _rate(verdict.outcome == "unreadable" for _, verdict in judged),
        len(blocks),
        seconds[len(seconds) // 2] if seconds else None,
    )


def _rate(outcomes: Iterable[bool]) -> ErrorRate:
    found = list(outcomes)
    return ErrorRate(sum(found), len(found))
