"""Two runs of any kind side by side: every number, how far apart, and what differs in what was measured. Pure.

Nothing is rated: which way a number is better depends on the kind. `benchmarks` rates benchmarks, step by step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stoker.domain.run import Number, Run, RunKind
from stoker_lab.artifacts.fingerprint import FingerprintDifference, difference
from stoker_lab.statistics.stats import Interval, wilson

_ENDS = (("_low", "_high"), (".low", ".high"), ("_min", "_max"), (".min", ".max"))
"""Suffixes of the numbers that give the spread of another number."""


MAX_ROWS = 12
"""How many rows are shown by default."""
_OF_BENCHMARKS = (
    "output_rate", "peak_output_rate", "knee_clients", "request_rate", "decode_rate", "ttft_p50", "ttft_p95",
    "tpot_p50", "tpot_p95", "e2e_p50", "goodput_share", "requests_failed", "cached_share", "cold_ttft", "ttft_max",
    "stall_max", "drift",
)  # fmt: skip
"""The figures of a benchmark that matter, the first one most; of each step there are many more."""
_UNITS = (
    (("ttft_", "ttfo_", "tpot_", "ntpot_", "e2e_", "itl_", "icl_", "stall_", "cold_ttft"), "ms"),
    (("request_rate", "goodput"), "1/s"),
    (("output_rate", "decode_rate", "knee_output_rate", "peak_output_rate"), "tokens/s"),
    (("knee_clients", "clients"), "clients"),
    (("seconds",), "s"),
    (("input_tokens", "output_tokens", "cached_tokens", "prompt_tokens", "prompt_min", "prompt_max", "context",
      "kv_tokens"), "tokens"),
)  # fmt: skip


class ComparedNumber(NamedTuple):
    name: str
    before: Number
    after: Number
    difference: float | None
    share: float | None
    """The difference as a share of `before`."""
    spread_before: Interval | None
    spread_after: Interval | None

    @property
    def unit(self) -> str:
        """Of the number; empty: a count, or a share of 1."""
        return unit_of(self.name)

    @property
    def ratio(self) -> float | None:
        """`after` as a multiple of `before`."""
        return self.after / self.before if self.before and self.after is not None else None

    @property
    def spreads_are_apart(self) -> bool:
        """Whether the spreads do not even touch: what is between them is more than chance."""
        first, second = self.spread_before, self.spread_after
        return first is not None and second is not None and (first.high < second.low or second.high < first.low)


class RunComparison(NamedTuple):
    fingerprint_difference: FingerprintDifference
    rows: list[ComparedNumber]


def compare_runs(before: Run, after: Run) -> RunComparison:
    """Every number that one of them has, but for those that only say where another one lies."""
    names = sorted(before.numbers.keys() | after.numbers.keys())
    ends = {name + end for name in names for pair in _ENDS for end in pair}
    ends |= {name.rpartition(".")[0] + ".n" for name in names if name.endswith(".passed")}
    rows = [_row(name, before.numbers, after.numbers) for name in names if name not in ends]
    return RunComparison(difference(before.subject.fingerprint, after.subject.fingerprint), rows)


def comparison_document(before: Run, after: Run) -> dict[str, Any]:
    """What `stoker results compare --json` prints: the rows that matter first, then the others by name."""
    found = compare_runs(before, after)
    matters = most_important(found.rows, before.kind)
    rest = [row for row in found.rows if row not in matters]
    rows = [
        row._asdict()
        | {"is_apart": row.spreads_are_apart, "unit": row.unit, "ratio": row.ratio, "matters": row in matters}
        for row in (*matters, *rest)
    ]
    different = found.fingerprint_difference._asdict()
    return {"before": before.id, "after": after.id, "different": different, "rows": rows}


def most_important(rows: Sequence[ComparedNumber], kind: RunKind) -> list[ComparedNumber]:
    """The rows that matter, at most MAX_ROWS of them.

    Of benchmarks the figures of a table; of anything else 1. what is apart  2. rates  3. what changed, the most first.
    """
    known = [row for row in rows if row.before is not None or row.after is not None]
    if kind is RunKind.BENCHMARK:
        place = {name: at for at, name in enumerate(_OF_BENCHMARKS)}
        return sorted((row for row in known if row.name in place), key=lambda row: place[row.name])[:MAX_ROWS]

    def weight(row: ComparedNumber) -> tuple[bool, bool, float]:
        return not row.spreads_are_apart, not row.name.endswith(" rate"), -abs(row.share or 0.0)

    return sorted(known, key=weight)[:MAX_ROWS]


def unit_of(name: str) -> str:
    """`ms`, `tokens/s`...; empty: a count, or a share of 1."""
    if name.endswith("_share"):
        return ""
    figure = name if name.startswith("cold_") else name.rpartition(".")[2]
    return next((unit for starts, unit in _UNITS if figure.startswith(starts)), "")


def _row(name: str, before: Mapping[str, Number], after: Mapping[str, Number]) -> ComparedNumber:
    spreads = spread(name, before), spread(name, after)
    first, second = before.get(name), after.get(name)
    if name.endswith(".passed"):  # of how many differs: so the rates are compared
        name = name.removesuffix(".passed") + " rate"
        first, second = _rate(name, first, before), _rate(name, second, after)
    change = second - first if first is not None and second is not None else None
    share = change / first if change is not None and first else None
    return ComparedNumber(name, first, second, change, share, *spreads)


def _rate(name: str, passed: Number, numbers: Mapping[str, Number]) -> Number:
    n = numbers.get(name.removesuffix(" rate") + ".n")
    return passed / n if passed is not None and n else None


def spread(name: str, numbers: Mapping[str, Number]) -> Interval | None:
    """Where the number lies: as the run says, or Wilson's interval of a rate with its `.n`; None: it does not say."""
    if name.endswith(".passed"):
        passed, n = numbers.get(name), numbers.get(name.removesuffix("passed") + "n")
        return wilson(int(passed), int(n)) if passed is not None and n else None
    for low, high in _ENDS:
        least, most = numbers.get(name + low), numbers.get(name + high)
        if least is not None and most is not None:
            return Interval(float(least), float(most))
    return None
