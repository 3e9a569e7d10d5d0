"""Who would have served what, had one chosen otherwise: from the paired table, without asking again. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from bench.routing.asking import Cell
from bench.routing.routing_stoker import CLOUD
from stoker.domain.tier import ProfileRow
from stoker_lab.statistics.stats import wilson


class Pair(NamedTuple):
    """One fixture: what each tier made of it, and what the router did."""

    task_class: str
    cells: Mapping[str, Cell]
    """By tier."""
    routed: Mapping[str, Cell]
    """By way of asking: `auto`, `auto:CLASS`."""


Policy = Callable[[Pair], Cell]


def pairs(asked: Iterable[Sequence[Cell]], routed: Mapping[str, Sequence[Cell]]) -> list[Pair]:
    """`asked`: for each tier its cells, in the order of the fixtures; `routed`: the same by way of asking."""
    ways = [dict(zip(routed, cells, strict=True)) for cells in zip(*routed.values(), strict=True)]
    rows = [{cell.tier: cell for cell in cells} for cells in zip(*asked, strict=True)]
    return [
        Pair(next(iter(cells.values())).task_class, cells, way) for cells, way in zip(rows, ways, strict=True)
    ]  # fmt: skip


def always(tier: str) -> Policy:
    return lambda pair: pair.cells[tier]


def routed(way: str) -> Policy:
    return lambda pair: pair.routed[way]


def by_class(table: Mapping[str, str]) -> Policy:
    """One tier for each class; a class that is not in the table goes to the cloud."""
    return lambda pair: pair.cells[table.get(pair.task_class, CLOUD)]


def oracle(tiers: Sequence[str]) -> Policy:
    """The cheapest tier that passes this very fixture; where none does, the cheapest."""
    return lambda pair: next((pair.cells[tier] for tier in tiers if pair.cells[tier].passed), pair.cells[tiers[0]])


def measured_best(rows: Iterable[ProfileRow], tiers: Sequence[str]) -> dict[str, str]:
    """The static table: for each class that of `tiers` with the highest pass rate at the suites; of equals the cheaper.

    `tiers`: from the cheapest.
    """
    rates = {(row.task_class, row.tier): row.passed / row.n for row in rows}
    return _best(rates, tiers)


def hindsight_best(pairs: Sequence[Pair], tiers: Sequence[str]) -> dict[str, str]:
    """The same, by what came out on the paired set itself: nobody could have known."""
    rates: dict[tuple[str, str], float] = {}
    for name in {pair.task_class for pair in pairs}:
        own = [pair for pair in pairs if pair.task_class == name]
        for tier in tiers:
            rates[name, tier] = sum(pair.cells[tier].passed for pair in own) / len(own)
    return _best(rates, tiers)


def _best(rates: Mapping[tuple[str, str], float], tiers: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    known = [one for one in rates if one[1] in tiers]
    for name, tier in sorted(known, key=lambda one: (-rates[one], tiers.index(one[1]))):
        found.setdefault(name, tier)
    return found


Bounds = Mapping[tuple[str, str], float]
"""By class and tier: the lower end of the pass rate's interval; a tier that was not measured has none."""


def bounds(rows: Iterable[ProfileRow]) -> dict[tuple[str, str], float]:
    return {(row.task_class, row.tier): wilson(row.passed, row.n).low for row in rows}


def threshold(least: float, lows: Bounds, local: Sequence[str], way: str) -> Policy:
    """The first of `local` tiers (from the cheapest) whose lower bound is at least `least`, else the cloud.

    The class is the one by which `way` of asking routed.
    """

    def policy(pair: Pair) -> Cell:
        name = pair.routed[way].routed_class
        chosen = next((tier for tier in local if lows.get((name, tier), 0.0) >= least), CLOUD)
        return pair.cells[chosen]

    return policy


def thresholds(lows: Bounds, local: Sequence[str]) -> list[float]:
    """Each that makes a difference, from `all to the cheapest` (0) to `all to the cloud` (2)."""
    return [0.0, *sorted({low for (_, tier), low in lows.items() if tier in local and low > 0}), 2.0]
