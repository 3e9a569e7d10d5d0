"""From request to first token: cold, page-cached, loaded and swapped, each beside the engine's own time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from bench import engines
from bench.engines import EngineSetup
from bench.swap import alone
from bench.swap.alone import Own
from bench.swap.plane import Plane
from stoker.fleet.warm import pages

LOADED = 10
"""Requests to a loaded serve per round."""


class Round(msgspec.Struct, frozen=True):
    """One pass through all states. Seconds; None: not measured for this engine."""

    cached: float
    """Request to first token, process not running, weights in the page cache."""
    cached_own: Own
    """The engine by itself, likewise."""
    swapped: float
    """The same while the other serve is resident and idle: it is stopped first."""
    loaded: float
    """Median time to the first token of a loaded serve."""
    loaded_own: float
    """The same engine process, asked directly."""
    facts: dict[str, Any]
    """What the fleet says about the start that `cached` waited for."""
    switch: dict[str, Any] | None = None
    """The reply of /admin/switch for the same swap."""
    cold: float | None = None
    """Like `cached`, after the weights were dropped from the page cache."""
    cold_own: Own | None = None
    still_cached: float | None = None
    """Share of the weights that the kernel kept all the same."""


class Phases(msgspec.Struct, frozen=True):
    """All rounds of one kind of engine."""

    kind: str
    title: str
    rounds: list[Round]


def measure(kind: EngineSetup, folder: Path, rounds: int, with_switch: bool, say: Callable[[str], None]) -> Phases:
    """Stoker and the engine by itself, in turn. Raises RuntimeError or calls.Failed if something does not come up."""
    with Plane(kind, folder, engines.HYSTERESIS_OFF) as plane:
        plane.first_token("b")  # not counted: the interpreter's files come from disk
        seen = []
        for number in range(rounds):
            say(f"{kind.title}: round {number + 1} of {rounds}")
            seen.append(_round(plane, kind, folder, with_switch))
        return Phases(kind.name, kind.title, seen)


def _round(plane: Plane, kind: EngineSetup, folder: Path, with_switch: bool) -> Round:
    log = folder / "alone.log"
    plane.unload_all()
    cold = still = None
    if kind.weights:
        still = _drop(kind)
        cold = plane.first_token("b")
        plane.unload_all()
    cached = plane.first_token("b")
    facts = plane.serve("b").get("facts") or {}
    command = plane.command("b")
    loaded = median(plane.first_token("b") for _ in range(LOADED))
    loaded_own = median(alone.loaded(command, "b", LOADED))
    plane.switch("a")
    swapped = plane.first_token("b")
    plane.switch("a")
    switch = plane.switch("b") if with_switch else None
    plane.unload_all()
    cold_own = None
    if kind.weights:
        _drop(kind)
        cold_own = alone.measure(command, "b", log)
    cached_own = alone.measure(command, "b", log)
    return Round(cached, cached_own, swapped, loaded, loaded_own, facts, switch, cold, cold_own, still)


def _drop(kind: EngineSetup) -> float | None:
    """The largest share of a file that is still in the page cache; None where it cannot be told."""
    for path in kind.weights:
        pages.evict(str(path))
    shares = [pages.cached_share(str(path)) for path in kind.weights]
    known = [share for share in shares if share is not None]
    return max(known) if len(known) == len(shares) else None
