"""`[telemetry]`: traces and metrics by OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from stoker.config.definition import show
from stoker.domain.kinds import Form, Text, collector_url, setting
from stoker.domain.serve import Secret
from stoker.domain.telemetry import Telemetry

CollectorUrl = Annotated[str, Form(collector_url, {"type": "string", "examples": ["http://127.0.0.1:4318"]})]


class TelemetryTable(msgspec.Struct, frozen=True):
    """Traces and metrics are sent by OTLP over HTTP if there is this table, even an empty one. What it leaves out is
    decided by the usual OTEL_* variables. No prompt, no answer and no key is ever sent."""

    endpoint: Annotated[
        CollectorUrl | None,
        setting(
            'The collector: `"http://127.0.0.1:4318"`; `/v1/traces` and `/v1/metrics` are added. Left out: '
            "`OTEL_EXPORTER_OTLP_ENDPOINT`, else port 4318 of this machine."
        ),
    ] = None
    headers: Annotated[
        dict[Text, Text],
        setting(
            'Headers for the collector, each `env:NAME` or `file:PATH`: `{ authorization = "env:COLLECTOR_TOKEN" }`.'
        ),
    ] = {}
    service_name: Annotated[
        Text | None, setting("The service's name in traces. Left out: `OTEL_SERVICE_NAME`, else `stoker`.")
    ] = None
    sampling: Annotated[
        float | None,
        setting(
            "The share of requests that are traced. A client that sends `traceparent` decides itself. Left out: "
            "`OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`, else all.",
            ge=0,
            le=1,
        ),
    ] = None
    traces: Annotated[bool, setting("Whether traces are sent.")] = True
    metrics: Annotated[bool, setting("Whether metrics are sent.")] = True


def build_telemetry(table: TelemetryTable | None, headers: Mapping[str, Secret]) -> Telemetry | None:
    if table is None:
        return None
    return Telemetry(
        table.endpoint or "", headers, table.service_name or "", table.sampling, table.traces, table.metrics
    )


def show_telemetry(telemetry: Telemetry | None) -> dict[str, Any] | None:
    """The table in the form of the file."""
    if telemetry is None:
        return None
    return show(
        TelemetryTable,
        telemetry,
        endpoint=telemetry.endpoint or None,
        service_name=telemetry.service_name or None,
        headers={name: secret.source for name, secret in telemetry.headers.items()},
    )
