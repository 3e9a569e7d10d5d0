"""What this package adds to Stoker."""

from __future__ import annotations

from stoker.extensions import Extension, Offer

EXTENSION = Extension(
    "Sends traces and metrics by OpenTelemetry: [telemetry].",
    server="stoker_otel.server:build",
    tables=(Offer("telemetry", "stoker_otel.table:TELEMETRY"),),
)
