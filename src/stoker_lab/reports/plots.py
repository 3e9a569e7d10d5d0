"""Small plots as SVG text. Pure. Colours are the page's own (classes `s0`, `s1`, ...), so they follow its theme:
`STYLE` has the rules, `LIGHT` and `DARK` the colours; `--soft` and `--rule` are for the page to say.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 520, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 16, 14, 44
_TICKS = 5
_LIGHT = ("#2563c9", "#d4661a", "#2f8f5b", "#8a4fc0", "#b3324b", "#0f8a96", "#96791a", "#5c6675")
_DARK = ("#6ea4ff", "#f2a05e", "#67c893", "#bd92ee", "#ef7d92", "#5cc6d0", "#d6ba5c", "#a4aebd")
LIGHT, DARK = (" ".join(f"--c{n}: {colour};" for n, colour in enumerate(row)) for row in (_LIGHT, _DARK))
STYLE = """.axis { font-size: 11.5px; fill: var(--soft); font-variant-numeric: tabular-nums; }
.name { font-size: 12px; fill: var(--soft); }
.grid { stroke: var(--rule); }
.line { fill: none; stroke-width: 2; }
.whisker { stroke-width: 6; opacity: 0.25; }
.bar { stroke: none; }
.mark { fill: none; stroke: var(--c); stroke-width: 2.2; }
.s0 { --c: var(--c0); } .s1 { --c: var(--c1); } .s2 { --c: var(--c2); } .s3 { --c: var(--c3); }
.s4 { --c: var(--c4); } .s5 { --c: var(--c5); } .s6 { --c: var(--c6); } .s7 { --c: var(--c7); }
.line, .whisker { stroke: var(--c); } .dot, .bar { fill: var(--c); }
"""
SHAPES = {
    "circle": "M6.5 0A6.5 6.5 0 1 1 -6.5 0A6.5 6.5 0 1 1 6.5 0Z",
    "diamond": "M0 -5.5L5.5 0L0 5.5L-5.5 0Z",
    "square": "M-4 -4H4V4H-4Z",
    "cross": "M-4 -4L4 4M-4 4L4 -4",
    "triangle": "M0 -5L5 4H-5Z",
}
"""Paths around a point, for `Mark`: outlines, so that two at one place are both seen."""


class PlotPoint(NamedTuple):
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    """The spread over repeats."""


class PlotLine(NamedTuple):
    name: str
    points: Sequence[PlotPoint]
    is_dashed: bool = False


class PlotMark(NamedTuple):
    """A point that stands for itself."""

    name: str
    x: float
    y: float
    shape: str
    colour: int


class _Scale(NamedTuple):
    low: float
    high: float
    begin: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log2(low), math.log2(high), math.log2(value)
        share = 0.5 if high == low else (value - low) / (high - low)
        return self.begin + share * (self.end - self.begin)


def line_plot(series: Sequence[PlotLine], x_name: str, y_name: str) -> str:
    """Lines over a doubling x axis; whiskers where a point has a spread. Empty: nothing to draw."""
    series = [line for line in series if line.points]
    if not series:
        return ""
    every = [point for line in series for point in line.points]
    xs = sorted({point.x for point in every})
    top = round_up(max(max(point.y, point.high or 0.0) for point in every))
    across = _Scale(xs[0], xs[-1], _LEFT + 14, WIDTH - _RIGHT - 14, is_log=True)
    up = _Scale(0.0, top, HEIGHT - _BOTTOM, _TOP)
    parts = [_grid(up), *(_label_x(across.at(x), f"{x:g}") for x in _thinned(xs)), _names(x_name, y_name)]
    for number, line in enumerate(series):
        parts.append(_path(line, number, across, up))
    return _svg(parts, f"{y_name} by {x_name}")


def curve_plot(
    curves: Sequence[tuple[PlotLine, int]], marks: Sequence[PlotMark], x_name: str, y_name: str, low: float
) -> str:
    """Curves without dots, each with its colour, and marks over them; over a doubling x axis, from `low` up to 100.
    A straight line between two points of a curve is one of the plot, and not of the figures.
    """
    xs = [point.x for line, _ in curves for point in line.points] + [mark.x for mark in marks]
    across = _Scale(min(xs), max(xs), _LEFT + 14, WIDTH - _RIGHT - 14, is_log=True)
    up = _Scale(low, 100.0, HEIGHT - _BOTTOM, _TOP + 6)
    parts = [_grid(up), *(_label_x(across.at(x), axis_number(x)) for x in round_numbers(min(xs), max(xs)))]
    parts.append(_names(x_name, y_name))
    parts += [_polyline(line, colour, across, up) for line, colour in curves]
    parts += [symbol(mark.shape, mark.colour, across.at(mark.x), up.at(mark.y), _tooltip(mark)) for mark in marks]
    return _svg(parts, f"{y_name} by {x_name}")


def symbol(shape: str, colour: int, x: float, y: float, title: str = "") -> str:
    title_tag = f"<title>{html.escape(title)}</title>" if title else ""
    where = f"translate({x:.1f} {y:.1f})"
    return f'<path class="mark s{colour % 8}" transform="{where}" d="{SHAPES[shape]}">{title_tag}</path>'


def _tooltip(mark: PlotMark) -> str:
    return f"{mark.name}: {axis_number(mark.y)} at {axis_number(mark.x)}"


def round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten that lie between."""
    sizes = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**size for size in sizes for step in (1, 2, 5) if low <= step * 10.0**size <= high]


def histogram(values: Sequence[Sequence[float]], x_name: str, bins: int = 24) -> str:
    """How often which value came, one colour per row of values; the few far out are in the last bar, so that the others
    can be told apart. Empty: nothing to draw."""
    every = sorted(value for row in values for value in row)
    if not every:
        return ""
    low, high = every[0], every[min(len(every) - 1, int(len(every) * 0.98))]
    is_cut = high < every[-1]
    if high <= low:
        low, high = low - 0.5, high + 0.5
    width = (high - low) / bins
    counts = [[0] * bins for _ in values]
    for number, row in enumerate(values):
        for value in row:
            counts[number][min(bins - 1, int((value - low) / width))] += 1
    top = round_up(max(sum(column) for column in zip(*counts, strict=True)))
    across, up = _Scale(low, high, _LEFT, WIDTH - _RIGHT), _Scale(0.0, top, HEIGHT - _BOTTOM, _TOP)
    marks = [low + (high - low) * n / (_TICKS - 1) for n in range(_TICKS)]
    labels = [_label_x(across.at(mark), axis_number(mark)) for mark in marks[:-1]]
    labels.append(_label_x(across.at(high), f"{axis_number(high)} +" if is_cut else axis_number(high), "end"))
    parts = [_grid(up), *labels, _names(x_name, "requests")]
    for place in range(bins):
        under = 0
        for number, row_counts in enumerate(counts):
            n = row_counts[place]
            if n:
                left, right = across.at(low + place * width), across.at(low + (place + 1) * width)
                y = up.at(under + n)
                parts.append(
                    f'<rect class="bar s{number % 8}" x="{left + 0.5:.1f}" y="{y:.1f}" width="{right - left - 1:.1f}" '
                    f'height="{up.at(under) - y:.1f}"><title>{n} from {axis_number(low + place * width)}</title></rect>'
                )
                under += n
    return _svg(parts, f"how often which {x_name}")


def legend(names: Sequence[str]) -> str:
    """The colours and what they stand for, as HTML."""
    items = (f'<span class="key"><i class="s{n % 8}"></i>{html.escape(name)}</span>' for n, name in enumerate(names))
    return f'<div class="legend">{"".join(items)}</div>'


def round_up(value: float) -> float:
    """The next round number: the top of an axis."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * size >= value * 0.999)


def axis_number(value: float) -> str:
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _grid(up: _Scale) -> str:
    marks = [up.low + (up.high - up.low) * n / (_TICKS - 1) for n in range(_TICKS)]
    return "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{up.at(mark):.1f}" y2="{up.at(mark):.1f}"/>'
        f'<text class="axis" x="{_LEFT - 8}" y="{up.at(mark) + 4:.1f}" text-anchor="end">{axis_number(mark)}</text>'
        for mark in marks
    )


def _label_x(x: float, text: str, anchor: str = "middle") -> str:
    return f'<text class="axis" x="{x:.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="{anchor}">{text}</text>'


def _names(x_name: str, y_name: str) -> str:
    middle = (HEIGHT - _BOTTOM + _TOP) / 2
    return (
        f'<text class="name" x="{(WIDTH + _LEFT - _RIGHT) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">'
        f"{html.escape(x_name)}</text>"
        f'<text class="name" transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">'
        f"{html.escape(y_name)}</text>"
    )


def _path(line: PlotLine, number: int, across: _Scale, up: _Scale) -> str:
    colour = f"s{number % 8}"
    at = [(across.at(point.x), up.at(point.y), point) for point in line.points]
    parts = [_polyline(line, number, across, up)]
    for x, y, point in at:
        if point.low is not None and point.high is not None and point.high > point.low:
            parts.append(
                f'<line class="whisker {colour}" x1="{x:.1f}" x2="{x:.1f}" '
                f'y1="{up.at(point.low):.1f}" y2="{up.at(point.high):.1f}"/>'
            )
        title = f"{html.escape(line.name)}: {axis_number(point.y)} at {point.x:g}"
        parts.append(f'<circle class="dot {colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{title}</title></circle>')
    return "".join(parts)


def _polyline(line: PlotLine, number: int, across: _Scale, up: _Scale) -> str:
    dashed = ' stroke-dasharray="5 4"' if line.is_dashed else ""
    at = " ".join(f"{across.at(point.x):.1f},{up.at(point.y):.1f}" for point in line.points)
    return f'<polyline class="line s{number % 8}"{dashed} points="{at}"/>'


def _thinned(xs: Sequence[float]) -> Sequence[float]:
    """So few that their labels do not touch: on a doubling axis, those that are far enough from the last one."""
    found: list[float] = []
    least = 2 ** (math.log2(xs[-1] / xs[0]) / 12) if xs[0] > 0 else 1.0
    for x in xs:
        if not found or x >= found[-1] * least:
            found.append(x)
    return found


def _svg(parts: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">' + "".join(parts) + "</svg>"
    )
