"""Histograms of requests as the GenAI conventions want them: plain lists, fed on the event loop."""

from __future__ import annotations

from stoker.domain.decision import Decision
from stoker.domain.speed import tokens_per_second
from stoker.store import labels
from stoker.store.histogram import Histogram
from stoker_otel import names

DURATION_BOUNDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
FIRST_TOKEN_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
PER_TOKEN_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
TOKEN_BOUNDS = tuple(float(4**power) for power in range(14))
"""All of them as the conventions advise."""


class MeasureCell:
    """Requests with the same operation, serve and error."""

    __slots__ = ("duration", "first_token", "input", "output", "per_token")

    def __init__(self) -> None:
        self.duration = Histogram(DURATION_BOUNDS)
        self.first_token = Histogram(FIRST_TOKEN_BOUNDS)
        self.per_token = Histogram(PER_TOKEN_BOUNDS)
        self.input = Histogram(TOKEN_BOUNDS)
        self.output = Histogram(TOKEN_BOUNDS)


class GenAiMeasures:
    """`observe` belongs to one thread and takes microseconds; `cells` may be copied by another."""

    def __init__(self) -> None:
        self._serves, self._codes = labels.names(), labels.codes()
        self.cells: dict[tuple[str, str, str], MeasureCell] = {}
        """By operation, serve and error; empty: there was none."""

    def observe(self, decision: Decision) -> None:
        """Count a request that is over."""
        serve = self._serves.label(decision.serve or labels.NONE)
        error = self._codes.label(decision.reason) if decision.reason else ""
        key = names.operation(decision.endpoint), serve, error
        cell = self.cells.get(key)
        if cell is None:
            cell = self.cells[key] = MeasureCell()
        ttft, output = decision.ttft, decision.output_tokens
        if decision.latency is not None:
            cell.duration.observe(decision.latency)
        if decision.input_tokens is not None:
            cell.input.observe(decision.input_tokens)
        if output is not None:
            cell.output.observe(output)
        if ttft is None or not decision.stream or decision.orchestrated is not None:
            return  # the answer came whole: there was no first token
        cell.first_token.observe(ttft)
        rate = tokens_per_second(decision)
        if rate is not None:
            cell.per_token.observe(1 / rate)
