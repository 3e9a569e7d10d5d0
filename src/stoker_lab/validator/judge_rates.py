"""How often is a judge of live answers wrong about a class? Its verdicts on `judge_cases`, in
STATE/validator/SERVE.judge.CLASS.jsonl, and what they say.

The first line names the model, the judge's rules and the cases; each further line is one verdict. An interrupted run
continues there. Answers of which the judge is not sure, or that have no verdict, are not counted: in live grading they
are dropped, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.domain.figures import counted
from stoker.domain.run import Fingerprint
from stoker_lab.artifacts import record_file
from stoker_lab.statistics.error_rate import ErrorRate

MIN_CASES = 20
"""So many right answers, and so many wrong ones, it has to have judged."""
MAX_FALSE_ALARMS = 0.05
"""Most of the right answers that it may fail: the suites' test denies below 95 %, so more would deny a tier that is
right.
"""
MAX_MISSES = 0.2
"""Most of the wrong answers that it may pass."""


class JudgeHeader(msgspec.Struct, frozen=True):
    identity: str
    execution: str
    rules: str
    """Digest of what the judge is told."""
    cases: str
    """Digest of the cases."""
    total: int
    """How many they are."""


class JudgedCase(msgspec.Struct, frozen=True):
    """The verdict on one answer."""

    digest: str
    right: bool
    """Whether the answer is right."""
    verdict: str
    """`pass`, `fail`, `unsure` or `unreadable`."""
    seconds: float
    tokens: int = 0


class JudgedCases(NamedTuple):
    """`header`: None if there is no file."""

    header: JudgeHeader | None = None
    verdicts: Mapping[str, JudgedCase] = {}


class JudgeRates(NamedTuple):
    false_alarms: ErrorRate
    """Right answers that it failed."""
    misses: ErrorRate
    """Wrong answers that it passed."""
    undecided: ErrorRate
    """Answers without a verdict, of all that it was asked about."""
    total: int
    seconds: float | None
    """Of one verdict, the median."""
    is_identified: bool = True
    """Whether it is known which model the judge is."""

    @property
    def is_complete(self) -> bool:
        return self.undecided.n >= self.total > 0

    @property
    def problem(self) -> str:
        """Why its grades do not count, in a few words; empty: they do."""
        alarms, misses = self.false_alarms, self.misses
        if not self.is_complete:
            return f"it was asked about {self.undecided.n} of {self.total} answers"
        for rate, kind in ((alarms, "right"), (misses, "wrong")):
            if rate.n < MIN_CASES:
                return f"it judged only {counted(rate.n, f'{kind} answer')}, and {MIN_CASES} are needed"
        if alarms.errors > MAX_FALSE_ALARMS * alarms.n:
            return f"it failed {alarms.errors} of {alarms.n} right answers"
        if misses.errors > MAX_MISSES * misses.n:
            return f"it passed {misses.errors} of {misses.n} wrong answers"
        if not self.is_identified:
            return "which model it is is not known, so nobody can tell that it is the one that was measured"
        return ""


def path_of(state: str | Path, serve: str, task_class: str) -> Path:
    return Path(state) / "validator" / f"{serve}.judge.{task_class}.jsonl"


def header_of(found: Fingerprint, rules: str, cases: str, total: int) -> JudgeHeader:
    return JudgeHeader(found.identity, found.execution, rules, cases, total)


def load(path: Path) -> JudgedCases:
    """Never raises: what cannot be read was not measured."""
    header, verdicts = record_file.load(path, JudgeHeader, JudgedCase)
    return JudgedCases(header, {one.digest: one for one in verdicts})


def rates_of(judged: JudgedCases) -> JudgeRates:
    verdicts = list(judged.verdicts.values())
    decided = [one for one in verdicts if one.verdict in ("pass", "fail")]
    seconds = sorted(one.seconds for one in verdicts)
    return JudgeRates(
        _rate(one.verdict == "fail" for one in decided if one.right),
        _rate(one.verdict == "pass" for one in decided if not one.right),
        ErrorRate(len(verdicts) - len(decided), len(verdicts)),
        0 if judged.header is None else judged.header.total,
        seconds[len(seconds) // 2] if seconds else None,
        judged.header is not None and bool(judged.header.identity),
    )


def _rate(wrong: Iterable[bool]) -> ErrorRate:
    found = list(wrong)
    return ErrorRate(sum(found), len(found))
