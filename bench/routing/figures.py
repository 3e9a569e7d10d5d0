"""The figures of one run: each policy beside always asking the cloud, the curves, what the rules took for what. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

import msgspec

from bench.routing import curve, policies
from bench.routing.asking import Cell
from bench.routing.curve import Point
from bench.routing.place import CLOUD, COSTS, LOCAL
from bench.routing.policies import Pair, Policy
from bench.routing.resample import TIMES, Figure, figure
from stoker.domain.tier import Row
from stoker.measure import stats
from stoker.measure.suites.grade import VERDICTS

AUTO, DECLARED = "auto", "auto:CLASS"
WAYS = (DECLARED, AUTO)


class Line(msgspec.Struct, frozen=True):
    """One policy over the whole set."""

    name: str
    quality: Figure
    beside: Figure
    """Its quality less that of always asking the cloud, on the same fixtures."""
    cost: float
    """Of 1,000 requests."""
    local: float
    """Share of requests that a local tier served."""


class Kind(msgspec.Struct, frozen=True):
    """One class, asked in one way."""

    name: str
    way: str
    n: int
    tiers: dict[str, int]
    """Who served it."""
    found: dict[str, int]
    """What it was taken for."""
    quality: float
    beside_cloud: Figure
    beside_static: Figure


class Curve(msgspec.Struct, frozen=True):
    """The cloud, and these local tiers by a threshold on the profile's lower bounds."""

    way: str
    local: tuple[str, ...]
    points: list[Point]
    apgr: Figure
    cpt50: float | None
    cpt80: float | None


class Found(msgspec.Struct, frozen=True):
    n: int
    seed: int
    suites: list[Row]
    """What the profile says; the cloud's rows, by the same suites and the same test, are in no profile."""
    static: dict[str, str]
    hindsight: dict[str, str]
    rates: dict[str, dict[str, float]]
    """Pass rates on the paired set, by class and tier."""
    lines: list[Line]
    kinds: list[Kind]
    curves: list[Curve]
    beside_static: dict[str, Figure]
    """Quality less that of the static table, by way of asking."""
    aiq: dict[str, float]
    """Of the curve with all tiers by way of asking, and of mixing single tiers by chance."""


def quality(policy: Policy, pairs: Sequence[Pair]) -> float:
    return sum(policy(pair).passed for pair in pairs) / len(pairs)


def cost(policy: Policy, pairs: Sequence[Pair]) -> float:
    """Of 1,000 requests."""
    return sum(policy(pair).cost for pair in pairs) / len(pairs) * 1000


def share_local(policy: Policy, pairs: Sequence[Pair]) -> float:
    return sum(policy(pair).is_local for pair in pairs) / len(pairs)


def mixed(pairs: Sequence[Pair], way: str) -> float:
    """Quality of cheapest tier and cloud, by chance, at the cost that asking this `way` had."""
    cheap, dear = policies.always(LOCAL[0]), policies.always(CLOUD)
    ends = [Point(share, quality(one, pairs), cost(one, pairs)) for share, one in ((0.0, cheap), (1.0, dear))]
    return curve.at_cost(ends, cost(policies.routed(way), pairs))


def best_mixed(pairs: Sequence[Pair], way: str) -> float:
    """The same, of whichever tiers are best to mix at that cost: what RouterBench calls the zero router."""
    return curve.at_cost(curve.hull(_single(pairs)), cost(policies.routed(way), pairs))


def _single(pairs: Sequence[Pair]) -> list[Point]:
    return [_point(policies.always(tier), pairs) for tier in COSTS]


def _point(policy: Policy, pairs: Sequence[Pair]) -> Point:
    return Point(1 - share_local(policy, pairs), quality(policy, pairs), cost(policy, pairs))


def as_rows(cells: Iterable[Cell]) -> list[Row]:
    """What a bootstrap would say of a tier whose answers to the suites these are."""
    tests: dict[tuple[str, str], stats.Sprt] = {}
    for cell in cells:
        test = tests.setdefault((cell.tier, cell.task_class), stats.Sprt())
        if not test.is_over:
            test.feed(cell.passed)
    return [
        Row(tier, name, "", "", test.n, test.passed, VERDICTS[test.verdict]) for (tier, name), test in tests.items()
    ]


class Work:
    """Figures of one paired set. Every interval is drawn from one seed."""

    def __init__(self, pairs: Sequence[Pair], rows: Sequence[Row], seed: int, times: int = TIMES) -> None:
        self.pairs = list(pairs)
        self.rows = list(rows)
        self.lows = policies.bounds(row for row in rows if row.tier != CLOUD)
        self.static = policies.measured_best(rows)
        self.groups = [[one for one in pairs if one.task_class == name] for name in self.classes]
        self._rng, self._times = Random(seed), times

    @property
    def classes(self) -> list[str]:
        return list(dict.fromkeys(one.task_class for one in self.pairs))

    def beside(self, one: Policy, other: Policy, only: str = "") -> Figure:
        """Difference in quality, paired. `only`: in one class."""
        groups = [[one(pair).passed - other(pair).passed for pair in group] for group in self._of(only)]
        return figure(groups, _mean, self._rng, self._times)

    def _of(self, only: str) -> list[list[Pair]]:
        return [group for group in self.groups if only in ("", group[0].task_class)]

    def lines(self) -> list[Line]:
        hindsight = policies.hindsight_best(self.pairs)
        named: list[tuple[str, Policy]] = [
            *((f"always {tier}", policies.always(tier)) for tier in COSTS),
            ("best per class, by the suites", policies.by_class(self.static)),
            ("best per class, in hindsight", policies.by_class(hindsight)),
            ("oracle", policies.oracle),
            *((f"routed: {way}", policies.routed(way)) for way in WAYS),
        ]
        mixes = [line for way in WAYS for line in self._mixes(way)]
        return [*(self._line(name, policy) for name, policy in named), *mixes]

    def _line(self, name: str, policy: Policy) -> Line:
        groups = [[float(policy(pair).passed) for pair in group] for group in self.groups]
        seen = figure(groups, _mean, self._rng, self._times)
        beside = self.beside(policy, policies.always(CLOUD))
        return Line(name, seen, beside, cost(policy, self.pairs), share_local(policy, self.pairs))

    def _mixes(self, way: str) -> Iterable[Line]:
        """Of a mix the share that is local is that of the cheapest tier and the cloud."""
        spent = cost(policies.routed(way), self.pairs)
        low, high = (cost(policies.always(tier), self.pairs) for tier in (LOCAL[0], CLOUD))
        local = 1 - min(1.0, max(0.0, (spent - low) / (high - low)))

        def seen(pairs: Sequence[Pair]) -> float:
            return mixed(pairs, way)

        def beside(pairs: Sequence[Pair]) -> float:
            return mixed(pairs, way) - quality(policies.always(CLOUD), pairs)

        name = f"{LOCAL[0]} or cloud by chance, at the cost of {way}"
        drawn = [figure(self.groups, one, self._rng, self._times // 4) for one in (seen, beside)]
        yield Line(name, drawn[0], drawn[1], min(max(spent, low), high), local)

    def kinds(self, way: str) -> list[Kind]:
        return [self._kind(group, way) for group in self.groups]

    def _kind(self, group: Sequence[Pair], way: str) -> Kind:
        name, policy = group[0].task_class, policies.routed(way)
        cells = [policy(pair) for pair in group]
        return Kind(
            name,
            way,
            len(group),
            dict(Counter(cell.tier or "none" for cell in cells).most_common()),
            dict(Counter(cell.found for cell in cells).most_common()),
            quality(policy, group),
            self.beside(policy, policies.always(CLOUD), name),
            self.beside(policy, policies.by_class(self.static), name),
        )

    def points(self, pairs: Sequence[Pair], local: Sequence[str], way: str) -> list[Point]:
        steps = policies.thresholds(self.lows, local)
        return [_point(policies.threshold(least, self.lows, local, way), pairs) for least in steps]

    def curve(self, local: Sequence[str], way: str) -> Curve:
        """The weak model is the cheapest of `local`, the strong one the cloud."""

        def area(pairs: Sequence[Pair]) -> float | None:
            points = self.points(pairs, local, way)
            return curve.apgr(points, points[0].quality, points[-1].quality)

        points = self.points(self.pairs, local, way)
        ends = points[0].quality, points[-1].quality
        seen = figure(self.groups, area, self._rng, self._times // 4)
        return Curve(way, tuple(local), points, seen, curve.cpt(points, *ends, 0.5), curve.cpt(points, *ends, 0.8))

    def aiq(self) -> dict[str, float]:
        single = _single(self.pairs)
        low, high = min(one.cost for one in single), max(one.cost for one in single)
        found = {way: curve.aiq(self.points(self.pairs, LOCAL, way), low, high) for way in WAYS}
        return {**found, "single tiers by chance": curve.aiq(single, low, high)}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def found(pairs: Sequence[Pair], rows: Sequence[Row], seed: int, times: int = TIMES) -> Found:
    """`rows`: of all tiers, the cloud's too."""
    work = Work(pairs, rows, seed, times)
    static = policies.by_class(work.static)
    rates = {
        group[0].task_class: {tier: quality(policies.always(tier), group) for tier in COSTS} for group in work.groups
    }
    kinds_of_local = ([LOCAL[0]], [LOCAL[-1]], LOCAL)
    return Found(
        len(pairs),
        seed,
        list(rows),
        work.static,
        policies.hindsight_best(pairs),
        rates,
        work.lines(),
        [kind for way in WAYS for kind in work.kinds(way)],
        [work.curve(local, way) for way in WAYS for local in kinds_of_local],
        {way: work.beside(policies.routed(way), static) for way in WAYS},
        work.aiq(),
    )

