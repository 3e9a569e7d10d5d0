"""Cold, warm, hot: the same model, started each way through `stoker up`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from bench import engines
from bench.swap.plane import Plane
from bench.warm.holder import Holder
from stoker.fleet.warm import pages

COLD, WARM = "cold", "warm"
MAX_COLD, MIN_WARM = 0.05, pages.ENOUGH
"""Share of the weights in the page cache up to which a start is cold, and from which it is warm."""
HOT = 5
"""Requests to the loaded model per round."""
NO_POOL = '[warm]\nmemory = "0B"\npredict = false\n'
"""Stoker's own pool would keep warm what is to be cold."""


class Start(msgspec.Struct, frozen=True):
    """One swap to the model. Seconds."""

    temperature: str
    resident: float
    """Share of its weights in the page cache right before."""
    phases: dict[str, float]
    """As `/admin/switch` tells them, in their order."""
    switch: float
    first_token: float
    """From a request, once it is ready."""
    preload: float | None = None
    """What the holder took to make it warm."""
    locked: int | None = None
    """Bytes that the holder could lock."""


class Round(msgspec.Struct, frozen=True):
    """One start each way. Seconds."""

    cold: Start
    warm: Start
    hot: float
    """Request to first token while it is loaded, median. The same prompt again, which the engine has cached."""
    floor: float
    """The switch to a model of half a megabyte: what a start takes that loads nothing."""


def measure(big: Path, small: Path, folder: Path, runs: int, say: Callable[[str], None]) -> list[Round]:
    """Raises RuntimeError if a start is not as cold, or as warm, as it is to be."""
    with Plane(engines.loading(big, small), folder, engines.HYSTERESIS_OFF + NO_POOL) as plane:
        plane.switch("big")
        plane.switch("small")  # not counted: the interpreter's files come from disk
        rounds = []
        for number in range(runs):
            say(f"round {number + 1} of {runs}")
            rounds.append(_round(plane, big))
        return rounds


def _round(plane: Plane, big: Path) -> Round:
    pages.evict(str(big))
    cold = _start(plane, big, COLD)
    hot = median(plane.first_token("big") for _ in range(HOT))
    floor = float(plane.switch("small")["seconds"])
    pages.evict(str(big))
    with Holder(big) as holder:
        warm = _start(plane, big, WARM)
        warm = msgspec.structs.replace(warm, preload=holder.took, locked=holder.locked)
    plane.switch("small")
    return Round(cold, warm, hot, floor)


def _start(plane: Plane, big: Path, temperature: str) -> Start:
    resident = pages.cached_share(str(big))
    if resident is None:
        raise RuntimeError("this kernel does not tell what is in the page cache: a cold start cannot be proved")
    if (temperature == COLD and resident > MAX_COLD) or (temperature == WARM and resident < MIN_WARM):
        raise RuntimeError(
            f"{resident:.0%} of the weights are in the page cache before a {temperature} start: "
            "use --folder for a directory on a disk, not on a tmpfs"
        )
    switch = plane.switch("big")
    phases = {name: float(seconds) for name, seconds in switch["phases"].items()}
    return Start(temperature, resident, phases, float(switch["seconds"]), plane.first_token("big"))
