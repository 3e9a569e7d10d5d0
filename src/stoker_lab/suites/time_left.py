"""The time left in a run of fixtures; where any class may end with its next one, an upper bound. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping

from stoker_lab.statistics.stats import SprtResult
from stoker_lab.suites.grading import GradingProgress


class TimeLeft:
    """`sizes`: fixtures by class, in the order in which classes are asked."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = dict(sizes)
        self._to_come = dict(sizes)
        """Questions left of the current class and of those after it."""
        self._present = ""
        self._times: defaultdict[str, list[float]] = defaultdict(list)
        """Of the fixtures of each class that were asked."""

    def on_sampled(self, name: str, seconds: float) -> None:
        """A fixture of the class was asked ahead of its turn, in so many seconds."""
        self._times[name].append(seconds)

    def on_graded(self, step: GradingProgress, seconds: float) -> None:
        """One more. `seconds` since the one before it, asking and checking together; not counted of an earlier run."""
        name = step.graded.task_class
        if name != self._present:
            self._to_come.pop(self._present, None)  # it was ended early
            self._present = name
        self._to_come[name] = 0 if step.result is not SprtResult.UNDECIDED else max(0, self._to_come[name] - 1)
        if step.is_new:
            self._times[name].append(seconds)

    @property
    def share(self) -> float:
        """The share that is done, 0 to 1; it jumps when a class is decided."""
        return 1 - sum(self._to_come.values()) / max(1, sum(self._sizes.values()))

    @property
    def seconds(self) -> float | None:
        """The median time of each class times its remaining fixtures; of one that was not asked yet, that of all. None:
        unknown. Medians, because a single slow answer says little about the next ones.
        """
        return self._for(self._to_come)

    @property
    def whole_seconds(self) -> float | None:
        """For all fixtures: what another model of this speed needs."""
        return self._for(self._sizes)

    def _for(self, counts: Mapping[str, int]) -> float | None:
        every = [seconds for times in self._times.values() for seconds in times]
        if not every:
            return None
        return sum(count * statistics.median(self._times.get(name) or every) for name, count in counts.items())
