"""Small plots as SVG text. Pure. Colours are the page's own (classes `s0`, `s1`, ...), so they follow its theme."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 520, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 16, 14, 44
_TICKS = 5


class Point(NamedTuple):
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    """The spread over repeats."""


class Line(NamedTuple):
    name: str
    points: Sequence[Point]
    is_dashed: bool = False


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


def lines(series: Sequence[Line], x_name: str, y_name: str) -> str:
    """Lines over a doubling x axis; whiskers where a point has a spread. Empty: nothing to draw."""
    series = [line for line in series if line.points]
    if not series:
        return ""
    every = [point for line in series for point in line.points]
    xs = sorted({point.x for point in every})
    top = nice(max(max(point.y, point.high or 0.0) for point in every))
    across = _Scale(xs[0], xs[-1], _LEFT + 14, WIDTH - _RIGHT - 14, is_log=True)
    up = _Scale(0.0, top, HEIGHT - _BOTTOM, _TOP)
    parts = [_grid(up), *(_label_x(across.at(x), f"{x:g}") for x in _thinned(xs)), _names(x_name, y_name)]
    for number, line in enumerate(series):
        parts.append(_path(line, number, across, up))
    return _svg(parts, f"{y_name} by {x_name}")


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
    top = nice(max(sum(column) for column in zip(*counts, strict=True)))
    across, up = _Scale(low, high, _LEFT, WIDTH - _RIGHT), _Scale(0.0, top, HEIGHT - _BOTTOM, _TOP)
    marks = [low + (high - low) * n / (_TICKS - 1) for n in range(_TICKS)]
    labels = [_label_x(across.at(mark), short(mark)) for mark in marks[:-1]]
    labels.append(_label_x(across.at(high), f"{short(high)} +" if is_cut else short(high), "end"))
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
                    f'height="{up.at(under) - y:.1f}"><title>{n} from {short(low + place * width)}</title></rect>'
                )
                under += n
    return _svg(parts, f"how often which {x_name}")


def legend(names: Sequence[str]) -> str:
    """The colours and what they stand for, as HTML."""
    items = (f'<span class="key"><i class="s{n % 8}"></i>{html.escape(name)}</span>' for n, name in enumerate(names))
    return f'<div class="legend">{"".join(items)}</div>'


def nice(value: float) -> float:
    """The next round number: the top of an axis."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * size >= value * 0.999)


def short(value: float) -> str:
    """A number as it stands on an axis."""
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _grid(up: _Scale) -> str:
    marks = [up.high * n / (_TICKS - 1) for n in range(_TICKS)]
    return "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{up.at(mark):.1f}" y2="{up.at(mark):.1f}"/>'
        f'<text class="axis" x="{_LEFT - 8}" y="{up.at(mark) + 4:.1f}" text-anchor="end">{short(mark)}</text>'
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


def _path(line: Line, number: int, across: _Scale, up: _Scale) -> str:
    colour = f"s{number % 8}"
    at = [(across.at(point.x), up.at(point.y), point) for point in line.points]
    dashed = ' stroke-dasharray="5 4"' if line.is_dashed else ""
    parts = [f'<polyline class="line {colour}"{dashed} points="{" ".join(f"{x:.1f},{y:.1f}" for x, y, _ in at)}"/>']
    for x, y, point in at:
        if point.low is not None and point.high is not None and point.high > point.low:
            parts.append(
                f'<line class="whisker {colour}" x1="{x:.1f}" x2="{x:.1f}" '
                f'y1="{up.at(point.low):.1f}" y2="{up.at(point.high):.1f}"/>'
            )
        title = f"{html.escape(line.name)}: {short(point.y)} at {point.x:g}"
        parts.append(f'<circle class="dot {colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{title}</title></circle>')
    return "".join(parts)


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
