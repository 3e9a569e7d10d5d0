"""Two runs of any kind side by side: every number, how far apart, and what differs in what was measured. Pure.

No verdict: which way a number is better depends on the kind. `compare` has one for benchmarks, step by step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stoker.domain.run import Number, Run
from stoker.measure.fingerprint import Difference, difference
from stoker.measure.stats import Interval, wilson

_ENDS = (("_low", "_high"), (".low", ".high"), ("_min", "_max"), (".min", ".max"))
"""How numbers beside a number say where it lies."""


class Row(NamedTuple):
    """One number of both."""

    name: str
    before: Number
    after: Number
    difference: float | None
    share: float | None
    """The difference as a share of `before`."""
    spread_before: Interval | None
    spread_after: Interval | None

    @property
    def is_apart(self) -> bool:
        """Whether the spreads do not even touch: what is between them is more than chance."""
        first, second = self.spread_before, self.spread_after
        return first is not None and second is not None and (first.high < second.low or second.high < first.low)


class Comparison(NamedTuple):
    difference: Difference
    rows: list[Row]


def compare(before: Run, after: Run) -> Comparison:
    """Every number that one of them has, but for those that only say where another one lies."""
    names = sorted(before.numbers.keys() | after.numbers.keys())
    ends = {name + end for name in names for pair in _ENDS for end in pair}
    ends |= {name.rpartition(".")[0] + ".n" for name in names if name.endswith(".passed")}
    rows = [_row(name, before.numbers, after.numbers) for name in names if name not in ends]
    return Comparison(difference(before.subject.fingerprint, after.subject.fingerprint), rows)


def _row(name: str, before: Mapping[str, Number], after: Mapping[str, Number]) -> Row:
    spreads = spread(name, before), spread(name, after)
    first, second = before.get(name), after.get(name)
    if name.endswith(".passed"):  # of how many differs: so the rates are compared
        name = name.removesuffix(".passed") + " rate"
        first, second = _rate(name, first, before), _rate(name, second, after)
    change = second - first if first is not None and second is not None else None
    share = change / first if change is not None and first else None
    return Row(name, first, second, change, share, *spreads)


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
