"""How good a router is over all that it could be made to spend. Pure; each figure with its source.

A curve is a list of points, one for each setting of the router, from the one that sends nothing to the strong model to
the one that sends all. Between two points lies every mix of them: with chance p the one setting, else the other.

PGR    performance gap recovered: (quality - weak) / (strong - weak); 0 is the weak model, 1 the strong one
APGR   the integral of PGR over the share of calls that go to the strong model, 0 to 1   (RouteLLM, arXiv 2406.18665)
CPT    call-performance threshold: the smallest such share at which PGR is at least so much   (the same)
AIQ    the mean height of the non-decreasing convex hull of quality over cost                 (RouterBench, 2403.12031)

RouteLLM approximates its integral by ten shares; here it is the area itself. A random router has APGR 0.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple


class Point(NamedTuple):
    """`share`: of calls to the strong model; `cost`: of all calls."""

    share: float
    quality: float
    cost: float = 0.0


def recovered(quality: float, weak: float, strong: float) -> float | None:
    """None where the strong model is not better: there is no gap."""
    return None if strong <= weak else (quality - weak) / (strong - weak)


def apgr(points: Sequence[Point], weak: float, strong: float) -> float | None:
    """`points` in the order of their settings, so that shares do not fall; the first is 0 and the last 1."""
    area = sum((b.share - a.share) * (a.quality + b.quality) / 2 for a, b in pairwise(points))
    return recovered(area, weak, strong)


def cpt(points: Sequence[Point], weak: float, strong: float, level: float) -> float | None:
    """The smallest share of strong calls that recovers `level` of the gap; None: no share does, or there is no gap."""
    if strong <= weak:
        return None
    wanted = weak + level * (strong - weak)
    for at, point in enumerate(points):
        if point.quality >= wanted:
            return point.share if at == 0 else _crossing(points[at - 1], point, wanted)
    return None


def _crossing(one: Point, other: Point, wanted: float) -> float:
    return one.share + (other.share - one.share) * (wanted - one.quality) / (other.quality - one.quality)


def hull(points: Iterable[Point]) -> list[Point]:
    """The upper convex hull over cost that does not fall: the best that mixing these points can do at each cost."""
    found: list[Point] = []
    for point in sorted(points, key=lambda one: (one.cost, -one.quality)):
        if found and point.quality <= found[-1].quality:
            continue  # dearer and no better
        while len(found) > 1 and _slope(found[-2], found[-1]) <= _slope(found[-2], point):
            found.pop()
        found.append(point)
    return found


def _slope(one: Point, other: Point) -> float:
    return (other.quality - one.quality) / (other.cost - one.cost)


def at_cost(points: Sequence[Point], cost: float) -> float:
    """The quality that a hull reaches at this cost; beyond its ends that of the end."""
    for one, other in pairwise(points):
        if cost < other.cost:
            return one.quality + max(0.0, cost - one.cost) * _slope(one, other)
    return points[-1].quality


def aiq(points: Iterable[Point], low: float, high: float) -> float:
    """The mean height of the hull between two costs, below its first point counted as that point."""
    line = hull(points)
    inner = [point.cost for point in line if low < point.cost < high]
    costs = [low, *inner, high]
    heights = [at_cost(line, cost) for cost in costs]
    areas = ((costs[n + 1] - costs[n]) * (heights[n] + heights[n + 1]) / 2 for n in range(len(costs) - 1))
    return sum(areas) / (high - low)
