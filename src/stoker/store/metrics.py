"""Counters that sealed decisions and swaps feed: plain lists and dicts, turned into Prometheus text at a scrape."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.domain.decision import Decision
from stoker.domain.speed import tokens_per_second
from stoker.domain.usage import MediaUnits
from stoker.store import labels
from stoker.store.histogram import REQUEST_BOUNDS, SWAP_BOUNDS, Histogram
from stoker.store.key_usage import LIMIT_CODES, KeyUsageCounts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ServeSeries:
    """What one serve's requests add up to."""

    __slots__ = ("cached", "input", "latency", "output", "queued", "rate", "ttft")

    def __init__(self) -> None:
        self.latency = Histogram(REQUEST_BOUNDS)
        self.ttft = Histogram(REQUEST_BOUNDS)
        self.queued = Histogram(REQUEST_BOUNDS)
        self.input = self.output = self.cached = 0
        self.rate: float | None = None


class ReplicaTotals:
    """What the requests add up to that one replica answered."""

    __slots__ = ("output", "rate", "requests")

    def __init__(self) -> None:
        self.requests = self.output = 0
        self.rate: float | None = None

    def add(self, output: int, rate: float | None) -> None:
        self.requests += 1
        self.output += output
        self.rate = rate or self.rate


class MetricsCell:
    """Requests with the same serve, endpoint, status and outcome."""

    __slots__ = ("count", "series")

    def __init__(self, series: ServeSeries) -> None:
        self.count = 0
        self.series = series


class Metrics:
    """The observing methods belong to one thread, cost a microsecond or two, and touch no Prometheus object.

    `exposition.expose` may read it in another thread. Counters start at zero with the process, as Prometheus expects.
    """

    def __init__(self) -> None:
        self._names = labels.names()
        self._slots = labels.names()
        self._codes = labels.codes()
        self._outcomes = labels.codes()
        self.cells: dict[tuple[str, str, int, str], MetricsCell] = {}
        self.series: dict[str, ServeSeries] = {}
        self.errors: dict[str, int] = {}
        self.swaps: dict[tuple[str, str], int] = {}
        self.swap_seconds: dict[tuple[str, str], Histogram] = {}
        self.phase_seconds: dict[str, Histogram] = {}
        self.load_failures: dict[str, int] = {}
        self.legacy: dict[tuple[str, str, str], int] = {}
        self.refusals: dict[tuple[str, str], int] = {}
        self.replicas: dict[str, ReplicaTotals] = {}
        """Their names are configured, so they are few."""
        self.media: dict[tuple[str, str], float] = {}
        """By serve and unit."""
        self.keys = KeyUsageCounts()

    def observe(self, decision: Decision) -> None:
        """Count a sealed decision. An unknown time or token count is left out, never taken as 0."""
        d = decision
        # The endpoint is the caller's text, so it is bounded before the look-up; the other three are Stoker's.
        cell = self.cells.get((d.serve, labels.PATHS.get(d.endpoint, labels.OTHER), d.status, d.outcome))
        if cell is None:
            cell = self._cell(d)
        cell.count += 1
        series = cell.series
        latency = d.latency
        if latency is not None:
            series.latency.observe(latency)
        if d.ttft is not None:
            series.ttft.observe(d.ttft)
        if d.queued is not None:
            series.queued.observe(d.queued)
        output, rate = d.output_tokens, None
        if output is not None:
            series.output += output
            rate = tokens_per_second(d) if d.stream and d.outcome == "served" else None
            series.rate = rate or series.rate
        if d.replica:
            self.replicas.setdefault(d.replica, ReplicaTotals()).add(output or 0, rate)
        if d.input_tokens is not None:
            series.input += d.input_tokens
        if d.cached_tokens is not None:
            series.cached += d.cached_tokens
        if d.reason:
            code = self._codes.label(d.reason)
            self.errors[code] = self.errors.get(code, 0) + 1
            if d.reason in LIMIT_CODES:
                self.keys.observe_limit(d.key)
        if d.media is not None:
            self._observe_media(d.serve, d.media)

    def observe_swap(
        self, serve: str, slot: str, outcome: str, phases: Mapping[str, float], start_kind: str = "cold"
    ) -> None:
        """Count a swap to `serve`. `phases`: seconds of `drain`, `check`, `stop`, `start`, `ready`, as far as it came.

        Its duration is their sum, and counts only if it came to `ready`: a failed load would pass for a quick one.
        """
        key = (self._slots.label(slot or labels.NONE), self._outcomes.label(outcome))
        self.swaps[key] = self.swaps.get(key, 0) + 1
        if "ready" not in phases:
            return
        known = {phase: seconds for phase, seconds in phases.items() if phase in labels.PHASES}
        for phase, seconds in known.items():
            self.phase_seconds.setdefault(phase, Histogram(SWAP_BOUNDS)).observe(seconds)
        name = self._names.label(serve or labels.NONE)
        warmth = start_kind if start_kind in labels.TEMPERATURES else labels.OTHER
        self.swap_seconds.setdefault((name, warmth), Histogram(SWAP_BOUNDS)).observe(sum(known.values()))

    def observe_load_failure(self, serve: str) -> None:
        """Count a start that did not come to `ready`."""
        name = self._names.label(serve or labels.NONE)
        self.load_failures[name] = self.load_failures.get(name, 0) + 1

    def observe_legacy(self, key: str, path: str, answer: str) -> None:
        """Count a request of an older API. `answer`: `answered` or `refused`."""
        cell = (self._names.label(key or labels.NONE), path, answer)
        self.legacy[cell] = self.legacy.get(cell, 0) + 1

    def observe_refusal(self, reason: str, origin: str) -> None:
        """Count a request that came no further than the front door. `origin`: `loopback`, `private`, `public`, ..."""
        cell = (self._codes.label(reason), origin)
        self.refusals[cell] = self.refusals.get(cell, 0) + 1

    def _observe_media(self, serve: str, units: MediaUnits) -> None:
        name = self._names.label(serve or labels.NONE)
        for unit in MediaUnits.__struct_fields__:
            amount = getattr(units, unit)
            if amount:
                self.media[name, unit] = self.media.get((name, unit), 0) + amount

    def totals(self, serve: str) -> dict[str, int | float | None]:
        """Of a serve or a replica so far: requests, output tokens, and tokens per second of its last streamed reply."""
        replica = self.replicas.get(serve)
        if replica is not None:
            return {"requests": replica.requests, "output_tokens": replica.output, "tokens_per_second": replica.rate}
        requests = sum(cell.count for (name, *_), cell in self.cells.items() if name == serve)
        series = self.series.get(serve)
        output, rate = (series.output, series.rate) if series is not None else (0, None)
        return {"requests": requests, "output_tokens": output, "tokens_per_second": rate}

    def _cell(self, decision: Decision) -> MetricsCell:
        """The cell of a combination that is new, or has a value that is not admitted as a label."""
        name = self._names.label(decision.serve or labels.NONE)
        path = labels.PATHS.get(decision.endpoint, labels.OTHER)
        status = decision.status if 100 <= decision.status <= 599 else 0
        outcome = decision.outcome if decision.outcome in labels.OUTCOMES else labels.OTHER
        cell = self.cells.get((name, path, status, outcome))
        if cell is None:
            cell = MetricsCell(self.series.setdefault(name, ServeSeries()))
            self.cells[name, path, status, outcome] = cell
        return cell
