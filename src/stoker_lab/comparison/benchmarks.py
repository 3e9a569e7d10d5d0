"""Two benchmarks, step by step: which of the two is better. Pure.

It knows which way each figure is better, what a step is, and what makes two benchmarks hard to compare;
`comparison.runs` knows nothing of a kind and sets any two runs beside each other.
A difference counts where the spreads over repeats do not touch; with one repeat, where it is larger than 5 %.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from stoker.domain.run import Number, Outcome, Run

COMPARED = {
    "output_rate": True, "request_rate": True, "decode_rate": True, "goodput_share": True, "ttft_p50": False,
    "ttft_p95": False, "ttft_max": False, "tpot_p50": False, "tpot_p95": False, "e2e_p50": False,
    "requests_failed": False,
}  # fmt: skip
"""Which figures stand beside each other; True: more is better."""
_NOISE = 0.05
_MATTERS = ("prompt_tokens_made", "output_tokens", "full_length", "preset", "modes", "slo_ttft", "slo_tpot")


class FigureRating(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNKNOWN = "unknown"


class FigureSpread(NamedTuple):
    value: float | None
    low: float | None = None
    high: float | None = None


class ComparedFigure(NamedTuple):
    """One figure of one step, of the older run and of the newer one."""

    step: str
    figure: str
    a: FigureSpread
    b: FigureSpread
    change: float | None
    """The relative change; 0.1: the newer figure is 10 % higher."""
    rating: FigureRating

    @property
    def is_first(self) -> bool:
        return self.figure == next(iter(COMPARED))


class BenchmarkComparison(NamedTuple):
    a: Run
    b: Run
    rows: list[ComparedFigure]
    cautions: list[str]
    """What makes the two hard to compare, a sentence each."""
    unmatched_steps: list[str]


def compare_benchmarks(a: Run, b: Run) -> BenchmarkComparison:
    """Every step that both have. Raises ValueError if one of them is not a benchmark."""
    for run in (a, b):
        if run.kind.value != "benchmark":
            raise ValueError(f"{run.id} is not a benchmark")
    first = {one.name: one.numbers for one in a.findings if "requests_ok" in one.numbers}
    second = {one.name: one.numbers for one in b.findings if "requests_ok" in one.numbers}
    rows = [
        found
        for step in first
        if step in second
        for figure, more in COMPARED.items()
        if (found := _row(step, figure, more, _cell(first[step], figure), _cell(second[step], figure))) is not None
    ]
    alone = [name for name in (*first, *second) if name not in first or name not in second]
    return BenchmarkComparison(a, b, rows, _cautions(a, b), alone)


def _cell(numbers: dict[str, Number], figure: str) -> FigureSpread:
    return FigureSpread(numbers.get(figure), numbers.get(f"{figure}.low"), numbers.get(f"{figure}.high"))


def _row(step: str, figure: str, more: bool, a: FigureSpread, b: FigureSpread) -> ComparedFigure | None:
    if a.value is None and b.value is None:
        return None
    if a.value is None or b.value is None:
        return ComparedFigure(step, figure, a, b, None, FigureRating.UNKNOWN)
    change = b.value / a.value - 1 if a.value else None
    return ComparedFigure(step, figure, a, b, change, _rating(more, a, b, change))


def _rating(more: bool, a: FigureSpread, b: FigureSpread, change: float | None) -> FigureRating:
    if a.value is None or b.value is None or a.value == b.value:
        return FigureRating.SAME
    if a.low is not None and a.high is not None and b.low is not None and b.high is not None:
        is_same = a.low <= b.high and b.low <= a.high
    else:
        is_same = change is not None and abs(change) <= _NOISE
    if is_same:
        return FigureRating.SAME
    return FigureRating.BETTER if (b.value > a.value) is more else FigureRating.WORSE


def _cautions(a: Run, b: Run) -> list[str]:
    found = []
    if a.subject.fingerprint.parts != b.subject.fingerprint.parts:
        mine, other = a.subject.fingerprint.parts, b.subject.fingerprint.parts
        names = [name for name in {**mine, **other} if mine.get(name) != other.get(name)]
        found.append(f"they measured different things: {', '.join(names)}")
    if a.subject.route != b.subject.route:
        found.append(f"one went over {a.subject.route}, the other over {b.subject.route}")
    for name in _MATTERS:
        if (before := a.settings.get(name)) != (after := b.settings.get(name)):
            found.append(f"another {name}: {_text(before)} and {_text(after)}")
    if a.machine.get("processor") != b.machine.get("processor") or a.machine.get("gpus") != b.machine.get("gpus"):
        found.append("they ran on different machines")
    for run in (a, b):
        if run.outcome is Outcome.INTERRUPTED:
            found.append(f"{run.id} was interrupted")
    return found


def _text(raw: msgspec.Raw | None) -> str:
    return "nothing" if raw is None else bytes(raw).decode()
