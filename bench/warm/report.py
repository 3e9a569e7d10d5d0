"""Tables and the verdict. Pure.

load   what a start takes beyond one that loads nothing: its switch - the switch to a model of half a megabyte
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from bench.figures import Spread, show, show_spread, spread, table
from bench.warm.rounds import Round, Start
from bench.warm.speeds import Speeds

TIMES_FASTER = 3.0
NEAR = 0.5
"""Share of what one core copies from memory to memory from which a load counts as at the limit of memory."""


def render(rounds: Sequence[Round], size: int, speeds: Speeds) -> str:
    """Seconds, medians with the lowest and the highest; then the machine's own speeds beside the loads'."""
    head = ("", *(f"{name} s" for name in ("drain", *_between(rounds), "first token", "together")))
    rows = [_row(name, [pick(one) for one in rounds], head) for name, pick in _STARTS]
    rows.append(("hot", *["-"] * (len(head) - 3), *[show_spread(spread([one.hot for one in rounds]), 3)] * 2))
    parts = [table(head, rows), _residency(rounds), _speeds(rounds, size, speeds)]
    return "\n\n".join(parts)


_STARTS: tuple[tuple[str, Callable[[Round], Start]], ...] = (
    ("cold", lambda one: one.cold),
    ("warm", lambda one: one.warm),
)


def _between(rounds: Sequence[Round]) -> list[str]:
    """The phases after `drain`, as they were told."""
    return [name for name in rounds[0].cold.phases if name != "drain"]


def _row(name: str, starts: Sequence[Start], head: Sequence[str]) -> tuple[str, ...]:
    phases = [title.removesuffix(" s") for title in head[1:-2]]
    told = [spread([one.phases[phase] for one in starts if phase in one.phases]) for phase in phases]
    first = spread([one.first_token for one in starts])
    together = spread([one.switch + one.first_token for one in starts])
    return (name, *(show_spread(value, 3) for value in (*told, first, together)))


def _residency(rounds: Sequence[Round]) -> str:
    cold, warm = max(one.cold.resident for one in rounds), min(one.warm.resident for one in rounds)
    preload = show_spread(spread([one.warm.preload for one in rounds if one.warm.preload is not None]), 2)
    return (
        f"in the page cache right before: cold at most {cold:.1%}, warm at least {warm:.1%}; "
        f"the holder made it warm in {preload} s\n"
        "hot: the same prompt again, whose beginning the engine has cached"
    )


def _speeds(rounds: Sequence[Round], size: int, speeds: Speeds) -> str:
    rows = [
        ("memory to memory, one core", _rate(speeds.copy)),
        ("weights read from the page cache", _rate(speeds.cache)),
        ("weights read from disk", _rate(speeds.disk)),
        ("weights loaded warm", _rate(_load_rate(rounds, size, _STARTS[1][1]))),
        ("weights loaded cold", _rate(_load_rate(rounds, size, _STARTS[0][1]))),
    ]
    return table(("", "GB/s"), rows)


def _rate(value: float | None) -> str:
    return show(None if value is None else value / 1e9, 2)


def load(rounds: Sequence[Round], pick: Callable[[Round], Start]) -> Spread | None:
    """Seconds, paired per round."""
    return spread([pick(one).switch - one.floor for one in rounds])


def _load_rate(rounds: Sequence[Round], size: int, pick: Callable[[Round], Start]) -> float | None:
    found = load(rounds, pick)
    return size / found.median if found is not None and found.median > 0 else None


class Verdict(NamedTuple):
    """Whether a warm load is worth it, and if it is not several times faster, what it is held up by."""

    is_reached: bool
    sentence: str


def verdict(rounds: Sequence[Round], size: int, speeds: Speeds) -> Verdict:
    """In this order: 1 several times faster; 2 at the limit of memory; 3 a disk as fast as the page cache; 4 missed."""
    cold, warm = load(rounds, _STARTS[0][1]), load(rounds, _STARTS[1][1])
    switches = median(one.cold.switch for one in rounds) / median(one.warm.switch for one in rounds)
    seen = f"warm, the whole switch is {switches:.1f} times faster than cold"
    if cold is None or warm is None or warm.median <= 0:
        return Verdict(False, f"{seen}; the load is too short to be told from a start that loads nothing")
    times = cold.median / warm.median
    seen = f"{seen}, the load itself {times:.1f} times"
    if times >= TIMES_FASTER:  # 1
        return Verdict(True, seen)
    rate = size / warm.median
    if rate >= NEAR * speeds.copy:  # 2
        return Verdict(True, f"{seen}: at the limit of memory, {rate / speeds.copy:.0%} of a plain copy's rate")
    if speeds.disk >= speeds.cache / TIMES_FASTER:  # 3
        return Verdict(False, f"{seen}: this disk reads at {speeds.disk / speeds.cache:.0%} of the page cache's rate")
    return Verdict(False, f"{seen}: {show(rate / 1e9, 2)} GB/s warm, far below the limit of memory")  # 4
