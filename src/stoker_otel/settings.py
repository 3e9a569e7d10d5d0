"""`[telemetry]`: where traces and metrics go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from stoker.domain.access import Settings
from stoker.domain.kinds import Form, Text, plain, setting, url
from stoker.domain.serve import SecretSource

EXTRA = "otel"
"""The extra of the wheel that has what sends them."""


def collector_url(value: object) -> str:
    text = plain(value)
    try:
        found = url(text)
    except ValueError as error:
        message = str(error).replace("10.0.0.7:30000/v1", "collector:4318").replace("`key`", "`headers`")
        raise ValueError(message) from None
    if found.endswith(("/v1/traces", "/v1/metrics")):
        raise ValueError("is the address of one signal; leave out /v1/traces or /v1/metrics, which Stoker adds")
    return found


CollectorUrl = Annotated[str, Form(collector_url, {"type": "string", "examples": ["http://127.0.0.1:4318"]})]


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Traces and metrics are sent by OTLP over HTTP if there is this table, even an empty one. What it leaves out is
    decided by the usual OTEL_* variables. No prompt, no answer and no key is ever sent."""

    endpoint: Annotated[
        CollectorUrl,
        setting(
            'The collector: `"http://127.0.0.1:4318"`; `/v1/traces` and `/v1/metrics` are added. Left out: '
            "`OTEL_EXPORTER_OTLP_ENDPOINT`, else port 4318 of this machine."
        ),
    ] = ""
    headers: Annotated[
        Mapping[Text, SecretSource],
        setting(
            'Headers for the collector, each `env:NAME` or `file:PATH`: `{ authorization = "env:COLLECTOR_TOKEN" }`.'
        ),
    ] = field(default_factory=dict)
    service_name: Annotated[
        Text, setting("The service's name in traces. Left out: `OTEL_SERVICE_NAME`, else `stoker`.")
    ] = ""
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


def telemetry_of(settings: Settings) -> Telemetry | None:
    """None: nothing is sent."""
    found = settings.extensions.get("telemetry")
    return found if isinstance(found, Telemetry) else None


class ServeLabels(NamedTuple):
    """What the configuration says of a serve or a replica, for its spans."""

    provider: str = "_OTHER"
    slot: str = ""
