"""Prometheus families from pairs of label values and figures, and from the status document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from stoker.store.histogram import Histogram

Samples = Iterable[tuple[Sequence[str], float]]
Histograms = Iterable[tuple[Sequence[str], Histogram]]


def counter(name: str, text: str, labels: Sequence[str], samples: Samples) -> CounterMetricFamily:
    """`_total` is added to `name` by the client library."""
    family = CounterMetricFamily(name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def gauge(name: str, text: str, labels: Sequence[str], samples: Samples) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def histogram(name: str, text: str, labels: Sequence[str], samples: Histograms) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, one in samples:
        family.add_metric(values, one.buckets(), one.sum)
    return family


def number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def records(value: object, key: str = "name") -> list[Mapping[str, object]]:
    """The entries of a list in the status document that have that key."""
    return [v for v in value if isinstance(v, Mapping) and key in v] if isinstance(value, list | tuple) else []
