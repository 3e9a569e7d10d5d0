"""Sends spans and metrics by OTLP over HTTP. Imports opentelemetry; its calls block."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from stoker.store import histogram
from stoker.store.metrics import Metrics
from stoker_otel import names
from stoker_otel.measures import GenAiMeasures
from stoker_otel.settings import ServeLabels, Telemetry

_LOGGERS = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
)
_CUMULATIVE = AggregationTemporality.CUMULATIVE


def resource(settings: Telemetry, version: str, instance: str) -> Resource:
    """Who sends: as configured, then by OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME, then `stoker`."""
    own = {SERVICE_VERSION: version, SERVICE_INSTANCE_ID: instance}
    if settings.service_name:
        own[SERVICE_NAME] = settings.service_name
    found = Resource.create(own)
    is_named = not str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service")
    return found if is_named else found.merge(Resource({SERVICE_NAME: "stoker"}))


class Otlp:
    """What the settings leave out (endpoint, headers, timeout, certificates) comes from OTEL_EXPORTER_OTLP_*."""

    def __init__(self, settings: Telemetry, who: Resource, version: str) -> None:
        headers = {name: secret.reveal() for name, secret in settings.headers.items()} or None
        base = settings.endpoint.rstrip("/")
        self._spans = OTLPSpanExporter(f"{base}/v1/traces" if base else None, headers=headers)
        self._metrics = OTLPMetricExporter(f"{base}/v1/metrics" if base else None, headers=headers)
        self._who = who
        self._scope = InstrumentationScope("stoker", version)
        self._began = time.time_ns()
        self._watch = _ProblemFilter()
        for logger in _LOGGERS:
            logging.getLogger(logger).addFilter(self._watch)

    @property
    def problem(self) -> str:
        """Why sending failed last."""
        return self._watch.said

    def send_spans(self, spans: Sequence[ReadableSpan]) -> bool:
        return self._spans.export(spans) is SpanExportResult.SUCCESS

    def send_metrics(self, measures: GenAiMeasures, metrics: Metrics, facts: Mapping[str, ServeLabels]) -> bool:
        """`facts`: by serve."""
        found = list(self._measured(measures, metrics, facts))
        if not found:
            return True
        scope = ScopeMetrics(self._scope, found, "")
        data = MetricsData([ResourceMetrics(self._who, [scope], "")])
        return self._metrics.export(data) is MetricExportResult.SUCCESS

    def shutdown(self) -> None:
        """End what is being sent."""
        for exporter in (self._spans, self._metrics):
            exporter.shutdown()
        for logger in _LOGGERS:
            logging.getLogger(logger).removeFilter(self._watch)

    def _measured(
        self, measures: GenAiMeasures, metrics: Metrics, facts: Mapping[str, ServeLabels]
    ) -> Iterator[Metric]:
        now = time.time_ns()
        cells = list(measures.cells.items())
        own = {key: _attributes(*key, facts) for key, _ in cells}
        yield from self._histogram(names.REQUEST_DURATION, "s", ((own[key], cell.duration) for key, cell in cells), now)
        yield from self._histogram(
            names.TIME_TO_FIRST_TOKEN, "s", ((own[key], cell.first_token) for key, cell in cells), now
        )
        yield from self._histogram(
            names.TIME_PER_OUTPUT_TOKEN, "s", ((own[key], cell.per_token) for key, cell in cells), now
        )
        tokens = [
            ({**own[key], names.TOKEN_TYPE: kind}, one)
            for key, cell in cells
            for kind, one in (("input", cell.input), ("output", cell.output))
        ]
        yield from self._histogram(names.TOKEN_USAGE, "{token}", tokens, now)
        waited = [({names.SERVE: serve}, series.queued) for serve, series in list(metrics.series.items())]
        yield from self._histogram(names.QUEUE_DURATION, "s", waited, now)
        swapped = [
            ({names.SERVE: serve, names.SWAP_START: start}, one)
            for (serve, start), one in list(metrics.swap_seconds.items())
        ]
        yield from self._histogram(names.SWAP_DURATION, "s", swapped, now)
        swaps = list(metrics.swaps.items())
        if swaps:
            points = [
                NumberDataPoint({names.SLOT: slot, names.OUTCOME: outcome}, self._began, now, count)
                for (slot, outcome), count in swaps
            ]
            yield Metric(names.SWAPS, None, "{swap}", Sum(points, _CUMULATIVE, True))

    def _histogram(
        self, name: str, unit: str, series: Iterable[tuple[dict[str, str], histogram.Histogram]], now: int
    ) -> Iterator[Metric]:
        points = []
        for attributes, one in series:
            counts = one.counts.copy()
            if any(counts):
                points.append(
                    HistogramDataPoint(
                        attributes, self._began, now, sum(counts), one.sum, counts, one.bounds,
                        min=None, max=None,  # type: ignore[arg-type]  # optional in OTLP, and not known here
                    )
                )  # fmt: skip
        if points:
            yield Metric(name, None, unit, Histogram(points, _CUMULATIVE))


def _attributes(operation: str, serve: str, error: str, facts: Mapping[str, ServeLabels]) -> dict[str, str]:
    """Of the requests of a cell. The model is the serve's name: a caller cannot make series with odd names."""
    provider = facts.get(serve, ServeLabels()).provider
    found = {names.OPERATION: operation, names.PROVIDER: provider, names.REQUEST_MODEL: serve}
    return {**found, names.ERROR_TYPE: error} if error else found


class _ProblemFilter(logging.Filter):
    """Keeps what the exporters log, instead of logging it: one warning for a whole outage is enough."""

    def __init__(self) -> None:
        super().__init__()
        self.said = ""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if "due to timeout" not in text:  # the line before it has the reason
            self.said = text.removeprefix("Transient error ").partition(" encountered while")[0]
        return False
