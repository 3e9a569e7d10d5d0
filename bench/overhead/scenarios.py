"""What load the gateways get.

A streaming scenario has a short and a long pass over the same number of streams: their difference is the cost of
events alone, without what a request costs.
"""

from __future__ import annotations

from typing import NamedTuple

from bench.load import Pass

SMALL = 2 * 1024
LARGE = 200 * 1024


class Scenario(NamedTuple):
    """`passes` run one after another over the same connections; the one named `warm` is not counted."""

    name: str
    title: str
    connections: int
    passes: tuple[Pass, ...]

    @property
    def is_streamed(self) -> bool:
        return self.passes[-1].stream


def _requests(name: str, title: str, body: int, seconds: float) -> Scenario:
    warm = Pass("warm", body, seconds=min(0.5, seconds / 4))
    return Scenario(name, title, 16, (warm, Pass("steady", body, seconds=seconds)))


def _paced(name: str, title: str, body: int, seconds: float, rate: float) -> Scenario:
    """The same number of requests per second for every gateway.

    At its own limit a fast gateway finds the next request waiting and wakes nobody; a slower one sleeps and wakes at
    each. At the same rate both pay for the same wake-ups.
    """
    warm = Pass("warm", body, seconds=min(0.5, seconds / 4), rate=rate)
    return Scenario(name, title, 16, (warm, Pass("steady", body, seconds=seconds, rate=rate)))


def _streams(count: int, gap: float, long: tuple[int, int], short: tuple[int, int], spread: float) -> Scenario:
    """`long` and `short` are (events, repeats); `gap` and `spread` are seconds."""

    def run_of(name: str, events: int, repeats: int) -> Pass:
        nominal = (events * gap) * repeats + spread
        return Pass(
            name,
            SMALL,
            stream=True,
            events=events,
            gap=round(gap * 1e6),
            repeats=repeats,
            spread=spread,
            deadline=1.5 * nominal + 4,
        )

    warm = Pass("warm", SMALL, stream=True, events=2, gap=1000, repeats=1, spread=min(0.5, count / 1000))
    title = f"{count:,} stream{'s' if count > 1 else ''}, {gap * 1e3:.0f} ms apart"
    return Scenario(f"streams-{count}", title, count, (warm, run_of("short", *short), run_of("long", *long)))


def scenarios(quick: bool) -> tuple[Scenario, ...]:
    """All of them; `quick` makes them short, which makes the figures noisy."""
    seconds = 0.7 if quick else 2.0
    requests = (
        _paced("paced", "2 KB requests, 2,000 a second", SMALL, seconds, 2000),
        _requests("small", "2 KB requests, 16 connections, as fast as they are answered", SMALL, seconds),
        _requests("large", "200 KB requests, 16 connections, as fast as they are answered", LARGE, seconds),
    )
    if quick:
        return (
            *requests,
            _streams(1, 0.02, (40, 1), (2, 10), 0.0),
            _streams(64, 0.02, (50, 1), (10, 2), 0.3),
            _streams(1000, 0.25, (8, 1), (1, 1), 1.0),
        )
    return (
        *requests,
        _streams(1, 0.02, (100, 1), (2, 25), 0.0),
        _streams(64, 0.02, (200, 1), (10, 6), 0.4),
        _streams(1000, 0.5, (20, 1), (2, 1), 1.5),
    )
