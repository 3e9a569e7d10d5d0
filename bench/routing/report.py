"""Tables of the figures, and whether they are reached. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from bench.figures import table
from bench.routing.figures import WAYS, ClassFigures, Curve, Line, RoutingFigures
from bench.routing.resample import Figure
from bench.routing.routing_stoker import CLOUD

MIN_FIXTURES = 1500
MIN_DIFFERENCE_TO_CLOUD = -0.02
MIN_LOCAL = 0.5
MIN_APGR = 0.75


def percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def points(seen: Figure) -> str:
    """A difference in percentage points."""
    return _spread(seen, lambda value: f"{100 * value:+.1f}")


def plain(seen: Figure) -> str:
    return _spread(seen, lambda value: f"{value:.2f}")


def _spread(seen: Figure, show: Callable[[float], str]) -> str:
    if seen.value is None:
        return "no gap"
    if seen.low is None or seen.high is None:
        return f"{show(seen.value)} (no interval)"
    return f"{show(seen.value)} ({show(seen.low)} to {show(seen.high)})"


def counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def tiers_table(figures: RoutingFigures) -> str:
    """What the suites said before, and what came out on the paired set."""
    rows = {(row.task_class, row.tier): row for row in figures.suites}

    def cell(name: str, tier: str) -> str:
        row, rate = rows.get((name, tier)), percent(figures.rates[name][tier])
        return rate if row is None else f"{row.passed}/{row.n} {row.verdict.value}; {rate}"

    head = ["class", *figures.tiers, "best by the suites", "in hindsight"]
    return table(
        head,
        [[name, *(cell(name, tier) for tier in figures.tiers), figures.static.get(name, "-"), figures.hindsight[name]]
         for name in figures.rates],
    )  # fmt: skip


def policies_table(figures: RoutingFigures) -> str:
    dear = next(line.cost for line in figures.lines if line.name == f"always {CLOUD}")
    head = ["policy", "right", "beside always cloud, points", "of 1,000 requests local", "cost of 1,000", "saved"]

    def row(line: Line) -> list[str]:
        saved = percent(1 - line.cost / dear)
        right = percent(line.quality.value)
        return [line.name, right, points(line.beside), f"{1000 * line.local:.0f}", f"{line.cost:.4f}", saved]

    return table(head, [row(line) for line in figures.lines])


def classes_table(classes: Iterable[ClassFigures]) -> str:
    head = ["class", "asked as", "taken for", "served by", "right", "beside cloud", "beside best by the suites"]
    return table(
        head,
        [
            [one.name, one.way, counted(one.routed_classes), counted(one.tiers), percent(one.quality),
             points(one.beside_cloud), points(one.beside_static)]
            for one in classes
        ],
    )  # fmt: skip


def curves_table(curves: Iterable[Curve]) -> str:
    head = ["asked as", "tiers", "cloud calls and quality at each threshold", "APGR", "CPT 50", "CPT 80"]

    def along(one: Curve) -> str:
        return ", ".join(f"{percent(at.share, 0)}: {percent(at.quality)}" for at in one.points)

    return table(
        head,
        [[one.way, " + ".join([*one.local, CLOUD]), along(one), plain(one.apgr), percent(one.cpt50),
          percent(one.cpt80)] for one in curves],
    )  # fmt: skip


def reached(figures: RoutingFigures) -> list[tuple[str, str, str, bool]]:
    """Each figure to reach, for each way of asking: what, bound, measured, reached. By the value that was seen."""
    rows = [("fixtures", f"at least {MIN_FIXTURES}", str(figures.n), figures.n >= MIN_FIXTURES)]
    for way in WAYS:
        line = next(one for one in figures.lines if one.name == f"routed: {way}")
        static = figures.beside_static[way]
        pair = next(one for one in figures.curves if one.way == way and one.local == figures.tiers[:1])
        rows += [
            (f"{way}: quality beside always cloud", "at least -2 points", points(line.beside),
             _is_at_least(line.beside, MIN_DIFFERENCE_TO_CLOUD)),
            (f"{way}: requests that stay local", "at least half", percent(line.local), line.local >= MIN_LOCAL),
            (f"{way}: quality beside best per class", "not below", points(static), _is_at_least(static, 0.0)),
            (f"{way}: APGR, {figures.tiers[0]} and cloud", f"at least {MIN_APGR}", plain(pair.apgr),
             _is_at_least(pair.apgr, MIN_APGR)),
        ]  # fmt: skip
    return rows


def _is_at_least(seen: Figure, bound: float) -> bool:
    return seen.value is not None and seen.value >= bound


def reached_table(figures: RoutingFigures) -> str:
    rows = [(what, bound, value, "reached" if is_so else "MISSED") for what, bound, value, is_so in reached(figures)]
    return table(("figure to reach", "bound", "measured", "result"), rows)


def shown(figures: RoutingFigures) -> str:
    parts = (
        ("Tiers: passed at the suites, verdict; right on the paired set", tiers_table(figures)),
        ("Policies", policies_table(figures)),
        ("Class by class", classes_table(figures.classes)),
        ("Curves", curves_table(figures.curves)),
        ("AIQ", table(("", "AIQ"), [[name, f"{value:.4f}"] for name, value in figures.aiq.items()])),
        ("Figures", reached_table(figures)),
    )
    return "\n\n".join([_title(figures), *(f"{title}\n\n{text}" for title, text in parts)])


def _title(figures: RoutingFigures) -> str:
    return f"== tiers: {', '.join(figures.tiers)} =="
