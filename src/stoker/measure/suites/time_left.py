"""An upper bound of the time left in a run: any class may end with its next fixture. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from stoker.measure.statistics.stats import SprtResult
from stoker.measure.suites.grading import GradingProgress


class TimeLeft:
    """`sizes`: fixtures by class, in the order in which classes are asked."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._total = sum(sizes.values())
        self._to_come = dict(sizes)
        """Questions left of the current class and of those after it."""
        self._present = ""
        self._own: list[float] = []
        self._every: list[float] = []

    def on_graded(self, step: GradingProgress, seconds: float) -> None:
        """One more. `seconds` since the one before it, asking and checking together; not counted of an earlier run."""
        name = step.graded.task_class
        if name != self._present:
            self._to_come.pop(self._present, None)  # it was ended early
            self._present, self._own = name, []
        self._to_come[name] = 0 if step.result is not SprtResult.UNDECIDED else max(0, self._to_come[name] - 1)
        if step.is_new:
            self._own.append(seconds)
            self._every.append(seconds)

    @property
    def share(self) -> float:
        """The share that is done, 0 to 1; it jumps when a class is decided."""
        return 1 - sum(self._to_come.values()) / max(1, self._total)

    @property
    def seconds(self) -> float | None:
        """An upper bound: the median time of this class times its remaining fixtures, plus the median of all classes
        times the others. None: unknown. Medians, because a single slow answer says little about the next ones.
        """
        if not self._every:
            return None
        rest = {name: count for name, count in self._to_come.items() if name != self._present}
        own = statistics.median(self._own or self._every) * self._to_come.get(self._present, 0)
        return own + statistics.median(self._every) * sum(rest.values())
