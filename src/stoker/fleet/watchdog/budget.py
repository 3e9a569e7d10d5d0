"""How often a serve may be started again. Pure.

Counted are restarts of a sick serve and unexpected ends. Failed starts are not: the scheduler has its own back-off for
them (`request/lease/timing.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.domain.access import Watchdog

BACKOFF_BASE = 10.0
BACKOFF_CAP = 120.0


@dataclass(frozen=True, slots=True)
class History:
    """The clock's times of what was counted, oldest first."""

    times: tuple[float, ...] = ()

    def within(self, window: float, now: float) -> History:
        """Without what is longer ago than `window` seconds."""
        return History(tuple(at for at in self.times if at > now - window))

    def counted(self, now: float) -> History:
        return History((*self.times, now))


@dataclass(frozen=True, slots=True)
class Restart:
    """Now. `number` of them were made within the window, this one included."""

    number: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Not before the clock's time `until`."""

    until: float


@dataclass(frozen=True, slots=True)
class Park:
    """The budget is used up: an operator has to act. `reason` is a sentence."""

    reason: str


def decide(history: History, limits: Watchdog, now: float) -> Restart | Wait | Park:
    """May a sick serve be restarted now?

    1 used up: park  2 the first within the window: at once  3 too soon after the last: wait  4 restart
    """
    recent = history.within(limits.window, now).times
    if len(recent) >= limits.restarts:  # 1
        return Park(_used_up(len(recent), limits))
    if not recent:  # 2
        return Restart(1)
    until = recent[-1] + backoff(len(recent))
    if now < until:  # 3
        return Wait(until)
    return Restart(len(recent) + 1)  # 4


def decide_after_exit(history: History, limits: Watchdog, now: float) -> tuple[History, Park | None]:
    """The serve ended by itself; the scheduler starts it again. `Park` if that was once too often."""
    counted = history.within(limits.window, now).counted(now)
    if len(counted.times) <= limits.restarts:
        return counted, None
    return counted, Park(_used_up(len(counted.times) - 1, limits))


def backoff(restarts: int) -> float:
    """Seconds from the last of so many restarts within the window to the next."""
    return min(BACKOFF_BASE * 2.0 ** min(restarts - 1, 16), BACKOFF_CAP)


def _used_up(count: int, limits: Watchdog) -> str:
    times = "once" if count == 1 else f"{count} times"
    return f"it was restarted {times} within {limits.window:g} s, the limit of [watchdog] restarts"
