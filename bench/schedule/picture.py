"""How far each policy is from the optimum, over all small instances, as one SVG file. Pure."""

from __future__ import annotations

import html
from collections.abc import Sequence

from bench.schedule.report import InstanceReport
from stoker_lab.reports import plots

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 560, 300, 56, 16, 64
MAX_RATIO = 6.0
"""The largest ratio that is drawn; greater ones lie on this line."""
_STYLE = f"""text {{ font-family: system-ui, -apple-system, "Segoe UI", sans-serif; }}
svg {{ --ground: #fff; --ink: #1b2330; --soft: #66707f; --rule: #e1e5ea; {plots.LIGHT} }}
@media (prefers-color-scheme: dark) {{
svg {{ --ground: #12161c; --ink: #e6eaf0; --soft: #98a3b3; --rule: #2c3541; {plots.DARK} }} }}
.ground {{ fill: var(--ground); }}
{plots.STYLE}"""


def ratio_picture(reports: Sequence[InstanceReport]) -> str:
    """The whole file. Each line is one policy's ratios, the best instance first."""
    right, low = WIDTH - 16, HEIGHT - BOTTOM
    parts = []
    for level in range(1, int(MAX_RATIO) + 1):
        y = _y(level)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text class="axis" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{level}</text>')
    for number, name in enumerate(reports[0].ratios):
        ratios = sorted(one.ratios[name] for one in reports)
        step = (right - LEFT) / max(1, len(ratios) - 1)
        points = " ".join(f"{LEFT + step * n:.1f},{_y(ratio):.1f}" for n, ratio in enumerate(ratios))
        x = LEFT + 165 * number
        parts.append(f'<polyline class="line s{number}" points="{points}"/>')
        parts.append(f'<path class="line s{number}" d="M{x} {HEIGHT - 14}h18"/>')
        parts.append(f'<text class="name" x="{x + 24}" y="{HEIGHT - 10}">{html.escape(name)}</text>')
    label = f"{len(reports)} instances, each policy's best first; waiting as a multiple of the least possible"
    parts.append(f'<text class="name" x="{LEFT}" y="{low + 24}">{label}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="waiting as a multiple of the least possible">\n<style>{_STYLE}</style>\n'
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _y(ratio: float) -> float:
    return TOP + (HEIGHT - BOTTOM - TOP) * (1 - (min(ratio, MAX_RATIO) - 1) / (MAX_RATIO - 1))
