"""Two models side by side as one HTML file that needs nothing else: no script, nothing from elsewhere. Pure."""

from __future__ import annotations

import html
from collections.abc import Sequence

from stoker import __version__
from stoker.domain import figures
from stoker.domain.run import Number
from stoker_lab.comparison.models import (
    SPEED,
    UNITS,
    ClassComparison,
    ClassRating,
    ComparedModel,
    ModelComparison,
    PassRate,
    points,
)

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2127; --soft: #5c6670; --line: #d5dae0; --ground: #ffffff; --band: #f4f6f8;
  --good: #1a7f4b; --bad: #b3362b; --same: #6b7580 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #9aa4ae; --line: #39414a; --ground: #15191d;
  --band: #1d2329; --good: #55c98a; --bad: #f0857a; --same: #98a2ac } }
body { margin: 0 auto; max-width: 68rem; padding: 2rem 1rem 4rem; color: var(--ink); background: var(--ground);
  font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p.summary { font-size: 1.15rem; padding: .8rem 1rem; background: var(--band); border-left: 4px solid var(--same) }
.wide { overflow-x: auto } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td.left { text-align: left } thead th { color: var(--soft); font-weight: 500 }
small, .soft { color: var(--soft) } .better { color: var(--good) } .worse { color: var(--bad) } svg { display: block }
"""
_WIDTH, _HEIGHT = 180, 22
_MIN_SCALE = 0.2
"""Half the width of the difference axis, unless an interval is longer."""
_KINDS = (" class='left'", "", "", "")


def models_page(found: ModelComparison, when: str, notes: Sequence[str] = ()) -> str:
    """The whole file. `when`: the time, in words."""
    a, b = html.escape(found.a.name), html.escape(found.b.name)
    scale = max((abs(bound) for one in found.classes for bound in one.interval), default=0.0)
    rows = "".join(_row(one, max(scale, _MIN_SCALE)) for one in found.classes)
    listed = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    alone = (
        f"<p class='soft'>Only one of them was measured at {_words(found.unmatched_classes)}.</p>"
        if found.unmatched_classes
        else ""
    )
    head = f"<tr><th>class</th><th>{a}</th><th>{b}</th><th>difference</th><th></th><th></th></tr>"
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>{a} and {b}</title>"
        f"<meta name='viewport' content='width=device-width, initial-scale=1'><style>{_STYLE}</style></head><body>"
        f"<h1>{a} and {b}</h1><p class='soft'>{html.escape(when)}</p>"
        f"<p class='summary'>{html.escape(found.summary)}</p>"
        f"<h2>By class of tasks</h2><div class='wide'><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>"
        "<p class='soft'>Rates with their 95 % intervals; the difference in points, with its own, pair by pair where "
        "both were asked the same questions. It counts where the interval leaves out zero. Of twelve classes that are "
        f"equal, one may seem to differ by chance.</p>{alone}<h2>Speed, memory, cost</h2>"
        f"<div class='wide'><table><thead><tr><th></th><th>{a}</th><th>{b}</th><th>ratio</th>"
        f"</tr></thead><tbody>{_costs(found.a, found.b)}</tbody></table></div>"
        f"<ul class='soft'>{listed}</ul><p><small>stoker {html.escape(__version__)}; results: "
        f"{_words((*found.a.runs, *found.b.runs))}</small></p></body></html>\n"
    )


def _words(names: Sequence[str]) -> str:
    return html.escape(", ".join(names) or "none")


def _row(one: ClassComparison, scale: float) -> str:
    word = one.rating.value
    kind = "" if one.rating is ClassRating.SAME else word
    return (
        f"<tr><td class='left'>{html.escape(one.name)}</td><td>{_rate(one.a)}</td><td>{_rate(one.b)}</td>"
        f"<td>{html.escape(points(one).replace('95 % interval ', ''))}</td><td>{_drawn(one, scale)}</td>"
        f"<td class='left {kind}'>{word}</td></tr>"
    )


def _rate(rate: PassRate) -> str:
    low, high = rate.interval
    return f"{rate.passed} of {rate.n} <small>{low:.2f} to {high:.2f}</small>"


def _drawn(one: ClassComparison, scale: float) -> str:
    """The interval of the difference on a line that is the same for all classes, zero in its middle."""

    def x(value: float) -> float:
        return round((value / scale + 1) / 2 * (_WIDTH - 12) + 6, 1)

    colour = {ClassRating.BETTER: "--good", ClassRating.WORSE: "--bad", ClassRating.SAME: "--same"}[one.rating]
    middle, zero = _HEIGHT // 2, x(0)
    label = html.escape(points(one), quote=True)
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{label}">'
        f'<line x1="0" x2="{_WIDTH}" y1="{middle}" y2="{middle}" stroke="var(--line)"/>'
        f'<line x1="{zero}" x2="{zero}" y1="2" y2="{_HEIGHT - 2}" stroke="var(--soft)"/>'
        f'<line x1="{x(one.interval.low)}" x2="{x(one.interval.high)}" y1="{middle}" y2="{middle}" '
        f'stroke="var({colour})" stroke-width="4"/>'
        f'<circle cx="{x(one.difference)}" cy="{middle}" r="5" fill="var({colour})"/></svg>'
    )


def _costs(a: ComparedModel, b: ComparedModel) -> str:
    rows = [(_title(name, a), _figure(a.speed.get(name)), _figure(b.speed.get(name)),
             _ratio(a.speed.get(name), b.speed.get(name))) for name in SPEED]  # fmt: skip
    rows.append(("memory", size(a.memory), size(b.memory), _ratio(a.memory, b.memory)))
    rows.append(("cost per million tokens", cost(a), cost(b), ""))
    return "".join(
        "<tr>"
        + "".join(f"<td{kind}>{html.escape(text)}</td>" for kind, text in zip(_KINDS, row, strict=True))
        + "</tr>"
        for row in rows
    )


def _title(name: str, side: ComparedModel) -> str:
    under = f", {side.clients} clients" if name == "output_rate" and side.clients else ", one client"
    return f"{name.replace('_', ' ')}, {UNITS[name]}{under}"


def _figure(value: Number) -> str:
    return "unknown" if value is None else f"{value:,.1f}"


def _ratio(a: Number, b: Number) -> str:
    return f"{b / a:.2f}x" if a and b is not None else ""


def size(value: int | None) -> str:
    return "unknown" if value is None else figures.size(value)


def cost(side: ComparedModel) -> str:
    return "unknown" if side.cost is None else f"{side.cost.input:g} in, {side.cost.output:g} out"
