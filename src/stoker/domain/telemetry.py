"""`[telemetry]`: where traces and metrics go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.domain.serve import Secret

EXTRA = "otel"
"""The extra of the wheel that has what sends them."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Empty text and None: the OTEL_* variable decides, else OpenTelemetry's own default."""

    endpoint: str = ""
    """`http://HOST:PORT` of the collector, without `/v1/traces`."""
    headers: Mapping[str, Secret] = field(default_factory=dict)
    service_name: str = ""
    sampling: float | None = None
    """The share of requests that are traced, unless the client decided already."""
    traces: bool = True
    metrics: bool = True


class ServeLabels(NamedTuple):
    """What the configuration says of a serve or a replica, for its spans."""

    provider: str = "_OTHER"
    slot: str = ""
