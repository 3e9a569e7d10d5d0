"""The curve of quality over cost as one SVG file, a panel for each set of tiers. Pure."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import pairwise

from bench.routing.curve import Point
from bench.routing.figures import AUTO, DECLARED, WAYS, Curve, Line, RoutingFigures
from bench.routing.routing_stoker import CLOUD
from stoker_lab.reports import plots
from stoker_lab.reports.plots import PlotMark

STEPS = 24
"""Points of a mix by chance between two settings: it is straight over cost, and the axis of costs doubles, so most
of them are at the first one."""
HEAD, ROW, SIDE = 26, 20, 16
KEYS = (
    ("circle", 0, f"routed, {DECLARED}"), ("circle", 1, f"routed, {AUTO}"), ("square", 2, "always one local tier"),
    ("square", 4, "always cloud"), ("diamond", 3, "best tier per class, by the suites"), ("triangle", 5, "oracle"),
    ("cross", 7, "cheapest tier or cloud by chance, at the cost of a routed one"),
)  # fmt: skip
CURVES = (
    (0, False, f"all thresholds, {DECLARED}"), (1, True, f"all thresholds, {AUTO}"),
    (7, True, "cheapest tier or cloud by chance"),
)  # fmt: skip
_STYLE = f"""text {{ font-family: system-ui, -apple-system, "Segoe UI", sans-serif; }}
svg {{ --ground: #fff; --ink: #1b2330; --soft: #66707f; --rule: #e1e5ea; {plots.LIGHT} }}
@media (prefers-color-scheme: dark) {{
svg {{ --ground: #12161c; --ink: #e6eaf0; --soft: #98a3b3; --rule: #2c3541; {plots.DARK} }} }}
.ground {{ fill: var(--ground); }} .head {{ font-size: 13.5px; font-weight: 600; fill: var(--ink); }}
{plots.STYLE}"""


def picture(all_figures: Sequence[RoutingFigures]) -> str:
    """The whole file. It needs nothing else, and follows the reader's theme."""
    low = _low(all_figures)
    parts, top = [], 0.0
    for figures in all_figures:
        top += HEAD
        head = html.escape(f"Tiers: {', '.join(figures.tiers)}")
        parts.append(f'<text class="head" x="{SIDE}" y="{top - 6:.0f}">{head}</text>')
        parts.append(_at(panel(figures, low), top))
        top += plots.HEIGHT
    rows = [_curve_key(*key) for key in CURVES] + [_mark_key(*key) for key in KEYS]
    for row in rows:
        top += ROW
        parts.append(f'<g transform="translate({SIDE} {top - 6:.0f})">{row}</g>')
    height = top + SIDE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {plots.WIDTH} {height:.0f}" width="{plots.WIDTH}" '
        f'height="{height:.0f}" role="img" aria-label="quality over cost">\n<style>{_STYLE}</style>\n'
        f'<rect class="ground" width="{plots.WIDTH}" height="{height:.0f}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def panel(figures: RoutingFigures, low: float) -> str:
    """One set of tiers: what could be had by choosing a threshold or by chance, and where each policy lies."""
    ends = [_place(_line(figures, f"always {tier}")) for tier in (figures.tiers[0], CLOUD)]
    chance = plots.PlotLine("by chance", points_of(ends), is_dashed=True)
    drawn = [(chance, 7)]
    for way, (colour, is_dashed, name) in zip(WAYS, CURVES, strict=False):
        drawn.append((plots.PlotLine(name, points_of(_whole(figures, way).points), is_dashed), colour))
    return plots.curve_plot(drawn, marks(figures), "cost of 1,000 requests", "right, %", low)


def marks(figures: RoutingFigures) -> list[PlotMark]:
    """Each policy by its figures; what is known in hindsight only is left to the tables."""
    named = [
        *((f"always {tier}", "square", 4 if tier == CLOUD else 2) for tier in figures.tiers),
        ("best per class, by the suites", "diamond", 3),
        ("oracle", "triangle", 5),
        *((f"{figures.tiers[0]} or cloud by chance, at the cost of {way}", "cross", 7) for way in WAYS),
        *((f"routed: {way}", "circle", colour) for colour, way in enumerate(WAYS)),
    ]
    return [_mark(_line(figures, name), shape, colour) for name, shape, colour in named]


def _mark(line: Line, shape: str, colour: int) -> PlotMark:
    at = _place(line)
    return PlotMark(line.name, at.cost, 100 * at.quality, shape, colour)


def _line(figures: RoutingFigures, name: str) -> Line:
    return next(one for one in figures.lines if one.name == name)


def _place(line: Line) -> Point:
    assert line.quality.value is not None, "a share that passed is always defined"
    return Point(1 - line.local, line.quality.value, line.cost)


def _whole(figures: RoutingFigures, way: str) -> Curve:
    """With all local tiers."""
    return next(one for one in figures.curves if one.way == way and one.local == figures.tiers[:-1])


def points_of(points: Sequence[Point]) -> list[plots.PlotPoint]:
    mixed = [_mix(one, other, (step / STEPS) ** 3) for one, other in pairwise(points) for step in range(STEPS)]
    return [plots.PlotPoint(point.cost, 100 * point.quality) for point in [*mixed, points[-1]]]


def _mix(one: Point, other: Point, share: float) -> Point:
    return Point(*(a + share * (b - a) for a, b in zip(one, other, strict=True)))


def _low(all_figures: Sequence[RoutingFigures]) -> float:
    """The bottom of all panels: the same, so that they can be compared."""
    least = min(mark.y for figures in all_figures for mark in marks(figures))
    return max(0.0, 20.0 * (least // 20))


def _at(svg: str, top: float) -> str:
    """A whole drawing as a part of another."""
    return svg.replace("<svg ", f'<svg y="{top:.0f}" width="{plots.WIDTH}" height="{plots.HEIGHT}" ', 1)


def _mark_key(shape: str, colour: int, name: str) -> str:
    return f'{plots.symbol(shape, colour, 12, -4)}<text class="name" x="30">{html.escape(name)}</text>'


def _curve_key(colour: int, is_dashed: bool, name: str) -> str:
    dashed = ' stroke-dasharray="5 4"' if is_dashed else ""
    line = f'<line class="line s{colour}"{dashed} x1="0" x2="24" y1="-4" y2="-4"/>'
    return f'{line}<text class="name" x="30">{html.escape(name)}</text>'
