"""Traces and metrics: requests are noted in microseconds, and sent from a thread.

The thread makes the spans and sends them. What waits for it is bounded: beyond that, spans are dropped and counted. A
collector that does not answer costs one warning, and nothing of a request. opentelemetry is imported by `start`.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from stoker.domain.decision import Decision
from stoker.domain.events import Event, SwapEnded
from stoker.domain.printable import one_line
from stoker.domain.swap import SwapReport
from stoker.domain.trace import RequestTrace, read_parent
from stoker.store.metrics import Metrics
from stoker_otel.measures import GenAiMeasures
from stoker_otel.settings import ServeLabels, Telemetry

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from stoker_otel.otlp import Otlp
    from stoker_otel.spans import SpanBuilder

log = logging.getLogger("stoker.telemetry")
BATCH = 128
"""Requests and swaps that are sent together."""
END_WITHIN = 3.0
"""Seconds in which what waits is sent at the end."""


class TelemetryOptions(NamedTuple):
    """What the environment decides: see `environment.options`."""

    sampling: float = 1.0
    queue: int = 2048
    """Most requests and swaps that wait to be sent."""
    pause: float = 1.0
    """Seconds between two times that spans are sent."""
    interval: float = 60.0
    """Seconds between two times that metrics are sent."""


class _Swap(NamedTuple):
    report: SwapReport
    ended: float


class TelemetrySender:
    """Implements `domain.trace.Tracer`. `facts()` is asked by the thread."""

    def __init__(
        self, settings: Telemetry, options: TelemetryOptions, version: str, metrics: Metrics,
        facts: Callable[[], Mapping[str, ServeLabels]], wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.sent = 0
        self.dropped = 0
        self._settings = settings
        self._options = options
        self._version = version
        self._metrics = metrics
        self._facts = facts
        self._wall = wall
        self._measures = GenAiMeasures()
        self._waiting: deque[tuple[RequestTrace, Decision] | _Swap] = deque()
        self._random = random.Random()
        self._bound = int((options.sampling if settings.traces else 0.0) * 2**64)
        self._wake = threading.Event()
        self._is_ending = False
        self._failing = ""
        self._otlp: Otlp | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Imports opentelemetry, which takes a moment. If it cannot be used, that is logged, and nothing is sent."""
        try:
            opened = self._open()
        except Exception as error:
            self._failing = one_line(f"{type(error).__name__}: {error}")
            log.exception("telemetry cannot be sent: OpenTelemetry does not start")
            return
        self._thread = threading.Thread(target=self._run, args=opened, name="telemetry", daemon=True)
        self._thread.start()

    # -- on the event loop -------------------------------------------------------------------------------------------

    def begin(self, method: str, scheme: str, headers: Mapping[bytes, bytes], now: float) -> RequestTrace:
        """The client decides whether its trace is sampled; of traces that begin here, the configured share is."""
        parent = read_parent(headers) if b"traceparent" in headers else None
        bits = self._random.getrandbits(192)
        trace_id = bits >> 64 if parent is None else parent.trace_id
        if parent is None:
            is_sampled = trace_id & (2**64 - 1) < self._bound
        else:
            is_sampled = parent.is_sampled and self._settings.traces
        return RequestTrace(trace_id, bits & (2**64 - 1) or 1, is_sampled, now, method, scheme, parent)

    def finish(self, trace: RequestTrace, decision: Decision) -> None:
        self._measures.observe(decision)
        if trace.is_sampled:
            self._put((trace, decision))

    def on_event(self, event: Event) -> None:
        if isinstance(event, SwapEnded) and self._bound:
            self._put(_Swap(event.report, self._wall()))

    def _put(self, one: tuple[RequestTrace, Decision] | _Swap) -> None:
        size = len(self._waiting)
        if size >= self._options.queue:
            self.dropped += 1
            return
        self._waiting.append(one)
        if size == self._options.queue // 2:
            self._wake.set()

    def status(self) -> dict[str, object]:
        """For /status."""
        return {
            "endpoint": self._settings.endpoint or None,
            "sent": self.sent,
            "dropped": self.dropped,
            "waiting": len(self._waiting),
            "problem": self._failing or None,
        }

    def close(self) -> None:
        """Send what waits, within END_WITHIN seconds; the rest is dropped."""
        if self._thread is None:
            return
        self._is_ending = True
        self._wake.set()
        self._thread.join(END_WITHIN)
        if self._thread.is_alive() and self._otlp is not None:
            self._otlp.shutdown()

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _run(self, otlp: Otlp, spans: SpanBuilder) -> None:
        try:
            self._send_until_the_end(otlp, spans)
        except Exception:
            log.exception("telemetry has ended: nothing more is sent until Stoker is started again")

    def _open(self) -> tuple[Otlp, SpanBuilder]:
        from stoker_otel.otlp import Otlp, resource
        from stoker_otel.spans import SpanBuilder

        seed = self._random.getrandbits(63) | 1
        who = resource(self._settings, self._version, f"{seed:016x}")
        self._otlp = Otlp(self._settings, who, self._version)
        return self._otlp, SpanBuilder(who, self._version, seed)

    def _send_until_the_end(self, otlp: Otlp, spans: SpanBuilder) -> None:
        due = time.monotonic() + self._options.interval
        while True:
            self._wake.wait(self._options.pause)
            self._wake.clear()
            is_ending = self._is_ending
            while self._waiting:
                self._send_spans(otlp, spans)
            if self._settings.metrics and (is_ending or time.monotonic() >= due):
                due = time.monotonic() + self._options.interval
                self._note_result(otlp, otlp.send_metrics(self._measures, self._metrics, self._facts()))
            if is_ending:
                otlp.shutdown()
                return

    def _send_spans(self, otlp: Otlp, spans: SpanBuilder) -> None:
        facts = self._facts()
        batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
        made: list[ReadableSpan] = []
        for one in batch:
            made += spans.swap(one.report, one.ended) if isinstance(one, _Swap) else spans.request(*one, facts)
        is_sent = otlp.send_spans(made)
        if is_sent:
            self.sent += len(batch)
        else:
            self.dropped += len(batch)
        self._note_result(otlp, is_sent)

    def _note_result(self, otlp: Otlp, is_sent: bool) -> None:
        """One line when sending begins to fail, and one when it works again."""
        if is_sent and self._failing:
            log.info("telemetry is sent again; %d requests and swaps were not", self.dropped)
            self._failing = ""
        elif not is_sent and not self._failing:
            self._failing = one_line(otlp.problem or "it did not take them")
            log.warning("telemetry cannot be sent, and is dropped until it can be: %s", self._failing)
