"""The figures of one run: each policy beside always asking the cloud, each class, the curves. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

import msgspec

from bench.routing import curve, policies
from bench.routing.asking import Cell
from bench.routing.curve import Point
from bench.routing.policies import Pair, Policy
from bench.routing.resample import TIMES, Figure, figure
from bench.routing.routing_stoker import CLOUD
from stoker.domain.tier import ProfileRow
from stoker_lab.statistics import stats
from stoker_lab.statistics.stats import ROW_VERDICTS

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


class ClassFigures(msgspec.Struct, frozen=True):
    """One class, asked in one way."""

    name: str
    way: str
    n: int
    tiers: dict[str, int]
    """Who served it."""
    routed_classes: dict[str, int] = msgspec.field(name="found")
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


class RoutingFigures(msgspec.Struct, frozen=True):
    """Of one set of tiers."""

    tiers: tuple[str, ...]
    """From the cheapest to the cloud."""
    n: int
    seed: int
    suites: list[ProfileRow]
    """What the profile says; the cloud's rows, by the same suites and the same test, are in no profile."""
    static: dict[str, str]
    hindsight: dict[str, str]
    rates: dict[str, dict[str, float]]
    """Pass rates on the paired set, by class and tier."""
    lines: list[Line]
    classes: list[ClassFigures] = msgspec.field(name="kinds")
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


def _point(policy: Policy, pairs: Sequence[Pair]) -> Point:
    return Point(1 - share_local(policy, pairs), quality(policy, pairs), cost(policy, pairs))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def as_rows(cells: Iterable[Cell]) -> list[ProfileRow]:
    """What a bootstrap would say of a tier whose answers to the suites these are."""
    tests: dict[tuple[str, str], stats.Sprt] = {}
    for cell in cells:
        test = tests.setdefault((cell.tier, cell.task_class), stats.Sprt())
        if not test.is_over:
            test.feed(cell.passed)
    return [
        ProfileRow(tier, name, "", "", test.n, test.passed, ROW_VERDICTS[test.result])
        for (tier, name), test in tests.items()
    ]


class Work:
    """Figures of one paired set with some local tiers and the cloud. Every interval is drawn from one seed."""

    def __init__(
        self, pairs: Sequence[Pair], rows: Sequence[ProfileRow], tiers: Sequence[str], seed: int, times: int = TIMES
    ) -> None:
        """`rows`: what the suites said of every tier; `tiers`: from the cheapest, the cloud last."""
        self.pairs, self.tiers, self.local = list(pairs), list(tiers), list(tiers[:-1])
        self.lows = policies.bounds(row for row in rows if row.tier in self.local)
        self.static = policies.measured_best(rows, self.tiers)
        self.hindsight = policies.hindsight_best(self.pairs, self.tiers)
        names = dict.fromkeys(one.task_class for one in self.pairs)
        self.groups = [[one for one in self.pairs if one.task_class == name] for name in names]
        self._rng, self._times = Random(seed), times

    def beside(self, one: Policy, other: Policy, groups: Sequence[Sequence[Pair]] | None = None) -> Figure:
        """Difference in quality, paired; over all classes, or of these groups."""
        chosen = self.groups if groups is None else groups
        differences = [[one(pair).passed - other(pair).passed for pair in group] for group in chosen]
        return figure(differences, _mean, self._rng, self._times)

    # -- policies ------------------------------------------------------------------------------------------------------

    def lines(self) -> list[Line]:
        named: list[tuple[str, Policy]] = [
            *((f"always {tier}", policies.always(tier)) for tier in self.tiers),
            ("best per class, by the suites", policies.by_class(self.static)),
            ("best per class, in hindsight", policies.by_class(self.hindsight)),
            ("oracle", policies.oracle(self.tiers)),
            *((f"routed: {way}", policies.routed(way)) for way in WAYS),
        ]
        return [*(self._line(name, policy) for name, policy in named), *(self._mix(way) for way in WAYS)]

    def _line(self, name: str, policy: Policy) -> Line:
        groups = [[float(policy(pair).passed) for pair in group] for group in self.groups]
        seen = figure(groups, _mean, self._rng, self._times)
        beside = self.beside(policy, policies.always(CLOUD))
        return Line(name, seen, beside, cost(policy, self.pairs), share_local(policy, self.pairs))

    def _mix(self, way: str) -> Line:
        """Cheapest tier or cloud, by a chance with which it costs what asking this `way` did: as expected."""
        weak, strong, routed = policies.always(self.tiers[0]), policies.always(CLOUD), policies.routed(way)

        def sample(pair: Pair) -> tuple[float, ...]:
            low, high = weak(pair), strong(pair)
            return low.passed, low.cost, high.passed, high.cost, routed(pair).cost

        groups = [[sample(pair) for pair in group] for group in self.groups]
        seen = figure(groups, lambda drawn: _mixed(drawn).quality, self._rng, self._times)
        beside = figure(
            groups, lambda drawn: _mixed(drawn).quality - _mean([one[2] for one in drawn]), self._rng, self._times
        )
        now = _mixed([one for group in groups for one in group])
        name = f"{self.tiers[0]} or cloud by chance, at the cost of {way}"
        return Line(name, seen, beside, now.cost * 1000, 1 - now.share)

    # -- classes -------------------------------------------------------------------------------------------------------

    def classes(self, way: str) -> list[ClassFigures]:
        return [self._class_figures(group, way) for group in self.groups]

    def _class_figures(self, group: Sequence[Pair], way: str) -> ClassFigures:
        policy = policies.routed(way)
        cells = [policy(pair) for pair in group]
        return ClassFigures(
            group[0].task_class,
            way,
            len(group),
            dict(Counter(cell.tier or "none" for cell in cells).most_common()),
            dict(Counter(cell.routed_class for cell in cells).most_common()),
            quality(policy, group),
            self.beside(policy, policies.always(CLOUD), [group]),
            self.beside(policy, policies.by_class(self.static), [group]),
        )

    # -- curves --------------------------------------------------------------------------------------------------------

    def _settings(self, local: Sequence[str], way: str) -> list[Policy]:
        steps = policies.thresholds(self.lows, local)
        return [policies.threshold(least, self.lows, local, way) for least in steps]

    def points(self, local: Sequence[str], way: str) -> list[Point]:
        return [_point(policy, self.pairs) for policy in self._settings(local, way)]

    def curve(self, local: Sequence[str], way: str) -> Curve:
        """The weak model is the cheapest of `local`, the strong one the cloud."""
        settings = self._settings(local, way)
        groups = [[_steps([one(pair) for one in settings]) for pair in group] for group in self.groups]
        seen = figure(groups, _area, self._rng, self._times)
        points = self.points(local, way)
        ends = points[0].quality, points[-1].quality
        return Curve(way, tuple(local), points, seen, curve.cpt(points, *ends, 0.5), curve.cpt(points, *ends, 0.8))

    def aiq(self) -> dict[str, float]:
        single = [_point(policies.always(tier), self.pairs) for tier in self.tiers]
        low, high = min(one.cost for one in single), max(one.cost for one in single)
        found = {way: curve.aiq(self.points(self.local, way), low, high) for way in WAYS}
        return {**found, "single tiers by chance": curve.aiq(single, low, high)}


def _mixed(drawn: Sequence[tuple[float, ...]]) -> Point:
    """(weak passed, its cost, strong passed, its cost, cost to meet), of each fixture."""
    weak, low, strong, high, spent = (_mean(column) for column in zip(*drawn, strict=True))
    share = min(1.0, max(0.0, (spent - low) / (high - low)))
    return Point(share, weak + share * (strong - weak), low + share * (high - low))


def _steps(cells: Sequence[Cell]) -> tuple[int, ...]:
    """Passed, and asked the cloud, at each setting."""
    return tuple(value for cell in cells for value in (cell.passed, not cell.is_local))


def _area(drawn: Sequence[tuple[int, ...]]) -> float | None:
    means = [_mean(column) for column in zip(*drawn, strict=True)]
    points = [Point(share, right) for right, share in zip(means[::2], means[1::2], strict=True)]
    return curve.apgr(points, points[0].quality, points[-1].quality)


def routing_figures(
    pairs: Sequence[Pair], rows: Sequence[ProfileRow], tiers: Sequence[str], seed: int, times: int = TIMES
) -> RoutingFigures:
    work = Work(pairs, rows, tiers, seed, times)
    rates = {group[0].task_class: {t: quality(policies.always(t), group) for t in work.tiers} for group in work.groups}
    local_sets = dict.fromkeys(((work.local[0],), (work.local[-1],), tuple(work.local)))
    return RoutingFigures(
        tuple(tiers),
        len(work.pairs),
        seed,
        [row for row in rows if row.tier in tiers],
        work.static,
        work.hindsight,
        rates,
        work.lines(),
        [one for way in WAYS for one in work.classes(way)],
        [work.curve(local, way) for way in WAYS for local in local_sets],
        {way: work.beside(policies.routed(way), policies.by_class(work.static)) for way in WAYS},
        work.aiq(),
    )
