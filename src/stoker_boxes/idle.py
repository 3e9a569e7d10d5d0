"""When this machine may sleep. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Activity(NamedTuple):
    """What happens now."""

    last_use: float
    """When a request ended last, by the clock; -inf: none has."""
    requests: int = 0
    """Requests that are answered, or wait."""
    work: str = ""
    """What else must not be interrupted: a load, a download, a measurement; empty: nothing."""


class IdleState(NamedTuple):
    """Since when nothing has happened."""

    since: float
    last_use: float
    was_tried: bool = False
    """The command was run since the last request: it is not run again before the next one."""


def next_state(state: IdleState, seen: Activity, now: float) -> IdleState:
    """1. a request is there, or was      -> idle from now on, and the command may be run again
    2. something else is under way     -> idle from now on
    3. nothing                         -> as before
    """
    if seen.requests or seen.last_use > state.last_use:
        return IdleState(now, max(seen.last_use, state.last_use))  # 1
    if seen.work:
        return state._replace(since=now)  # 2
    return state  # 3


def is_due(state: IdleState, after: float, now: float) -> bool:
    """Whether the command is run now."""
    return not state.was_tried and now - state.since >= after


def has_slept(before: float, after: float) -> bool:
    """Whether the machine has slept between two moments. Each is wall time less monotonic time, which stands still
    meanwhile; a correction of the clock by less than this is no sleep.
    """
    return after - before >= SHORTEST_SLEEP


SHORTEST_SLEEP = 2.0
