"""Who may use Stoker, and how much."""

from __future__ import annotations

import time
from dataclasses import dataclass

from stoker.access.access_control import AccessControl
from stoker.access.access_store import AccessStore
from stoker.access.windows import SteadyTime
from stoker.app.context import BuildContext
from stoker.store.key_usage import KeyUsageCounts

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class AccessParts:
    """`control` checks requests; `store` remembers keys, counters and usage."""

    store: AccessStore
    control: AccessControl

    def app_of(self, key: str) -> str:
        """The application of a key; empty: it has none, or is gone."""
        entry = self.store.keyring.entries().get(key)
        return "" if entry is None else entry.caller.key.app


def build_access(context: BuildContext, counts: KeyUsageCounts) -> AccessParts:
    """`counts`: totals for /metrics. Raises StokerError if the state cannot be used."""
    settings = context.settings
    wall = context.clock.wall
    steady = SteadyTime(wall, _elapsed).now
    store = AccessStore(context.directory / "access.db", settings.paths.usage_days, wall, steady, counts)
    return AccessParts(store, AccessControl(settings.front_door, store.keyring, settings.apps))


def _elapsed() -> float:
    """Seconds from any start, also while the machine sleeps, where the system can tell."""
    return time.clock_gettime(_CLOCK)
