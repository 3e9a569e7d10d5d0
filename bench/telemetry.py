"""`python -m bench.telemetry [--rounds N]`: what telemetry costs a request.

Sends requests of 2 KB through the request path on in-memory transports (see `bench.cost_guard`), by turns without
telemetry, with a trace that is sampled, and with one that is not. Counts, for each request, the CPU time of the event
loop's thread (the least of all rounds) and its Python instructions. Then the CPU time of the other thread, which makes
and encodes the spans; nothing is sent.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from bench.cost_guard import bytecode
from bench.cost_guard.work import KINDS, perform, prepared
from bench.figures import table
from stoker.domain.decision import Decision
from stoker.domain.trace import RequestTrace
from stoker.store.metrics import Metrics
from stoker_otel.settings import Telemetry
from stoker_otel.telemetry import TelemetryOptions, TelemetrySender

REQUESTS = 400
WAYS = {"off": None, "on, not sampled": 0.0, "on": 1.0}
"""Sampling by name; None: no telemetry."""


class NotSent(TelemetrySender):
    """Its thread never starts. Keeps what it got last."""

    last: tuple[RequestTrace, Decision] | None = None

    def finish(self, trace: RequestTrace, decision: Decision) -> None:
        super().finish(trace, decision)
        self.last = trace, decision


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.telemetry", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args(argv).rounds
    work = KINDS["request of 2 KB"]
    least = dict.fromkeys(WAYS, float("inf"))
    instructions = {}
    last = None
    for name, sampling in WAYS.items():
        with prepared(work, _tracer(sampling)) as (loop, protocol):
            perform(work, loop, protocol, 3)
            counted = bytecode.count(lambda loop=loop, protocol=protocol: perform(work, loop, protocol, 20))  # type: ignore[misc]
            instructions[name] = sum(counted.values()) / 20
    for _ in range(rounds):
        for name, sampling in WAYS.items():
            tracer = _tracer(sampling)
            with prepared(work, tracer) as (loop, protocol):
                perform(work, loop, protocol, 20)
                before = time.thread_time()
                perform(work, loop, protocol, REQUESTS)
                least[name] = min(least[name], (time.thread_time() - before) / REQUESTS)
            last = last if tracer is None or tracer.last is None else tracer.last
    rows = [
        [name, f"{instructions[name]:,.0f}", f"{1e6 * least[name]:.1f}", f"{1e6 * (least[name] - least['off']):+.1f}"]
        for name in WAYS
    ]
    print(table(["telemetry", "Python instructions", "CPU, µs per request", "more than off, µs"], rows))
    assert last is not None
    print(f"making and encoding the spans, in a thread: {1e6 * _encoding(last, rounds):.0f} µs of CPU per request")
    return 0


def _tracer(sampling: float | None) -> NotSent | None:
    if sampling is None:
        return None
    return NotSent(Telemetry(), TelemetryOptions(sampling, queue=10**6), "0", Metrics(), dict)


def _encoding(one: tuple[RequestTrace, Decision], rounds: int) -> float:
    """Seconds for each request."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.resources import Resource

    from stoker_otel.spans import SpanBuilder

    builder = SpanBuilder(Resource({"service.name": "stoker"}), "0", 1)
    least = float("inf")
    for _ in range(rounds):
        before = time.thread_time()
        made = [span for _ in range(REQUESTS) for span in builder.request(*one, {})]
        encode_spans(made).SerializeToString()
        least = min(least, (time.thread_time() - before) / REQUESTS)
    return least


if __name__ == "__main__":
    sys.exit(main())
