"""Traces and metrics by OpenTelemetry, if `[telemetry]` is configured.

settings     `[telemetry]`: its keys               table      its rules
telemetry    TelemetrySender: what the event loop tells it, and the thread that sends it
environment  which OTEL_* variables count
measures     histograms of requests
spans        the spans of a request and of a swap          needs opentelemetry
otlp         sends spans and metrics                       needs opentelemetry
names        every name of an attribute or a metric

No prompt, no answer and no key is in any of it, and no setting changes that.
"""
