"""Whether a model has become worse than it was: one Cusum per serve and check, fed by canaries and live checks.

The first of two stages, so that tiers do not flap: an alarm only runs the preflight again (`request.decide.demotion`).
Nothing is changed here.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker_lab.statistics.stats import Cusum


class DriftLevel(msgspec.Struct):
    """The state of one serve and check, as it is stored."""

    serve: str
    check: str
    value: float = 0.0
    n: int = 0


class DriftAlarm(NamedTuple):
    """Failures became more frequent. `n`: answers since the last alarm or the beginning."""

    serve: str
    check: str
    n: int


class DriftDetector:
    """All alarms of one Stoker. `usual`, `worse`, `limit` as in `Cusum`."""

    def __init__(self, usual: float = 0.02, worse: float = 0.08, limit: float = 4.0) -> None:
        self._settings = (usual, worse, limit)
        self._sums: dict[tuple[str, str], Cusum] = {}

    def feed(self, serve: str, check: str, failed: bool) -> DriftAlarm | None:
        """One more answer. An alarm is raised once; counting then starts again."""
        cusum = self._sum(serve, check)
        if not cusum.feed(failed):
            return None
        alarm = DriftAlarm(serve, check, cusum.n)
        cusum.reset()
        return alarm

    def levels(self) -> list[DriftLevel]:
        """To keep over a restart, and to show: an alarm is given at `limit`."""
        return [DriftLevel(serve, check, one.value, one.n) for (serve, check), one in sorted(self._sums.items())]

    def restore(self, levels: list[DriftLevel]) -> None:
        for level in levels:
            cusum = self._sum(level.serve, level.check)
            cusum.value, cusum.n = level.value, level.n

    def forget(self, serve: str) -> None:
        """Its fingerprint changed: what was counted belongs to another model."""
        self._sums = {key: cusum for key, cusum in self._sums.items() if key[0] != serve}

    def _sum(self, serve: str, check: str) -> Cusum:
        return self._sums.setdefault((serve, check), Cusum(*self._settings))
