"""Which of OpenTelemetry's own variables count. Those of OTLP and of the resource are read by opentelemetry itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from stoker_otel.settings import Telemetry
from stoker_otel.telemetry import TelemetryOptions

_DEFAULTS = TelemetryOptions()


def is_disabled(environment: Mapping[str, str]) -> bool:
    return environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def options(settings: Telemetry, environment: Mapping[str, str]) -> TelemetryOptions:
    """A variable that is no number counts as not set, as OpenTelemetry advises."""

    def milliseconds(name: str, default: float) -> float:
        found = _number(environment, name)
        return found / 1000 if found is not None and found > 0 else default

    queue = _number(environment, "OTEL_BSP_MAX_QUEUE_SIZE")
    return TelemetryOptions(
        settings.sampling if settings.sampling is not None else _sampling(environment),
        int(queue) if queue is not None and queue >= 1 else _DEFAULTS.queue,
        milliseconds("OTEL_BSP_SCHEDULE_DELAY", _DEFAULTS.pause),
        milliseconds("OTEL_METRIC_EXPORT_INTERVAL", _DEFAULTS.interval),
    )


def _sampling(environment: Mapping[str, str]) -> float:
    sampler = environment.get("OTEL_TRACES_SAMPLER", "").strip().lower().removeprefix("parentbased_")
    if sampler == "always_off":
        return 0.0
    ratio = _number(environment, "OTEL_TRACES_SAMPLER_ARG") if sampler == "traceidratio" else None
    return ratio if ratio is not None and 0 <= ratio <= 1 else _DEFAULTS.sampling


def _number(environment: Mapping[str, str], name: str) -> float | None:
    try:
        found = float(environment.get(name, ""))
    except ValueError:
        return None
    return found if math.isfinite(found) else None
