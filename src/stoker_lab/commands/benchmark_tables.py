"""The tables of a benchmark, and of two of them beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.cli.console import figures, terminal
from stoker.domain.figures import counted
from stoker.domain.run import Finding, Number, Outcome, Run
from stoker_lab.comparison.benchmarks import BenchmarkComparison, FigureSpread
from stoker_lab.load.figures import summary

COLUMNS = (
    "STEP", "REQUESTS", "OUT TOK/S", "SPREAD", "REQ/S", "TTFT P50", "P95", "MAX", "TPOT P50", "P95", "TOK/S EACH",
    "CACHED",
)  # fmt: skip


def show_benchmark(runs: Sequence[Run]) -> None:
    """What each route came to, what was odd, and what the way through the front door costs."""
    for run in runs:
        if len(runs) > 1:
            terminal.say(f"\n{run.subject.route} ({run.subject.base_url})")
        steps = [one for one in run.findings if "requests_ok" in one.numbers]
        if steps:
            terminal.table(COLUMNS, [_row(one) for one in steps], right=COLUMNS[2:])
        else:
            terminal.say("nothing was measured")
        for one in run.findings:
            if one not in steps:
                terminal.say(f"{one.name}: {one.observed}")
            if one.cause:
                terminal.say(f"{one.name}: {one.cause}; {one.fix}")
        for odd in _odd(run):
            terminal.say(odd)
    if len(runs) > 1:
        _show_routes(runs[0], runs[1])
    total = {"requests_ok": 0, "requests_failed": 0}
    for run in runs:
        for name, value in run.numbers.items():
            if name in total or name.startswith("failed."):
                total[name] = total.get(name, 0) + int(value or 0)
    interrupted = "interrupted: " if any(run.outcome is Outcome.INTERRUPTED for run in runs) else ""
    terminal.say(f"\n{interrupted}{summary(total)}")


def _row(step: Finding) -> tuple[str, ...]:
    numbers = step.numbers
    failed = f", {numbers['requests_failed']} failed" if numbers["requests_failed"] else ""
    mark = "" if step.outcome is not Outcome.UNDECIDED else " (late)"
    return (
        step.name + mark,
        f"{numbers['requests_ok']} ok{failed}",
        rate(numbers.get("output_rate")),
        _spread(numbers, "output_rate"),
        rate(numbers.get("request_rate")),
        *(milliseconds(numbers.get(f"ttft_{what}")) for what in ("p50", "p95", "max")),
        *(milliseconds(numbers.get(f"tpot_{what}")) for what in ("p50", "p95")),
        rate(numbers.get("decode_rate")),
        _share(numbers.get("cached_share")),
    )


def _odd(run: Run) -> list[str]:
    found = []
    numbers = run.numbers
    per_chunk = numbers.get("tokens_per_chunk")
    if per_chunk is not None and per_chunk > 1.2:
        found.append(f"{per_chunk:.1f} tokens arrive per chunk: gaps are between chunks, not tokens")
    if numbers.get("requests_ok") and numbers.get("output_tokens") is None:
        found.append("the server reports no usage: token rates are unknown (chunks are not counted instead)")
    if numbers.get("n_single_token"):
        found.append(f"{counted(numbers['n_single_token'], 'answer')} had a single token and no TPOT")
    if numbers.get("cold_ttft") is not None:
        found.append(f"the very first request took {milliseconds(numbers['cold_ttft'])} to its first token")
    if any(one.numbers.get("ttft_p95") is None for one in run.findings if one.numbers.get("requests_ok")):
        found.append("p95 needs 60 requests in a step: where it shows '-', use the maximum")
    return found


def _show_routes(front: Run, direct: Run) -> None:
    """What the way through the first route costs: differences and ratios by step."""
    after = {one.name: one.numbers for one in direct.findings}
    for figure, name in (("ttft_p50", "TTFT p50"), ("output_rate", "output tokens/s")):
        pairs = [(one.name, one.numbers.get(figure), after.get(one.name, {}).get(figure)) for one in front.findings]
        differences = [
            f"{step} {f'{a - b:+.1f} ms, ' if figure == 'ttft_p50' else ''}{a / b:.2f}x"
            for step, a, b in pairs
            if a and b
        ]
        if differences:
            terminal.say(f"\n{front.subject.route} against {direct.subject.route}, {name}: {'; '.join(differences)}")


def show_comparison(found: BenchmarkComparison) -> None:
    terminal.say(f"\nbefore  {found.a.id}\nafter   {found.b.id}")
    for caution in found.cautions:
        terminal.say(f"caution: {caution}")
    rows = [
        (row.step, row.figure, cell(row.a), cell(row.b), _percent(row.change), row.rating.value) for row in found.rows
    ]
    if rows:
        terminal.table(("STEP", "FIGURE", "BEFORE", "AFTER", "CHANGE", ""), rows, right=("BEFORE", "AFTER", "CHANGE"))
    if found.unmatched_steps:
        terminal.say(f"only in one of them: {', '.join(dict.fromkeys(found.unmatched_steps))}")


def cell(one: FigureSpread) -> str:
    if one.low is None or one.high is None:
        return rate(one.value)
    return f"{rate(one.value)} ({rate(one.low)} to {rate(one.high)})"


def rate(value: Number) -> str:
    if value is None:
        return figures.UNKNOWN
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def milliseconds(value: Number) -> str:
    if value is None:
        return figures.UNKNOWN
    return f"{value:.1f} ms" if value < 100 else figures.seconds(value / 1000)


def _spread(numbers: Mapping[str, Number], name: str) -> str:
    low, high = numbers.get(f"{name}.low"), numbers.get(f"{name}.high")
    return figures.UNKNOWN if low is None else f"{rate(low)}-{rate(high)}"


def _percent(change: float | None) -> str:
    return figures.UNKNOWN if change is None else f"{change:+.1%}"


def _share(value: Number) -> str:
    return figures.UNKNOWN if value is None else f"{value:.0%}"
