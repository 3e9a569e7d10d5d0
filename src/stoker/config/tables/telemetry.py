"""`[telemetry]`: traces and metrics by OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from stoker.config.tables import value_checks
from stoker.config.tables.section import Section, setting
from stoker.config.tables.value_types import Text
from stoker.domain.serve import Secret
from stoker.domain.telemetry import Telemetry

CollectorUrl = Annotated[
    str, BeforeValidator(value_checks.collector_url), Field(json_schema_extra={"examples": ["http://127.0.0.1:4318"]})
]


class TelemetryTable(Section):
    """Traces and metrics are sent by OTLP over HTTP if there is this table, even an empty one. What it leaves out is
    decided by the usual OTEL_* variables. No prompt, no answer and no key is ever sent."""

    endpoint: CollectorUrl | None = setting(
        None,
        'The collector: `"http://127.0.0.1:4318"`; `/v1/traces` and `/v1/metrics` are added. Left out: '
        "`OTEL_EXPORTER_OTLP_ENDPOINT`, else port 4318 of this machine.",
    )
    headers: dict[Text, Text] = setting(
        {}, 'Headers for the collector, each `env:NAME` or `file:PATH`: `{ authorization = "env:COLLECTOR_TOKEN" }`.'
    )
    service_name: Text | None = setting(
        None, "The service's name in traces. Left out: `OTEL_SERVICE_NAME`, else `stoker`."
    )
    sampling: Annotated[float, Field(ge=0, le=1)] | None = setting(
        None,
        "The share of requests that are traced. A client that sends `traceparent` decides itself. Left out: "
        "`OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`, else all.",
    )
    traces: bool = setting(True, "Whether traces are sent.")
    metrics: bool = setting(True, "Whether metrics are sent.")


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
    return TelemetryTable.show(
        telemetry,
        endpoint=telemetry.endpoint or None,
        service_name=telemetry.service_name or None,
        headers={name: secret.source for name, secret in telemetry.headers.items()},
    )
