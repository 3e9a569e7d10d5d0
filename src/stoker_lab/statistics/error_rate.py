"""How often something went wrong, with its interval. Pure."""

from __future__ import annotations

from typing import NamedTuple

from stoker_lab.statistics.stats import Interval, wilson


class ErrorRate(NamedTuple):
    """How often something went wrong."""

    errors: int
    n: int

    @property
    def value(self) -> float | None:
        return self.errors / self.n if self.n else None

    @property
    def interval(self) -> Interval:
        """95 %, Wilson."""
        return wilson(self.errors, self.n)
