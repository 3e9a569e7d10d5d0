"""What this package adds to Stoker."""

from __future__ import annotations

from stoker.extensions import Extension

EXTENSION = Extension("Sends traces and metrics by OpenTelemetry: [telemetry].", server="stoker_otel.server:build")
