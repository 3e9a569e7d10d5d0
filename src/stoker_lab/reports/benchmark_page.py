"""The report of a benchmark: one HTML file that needs nothing else, for a browser and for a colleague. Pure."""

from __future__ import annotations

import datetime
import html
import string
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from stoker import __version__
from stoker.domain.run import Finding, Number, Outcome, Run
from stoker_lab.comparison.benchmarks import BenchmarkComparison, FigureSpread
from stoker_lab.load.figures import summary
from stoker_lab.load.to_run import RawBenchmark
from stoker_lab.reports import plots
from stoker_lab.reports.plots import PlotLine, PlotPoint

TEMPLATE = string.Template((Path(__file__).parent / "report.html").read_text(encoding="utf-8"))
_COLUMNS = (
    ("output tok/s", "output_rate"), ("req/s", "request_rate"), ("TTFT p50", "ttft_p50"), ("p95", "ttft_p95"),
    ("max", "ttft_max"), ("TPOT p50", "tpot_p50"), ("p95", "tpot_p95"), ("E2E p50", "e2e_p50"),
    ("tok/s each", "decode_rate"), ("cached", "cached_share"),
)  # fmt: skip
_WORDS = {
    Outcome.PASSED: "all requests answered", Outcome.FAILED: "with failures", Outcome.INTERRUPTED: "interrupted",
    Outcome.UNDECIDED: "undecided", Outcome.NOT_APPLICABLE: "not applicable",
}  # fmt: skip


def benchmark_page(runs: Sequence[Run], comparison: BenchmarkComparison | None = None) -> str:
    """The whole file. `runs`: one per route."""
    first = runs[0]
    title = f"Benchmark of {first.subject.serve}"
    return TEMPLATE.substitute(
        title=html.escape(title),
        style=plots.STYLE,
        light=plots.LIGHT,
        dark=plots.DARK,
        when=datetime.datetime.fromtimestamp(first.at, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        model=html.escape(first.subject.model),
        tiles=_tiles(first),
        plots=_plots(runs),
        tables="".join(_table(run, len(runs) > 1) for run in runs),
        comparison=_compared(comparison) if comparison is not None else "",
        notes=_notes(runs),
        facts=_facts(first),
        id=html.escape(first.id),
        version=html.escape(__version__),
    )


def _tiles(run: Run) -> str:
    numbers = run.numbers
    steps = _steps(run)
    best = max(steps, key=lambda one: one.numbers.get("output_rate") or 0.0, default=None)
    cells = [("requests", f"{numbers['requests_ok']} ok", f"{numbers['requests_failed']} failed")]
    if best is not None and (rate := best.numbers.get("output_rate")) is not None:
        cells.insert(0, ("output tokens per second", number(rate), f"wall, all clients, at {best.name}"))
    cells.insert(1, ("time to first token", ms(numbers.get("ttft_p50")), _p50(steps)))
    if (each := numbers.get("decode_rate")) is not None:
        cells.insert(2, ("tokens per second of one answer", number(each), _p50(steps)))
    if (clients := numbers.get("knee_clients")) is not None:
        cells.append(("knee", f"{clients} clients", f"{number(numbers.get('knee_output_rate'))} tok/s"))
    return "".join(
        f'<div class="tile"><div class="what">{html.escape(what)}</div><div class="figure">{html.escape(value)}</div>'
        f'<div class="more">{html.escape(more)}</div></div>'
        for what, value, more in cells
    )


def _p50(steps: Sequence[Finding]) -> str:
    return f"median at {steps[0].name}" if steps else ""


def _plots(runs: Sequence[Run]) -> str:
    names = [run.subject.route for run in runs]
    rates = [PlotLine(run.subject.route, _points(run, "output_rate")) for run in runs]
    found = []
    if max(len(line.points) for line in rates) > 1:
        found.append(("Throughput", plots.line_plot(rates, "clients", "output tokens per second"), names))
        for title, figure in (("Time to first token", "ttft"), ("Time per output token", "tpot")):
            whats = ("p50", "p95", "max") if len(runs) == 1 else ("p50", "p95")
            shown = [(f"{figure}_{what}", what) for what in whats]
            some = [
                PlotLine(f"{run.subject.route} {what}" if len(runs) > 1 else what, points, run is not runs[0])
                for run in runs
                for name, what in shown
                if (points := _points(run, name))
            ]
            found.append((title, plots.line_plot(some, "clients", "milliseconds"), [line.name for line in some]))
    steps = _telling(_steps(runs[0]))
    values = [_ttfts(runs[0], name) for name in steps]
    found.append(("First tokens, one by one", plots.histogram(values, "TTFT in milliseconds"), steps))
    return "".join(
        f"<figure><figcaption>{title}</figcaption>{plots.legend(names)}{drawn}</figure>"
        for title, drawn, names in found
        if drawn
    )


def _telling(steps: Sequence[Finding]) -> list[str]:
    """At most four, from the first to the last: more colours in one plot are unreadable."""
    names = [one.name for one in steps if not one.name.startswith("r")] or [one.name for one in steps]
    if len(names) <= 4:
        return names
    return [names[round(n * (len(names) - 1) / 3)] for n in range(4)]


def _points(run: Run, figure: str) -> list[PlotPoint]:
    found = []
    for one in _steps(run):
        clients, value = one.numbers.get("clients"), one.numbers.get(figure)
        if clients is not None and value is not None and one.name == f"c{clients}":
            found.append(PlotPoint(clients, value, one.numbers.get(f"{figure}.low"), one.numbers.get(f"{figure}.high")))
    return sorted(found)


def _ttfts(run: Run, step: str) -> list[float]:
    """Milliseconds."""
    raw = msgspec.json.decode(run.raw, type=RawBenchmark)
    every = [one for sample in raw.samples if sample.step == step for one in sample.requests]
    return [one.ttft * 1000 for one in every if one.is_ok and one.ttft is not None]


def _table(run: Run, has_route: bool) -> str:
    head = "".join(f"<th>{name}</th>" for name, _ in _COLUMNS)
    rows = "".join(
        f'<tr class="{one.outcome.value}"><th scope="row">{html.escape(_named(one))}</th><td class="left">'
        f"{html.escape(one.observed.replace(', 0 failed', ''))}</td>"
        + "".join(f"<td>{_value(one.numbers, name)}</td>" for _, name in _COLUMNS)
        + "</tr>"
        for one in _steps(run)
    )
    route = (
        f": {html.escape(run.subject.route)} <small>{html.escape(run.subject.base_url)}</small>" if has_route else ""
    )
    return (
        f'<h2>Steps{route}</h2><div class="wide"><table><tr><th></th><th>requests</th>{head}</tr>{rows}</table></div>'
    )


def _named(step: Finding) -> str:
    return f"{step.name} (late)" if step.outcome is Outcome.UNDECIDED else step.name


def _value(numbers: Mapping[str, Number], name: str) -> str:
    value = numbers.get(name)
    if name == "cached_share":
        return "-" if value is None else f"{value:.0%}"
    if not name.endswith("rate"):
        return ms(value)
    if name != "output_rate":
        return number(value)
    low, high = numbers.get(f"{name}.low"), numbers.get(f"{name}.high")
    spread = f"<small>{number(low)} to {number(high)}</small>" if low is not None else ""
    return number(value) + spread


def _compared(found: BenchmarkComparison) -> str:
    rows = "".join(
        f'<tr class="{row.rating.value}"><th scope="row">{html.escape(row.step) if row.is_first else ""}</th>'
        f'<td class="left">{_words(row.figure)}{_unit(row.figure)}</td><td>{_cell(row.a)}</td><td>{_cell(row.b)}</td>'
        f"<td>{'-' if row.change is None else f'{row.change:+.1%}'}</td>"
        f'<td class="left word">{row.rating.value}</td></tr>'
        for row in found.rows
    )
    cautions = "".join(f'<li class="careful">{html.escape(text)}</li>' for text in found.cautions)
    head = "<tr><th></th><th>figure</th><th>before</th><th>after</th><th>change</th><th></th></tr>"
    return (
        f"<h2>Compared</h2><p>Before: {html.escape(found.a.id)}. After: {html.escape(found.b.id)}. A change counts "
        "where the spreads over repeats do not touch, or beyond 5 % where there is one repeat.</p>"
        f'<ul>{cautions}</ul><div class="wide"><table>{head}{rows}</table></div>'
    )


def _cell(one: FigureSpread) -> str:
    return number(one.value) + (
        f"<small>{number(one.low)} to {number(one.high)}</small>" if one.low is not None else ""
    )


def _notes(runs: Sequence[Run]) -> str:
    found = []
    for run in runs:
        before = f"{run.subject.route}: " if len(runs) > 1 else ""
        found.append(f"{before}{_WORDS[run.outcome]}; {summary(run.numbers)}")
        for one in run.findings:
            if "requests_ok" not in one.numbers:
                found.append(f"{before}{one.name}: {one.observed}")
            if one.cause:
                found.append(f"{before}{one.name}: {one.cause}; {one.fix}")
        if (cold := run.numbers.get("cold_ttft")) is not None:
            found.append(f"{before}the very first request took {ms(cold)} to its first token; it is in no other figure")
    return "".join(f"<li>{html.escape(text)}</li>" for text in found)


def _facts(run: Run) -> str:
    subject = run.subject
    what = {"serve": subject.serve, "model": subject.model, "address": subject.base_url, "route": subject.route}
    groups = (
        ("Measured", what | subject.fingerprint.parts),
        ("Settings", {name: _plain(value) for name, value in run.settings.items()}),
        ("Machine", {name: _plain(value) for name, value in run.machine.items()}),
    )
    return "".join(
        f"<section><h3>{title}</h3><dl>"
        + "".join(f"<dt>{html.escape(_words(k))}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items() if v)
        + "</dl></section>"
        for title, facts in groups
    )


def _plain(raw: msgspec.Raw) -> str:
    found = msgspec.json.decode(raw)
    if isinstance(found, bool):
        return "yes" if found else "no"
    return ", ".join(map(str, found)) if isinstance(found, list) else "" if found is None else str(found)


def _unit(figure: str) -> str:
    return ", ms" if figure.startswith(("ttft", "tpot", "e2e")) else "/s" if figure.endswith("_rate") else ""


def _words(name: str) -> str:
    return name.replace("_", " ")


def _steps(run: Run) -> list[Finding]:
    return [one for one in run.findings if "requests_ok" in one.numbers]


def number(value: Number) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def ms(value: Number) -> str:
    if value is None:
        return "-"
    return f"{value / 1000:.2f} s" if value >= 1000 else f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms"
