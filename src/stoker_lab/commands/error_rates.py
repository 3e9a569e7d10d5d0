"""How often a model judged wrongly: a line of a table, and fields for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.cli.console import figures

if TYPE_CHECKING:
    from stoker_lab.statistics.error_rate import ErrorRate


def rate_cells(what: str, rate: ErrorRate) -> tuple[str, str, str, str]:
    """A line of the table."""
    return what, f"{rate.errors} of {rate.n}", _percent(rate), _interval(rate)


def _percent(rate: ErrorRate) -> str:
    return figures.UNKNOWN if rate.value is None else f"{100 * rate.value:.0f} %"


def _interval(rate: ErrorRate) -> str:
    return figures.UNKNOWN if not rate.n else f"{100 * rate.interval.low:.0f} to {100 * rate.interval.high:.0f} %"


def rate_fields(rate: ErrorRate) -> dict[str, object]:
    return {"count": rate.errors, "n": rate.n, "rate": rate.value, "low": rate.interval.low,
            "high": rate.interval.high}  # fmt: skip
