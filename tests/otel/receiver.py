"""An OTLP/HTTP collector that keeps what it gets. `status` is what it answers, `delay` how long it takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Receiver:
    def __init__(self) -> None:
        self.status = 200
        self.delay = 0.0
        self.raw: list[bytes] = []
        """Head and body of every request."""
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, path: str, head: bytes, body: bytes) -> None:
        self.raw.append(head + body)
        if self.status != 200:
            return
        if path == "/v1/traces":
            self.traces.append(ExportTraceServiceRequest.FromString(body))
        elif path == "/v1/metrics":
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))

    def spans(self) -> list[Span]:
        return [
            span
            for request in list(self.traces)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def resource(self) -> dict[str, Any]:
        return attributes(self.traces[-1].resource_spans[0].resource)

    def points(self, name: str) -> list[Any]:
        """The data points of a metric as it came last."""
        found = [
            metric
            for resource in self.metrics[-1].resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
        ]
        return [point for metric in found for point in getattr(metric, str(metric.WhichOneof("data"))).data_points]


def attributes(of: Any) -> dict[str, Any]:
    """Of a span, a resource or a data point."""
    return dict(_pairs(of.attributes))


def _pairs(given: Any) -> Iterator[tuple[str, Any]]:
    for one in given:
        kind = one.value.WhichOneof("value")
        value = getattr(one.value, kind)
        yield one.key, [item.string_value for item in value.values] if kind == "array_value" else value


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            time.sleep(receiver.delay)
            receiver.take(self.path, bytes(self.headers), body)
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
