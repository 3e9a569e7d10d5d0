"""Medians, percentiles and plain tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple


class Spread(NamedTuple):
    """One figure over several rounds."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread | None:
    """Median, minimum and maximum; None if there is no value, never 0."""
    return Spread(median(values), min(values), max(values)) if values else None


def nearest_rank(values: Sequence[float], share: float) -> float | None:
    """The percentile by nearest rank (`share` 0.99: p99), which is one of the values; `stats.percentile` interpolates.
    None: there are no values."""
    if not values:
        return None
    ordered = sorted(values)
    rank = -(-len(ordered) * share // 1)  # ceiling
    return ordered[max(0, min(len(ordered), int(rank)) - 1)]


def show(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def show_spread(value: Spread | None, digits: int = 1) -> str:
    """`12.3 (11.9 to 13.0)`; only the median if there was one round."""
    if value is None or value.low == value.high:
        return show(value.median if value else None, digits)
    return f"{value.median:.{digits}f} ({value.low:.{digits}f} to {value.high:.{digits}f})"


def ratio(value: Spread | None, reference: Spread | None) -> float | None:
    """How many times the reference's median; None where either is missing or the reference is not positive."""
    if value is None or reference is None or reference.median <= 0:
        return None
    return value.median / reference.median


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up: reads well on a terminal and pastes into the docs."""
    widths = [max(len(line[column]) for line in (head, *rows)) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join((line(head), rule, *(line(row) for row in rows)))
