"""From what was seen to figures, tables and verdicts. Pure.

cost of a request  CPU of the gateway over the steady pass / requests answered in it
cost of an event   (CPU per stream of the long pass - CPU per stream of the short pass) / (events long - events short)
added time         the gateway's percentile minus direct's in the same round
Each is computed per round; what is shown is the median over the rounds, and the lowest and highest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.figures import Spread, nearest_rank, ratio, show, show_spread, spread, table
from bench.load import Result
from bench.overhead.gateways import GATEWAYS
from bench.overhead.rounds import Record, Run
from bench.overhead.scenarios import Scenario

NAMES = {"direct": "direct", **{name: peer.title for name, peer in GATEWAYS.items()}}


class Line(NamedTuple):
    """One gateway under one scenario. CPU in microseconds, times in milliseconds, memory in MB (1e6 bytes)."""

    scenario: str
    gateway: str
    cpu_request: Spread | None
    """Per request; for streams, per stream without its events."""
    cpu_event: Spread | None
    rate: Spread | None
    """Requests per second; None for streams."""
    first_p50: Spread | None
    first_p99: Spread | None
    added_p50: Spread | None
    added_p99: Spread | None
    resident: float | None
    exchanges: int
    failures: dict[str, int]


class Verdict(NamedTuple):
    """One figure to reach. `value` None: could not be measured."""

    what: str
    limit: float
    value: float | None
    cost: bool
    """False: correctness, which may not be missed."""

    @property
    def is_reached(self) -> bool:
        return self.value is not None and self.value <= self.limit


def cpu_per_exchange(results: Sequence[Result], name: str) -> float | None:
    """Microseconds per request (or stream) of the pass of that name. None if none of them got its answer: to refuse
    or to lose a request costs something else."""
    for one in results:
        if one.name == name and one.first:
            return one.cpu / one.exchanges * 1e6
    return None


def cpu_per_event(results: Sequence[Result], scenario: Scenario) -> float | None:
    """Microseconds; see the method above. None if a pass is missing."""
    events = {one.name: one.events for one in scenario.passes}
    short, long = cpu_per_exchange(results, "short"), cpu_per_exchange(results, "long")
    if short is None or long is None:
        return None
    return (long - short) / (events["long"] - events["short"])


def cpu_per_stream(results: Sequence[Result], scenario: Scenario) -> float | None:
    """Microseconds for one stream without its events: what the request itself costs."""
    events = {one.name: one.events for one in scenario.passes}
    short, event = cpu_per_exchange(results, "short"), cpu_per_event(results, scenario)
    return None if short is None or event is None else short - events["short"] * event


def _first(record: Record, share: float) -> float | None:
    """A percentile of the time to the first token (or byte) over all counted passes, milliseconds."""
    seen = nearest_rank([value for one in record.results if one.name != "warm" for value in one.first], share)
    return None if seen is None else seen * 1e3


def _over_rounds(records: Sequence[Record], measure: Callable[[Record], float | None]) -> Spread | None:
    return spread([value for record in records if (value := measure(record)) is not None])


def line(records: Sequence[Record], scenario: Scenario, gateway: str) -> Line:
    """All rounds of one gateway under one scenario."""
    ours = [one for one in records if one.scenario == scenario.name and one.gateway == gateway]
    direct = {one.round: one for one in records if one.scenario == scenario.name and one.gateway == "direct"}
    has_process = gateway != "direct"

    def added(share: float) -> Callable[[Record], float | None]:
        def measure(record: Record) -> float | None:
            through = _first(record, share)
            without = _first(direct[record.round], share) if record.round in direct else None
            return None if through is None or without is None else through - without

        return measure

    def rate(record: Record) -> float | None:
        steady = next((one for one in record.results if one.name == "steady"), None)
        return steady.exchanges / steady.wall if steady and steady.first else None

    def request(record: Record) -> float | None:
        streamed = scenario.is_streamed
        return cpu_per_stream(record.results, scenario) if streamed else cpu_per_exchange(record.results, "steady")

    def event(record: Record) -> float | None:
        return cpu_per_event(record.results, scenario) if scenario.is_streamed else None

    resident = [one.results[-1].resident for one in ours if one.results]
    return Line(
        scenario.name,
        gateway,
        _over_rounds(ours, request) if has_process else None,
        _over_rounds(ours, event) if has_process else None,
        None if scenario.is_streamed else _over_rounds(ours, rate),
        _over_rounds(ours, lambda one: _first(one, 0.5)),
        _over_rounds(ours, lambda one: _first(one, 0.99)),
        _over_rounds(ours, added(0.5)) if has_process else None,
        _over_rounds(ours, added(0.99)) if has_process else None,
        max(resident) / 1e6 if has_process and resident else None,
        sum(one.exchanges for record in ours for one in record.results if one.name != "warm"),
        _failures(ours),
    )


def _failures(records: Sequence[Record]) -> dict[str, int]:
    """Reason -> how often, warm-up included: a lost event is one wherever it happens."""
    found: Counter[str] = Counter()
    for record in records:
        if record.error is not None:
            found[record.error] += 1
        for one in record.results:
            found.update(one.failures)
    return dict(found)


def lines(run: Run, scenarios: Sequence[Scenario]) -> list[Line]:
    gateways = list(dict.fromkeys(record.gateway for record in sorted(run.records, key=_order)))
    return [line(run.records, scenario, gateway) for scenario in scenarios for gateway in gateways]


def _order(record: Record) -> int:
    return list(NAMES).index(record.gateway)


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def render(found: Sequence[Line], scenarios: Sequence[Scenario]) -> str:
    """One table per scenario."""
    parts = []
    for scenario in scenarios:
        ours = [one for one in found if one.scenario == scenario.name]
        nginx = next((one for one in ours if one.gateway == "nginx"), None)
        rows = [_streamed(one, nginx) if scenario.is_streamed else _plain(one, nginx) for one in ours]
        head = _STREAMED_HEAD if scenario.is_streamed else _PLAIN_HEAD
        parts.append(f"### {scenario.title}\n\n{table(head, rows)}")
    return "\n\n".join(parts)


_COMMON = ("RSS MB", "answered", "failed")
_PLAIN_HEAD = ("gateway", "CPU µs/request", "to nginx", "requests/s", "added p50 ms", "added p99 ms", *_COMMON)
_STREAMED_HEAD = ("gateway", "CPU µs/event", "to nginx", "CPU µs/stream", "added TTFT p50", "added TTFT p99", *_COMMON)


def _plain(one: Line, nginx: Line | None) -> tuple[str, ...]:
    return (
        NAMES[one.gateway],
        show_spread(one.cpu_request),
        _times(ratio(one.cpu_request, nginx.cpu_request if nginx else None)),
        show(one.rate.median if one.rate else None, 0),
        *_rest(one),
    )


def _streamed(one: Line, nginx: Line | None) -> tuple[str, ...]:
    return (
        NAMES[one.gateway],
        show_spread(one.cpu_event),
        _times(ratio(one.cpu_event, nginx.cpu_event if nginx else None)),
        show(one.cpu_request.median if one.cpu_request else None, 0),
        *_rest(one),
    )


def _rest(one: Line) -> tuple[str, ...]:
    def added(extra: Spread | None, whole: Spread | None) -> str:
        return f"({show(whole.median, 2)})" if one.gateway == "direct" and whole else show_spread(extra, 2)

    return (
        added(one.added_p50, one.first_p50),
        added(one.added_p99, one.first_p99),
        show(one.resident),
        f"{one.exchanges:,}",
        str(sum(one.failures.values())),
    )


def render_beside(found: Sequence[Line]) -> str:
    """All gateways beside each other, one line each: what most people want to know of one. Empty if none of its
    scenarios ran."""
    if not any(one.scenario in ("paced", "small", "streams-64") for one in found):
        return ""
    lines = {(one.scenario, one.gateway): one for one in found}

    def row(gateway: str) -> tuple[str, ...]:
        paced, small = lines.get(("paced", gateway)), lines.get(("small", gateway))
        streams, most = lines.get(("streams-64", gateway)), lines.get(("streams-1000", gateway))
        nginx_paced, nginx_streams = lines.get(("paced", "nginx")), lines.get(("streams-64", "nginx"))
        request, event = paced and paced.cpu_request, streams and streams.cpu_event
        last = most or streams or small or paced
        failed = sum(sum(one.failures.values()) for one in found if one.gateway == gateway)
        return (
            NAMES[gateway],
            show(request.median if request else None),
            _times(ratio(request, nginx_paced and nginx_paced.cpu_request)),
            show(small.rate.median if small and small.rate else None, 0),
            show(event.median if event else None),
            _times(ratio(event, nginx_streams and nginx_streams.cpu_event)),
            show(streams.added_p50.median if streams and streams.added_p50 else None, 2),
            show(streams.added_p99.median if streams and streams.added_p99 else None, 2),
            show(last.resident if last else None),
            str(failed),
        )

    head = ("gateway", "CPU µs/request", "to nginx", "most requests/s", "CPU µs/event", "to nginx")
    rest = ("added TTFT p50 ms", "added TTFT p99 ms", "RSS MB", "failed")
    return table((*head, *rest), [row(name) for name in NAMES if any(one.gateway == name for one in found)])


def idle_line(run: Run) -> str:
    """What each gateway uses while nothing happens."""
    parts = [f"{NAMES[one.gateway]} {show(one.idle * 1e3, 2)}" for one in run.memory]
    return "CPU while idle, before any load, ms per second: " + ", ".join(parts)


def verdicts(found: Sequence[Line]) -> list[Verdict]:
    """The figures that Stoker is to reach."""

    def pick(scenario: str, gateway: str) -> Line | None:
        return next((one for one in found if one.scenario == scenario and one.gateway == gateway), None)

    def times_nginx(scenario: str) -> float | None:
        mine, its = pick(scenario, "stoker"), pick(scenario, "nginx")
        return ratio(mine.cpu_request, its.cpu_request) if mine and its else None

    many, nginx_many = pick("streams-64", "stoker"), pick("streams-64", "nginx")
    most = pick("streams-1000", "stoker")
    failed = None if most is None or not most.exchanges else float(sum(most.failures.values()))
    event = ratio(many.cpu_event, nginx_many.cpu_event) if many and nginx_many else None
    p50 = many.added_p50.median if many and many.added_p50 else None
    p99 = many.added_p99.median if many and many.added_p99 else None
    return [
        Verdict("CPU per 2 KB request at its own limit, times nginx", 2.5, times_nginx("small"), True),
        Verdict("CPU per 2 KB request at 2,000 a second, times nginx", 2.0, times_nginx("paced"), True),
        Verdict("CPU per 200 KB request at its own limit, times nginx", 2.5, times_nginx("large"), True),
        Verdict("CPU per event at 64 streams, times nginx", 1.2, event, True),
        Verdict("added TTFT p50 at 64 streams, ms", 0.2, p50, True),
        Verdict("added TTFT p99 at 64 streams, ms", 1.0, p99, True),
        Verdict("1,000 streams: lost, doubled or reordered", 0.0, failed, False),
        Verdict("resident memory after 1,000 streams, MB", 60.0, most.resident if most else None, True),
    ]


def render_verdicts(seen: Sequence[Verdict]) -> str:
    """Empty if there is none."""

    def word(one: Verdict) -> str:
        return "not measured" if one.value is None else "reached" if one.is_reached else "MISSED"

    rows = [(one.what, f"{one.limit:g}", show(one.value, 2), word(one)) for one in seen]
    return table(("figure to reach", "at most", "measured", "result"), rows) if rows else ""
