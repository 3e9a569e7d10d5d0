"""Which refused requests get a record of their own, so that a flood of them does not push out the history.

A request that was refused before any serve was called costs its sender nothing: ten thousand of them a second would
push out everything else. Of those with the same key and reason, the first `BURST` are recorded one by one, then one
every `EVERY` seconds, which says how many came before it. All of them are in the metrics.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.domain.decision import Decision

BURST = 50
EVERY = 600.0
"""Seconds between two records of one kind of refusal."""
KINDS = 500
"""Pairs of key and reason that are counted separately; further ones count as one."""


class _Kind:
    __slots__ = ("at", "left", "unrecorded")

    def __init__(self, at: float) -> None:
        self.left = float(BURST)
        self.at = at
        self.unrecorded = 0


class RefusalSampling:
    """See the module's docstring. `now` gives monotonic seconds. Belongs to one thread."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self.unrecorded = 0
        """Refusals without a record since the start."""

    def keeps(self, decision: Decision) -> bool:
        """Whether to record it; it then states how many others it stands for."""
        if decision.attempts or decision.outcome != "refused":
            return True
        now = self._now()
        name = (decision.key, decision.reason)
        kind = self._kinds.get(name)
        if kind is None:
            name = name if len(self._kinds) < KINDS else ("", "")
            kind = self._kinds.setdefault(name, _Kind(now))
        kind.left = min(BURST, kind.left + (now - kind.at) / EVERY)
        kind.at = now
        if kind.left < 1:
            kind.unrecorded += 1
            self.unrecorded += 1
            return False
        kind.left -= 1
        decision.unrecorded, kind.unrecorded = kind.unrecorded, 0
        return True
