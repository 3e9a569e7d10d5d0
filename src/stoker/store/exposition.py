"""The counters and the status document as Prometheus text. Imported at the first scrape, never before.

A few series also appear without the prefix, under the names that dashboards for model servers expect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from stoker.store import key_usage_exposition, memory_exposition
from stoker.store.families import counter, gauge, histogram, number, records
from stoker.store.labels import STATES
from stoker.store.metrics import Metrics

_PREFIXES = ("stoker_", "")
"""Stoker's prefix, and none, as dashboards for model servers expect."""


def expose(metrics: Metrics, status: Mapping[str, object], more: Iterable[Metric] = ()) -> bytes:
    """Prometheus text, of type CONTENT_TYPE. `status` is the document of GET /status; what it lacks is left out.

    `more`: families of extensions.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(metrics, status, more))
    return generate_latest(registry)


class _Scrape(Collector):
    """One scrape. Copies each table in one step before iterating: the event loop may change it."""

    def __init__(self, metrics: Metrics, status: Mapping[str, object], more: Iterable[Metric]) -> None:
        self._metrics = metrics
        self._status = status
        self._more = more

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._tokens()
        yield from self._swaps()
        yield from self._gauges()
        yield from memory_exposition.families(self._status, _PREFIXES)
        yield from key_usage_exposition.families(self._metrics.keys)
        yield from self._more

    def _requests(self) -> Iterator[Metric]:
        cells = list(self._metrics.cells.items())
        yield counter(
            "stoker_requests",
            "Requests that ended.",
            ("serve", "endpoint", "status", "outcome"),
            (((serve, path, str(code), outcome), cell.count) for (serve, path, code, outcome), cell in cells),
        )
        series = list(self._metrics.series.items())
        for name, text, pick in (
            ("stoker_request_seconds", "Time from the arrival of a request to its end.", "latency"),
            ("stoker_ttft_seconds", "Time from the arrival of a request to its first token.", "ttft"),
            ("stoker_queue_seconds", "Time that requests waited for a lease, with loads and swaps.", "queued"),
        ):
            yield histogram(name, text, ("serve",), (((serve,), getattr(of, pick)) for serve, of in series))
        legacy = list(self._metrics.legacy.items())
        yield counter(
            "stoker_legacy_requests",
            "Requests to Ollama's API, answered or refused.",
            ("key", "endpoint", "answer"),
            legacy,
        )
        refusals = list(self._metrics.refusals.items())
        yield counter(
            "stoker_front_door_refusals",
            "Requests refused at the front door: missing or wrong key, wrong host or origin, unknown path.",
            ("reason", "origin"),
            refusals,
        )
        errors = list(self._metrics.errors.items())
        yield counter(
            "stoker_errors",
            "Requests that ended with an error.",
            ("code",),
            (((code,), count) for code, count in errors),
        )

    def _tokens(self) -> Iterator[Metric]:
        series = list(self._metrics.series.items())
        yield counter(
            "stoker_tokens",
            "Tokens, as counted by the serves.",
            ("serve", "kind"),
            (
                ((serve, kind), count)
                for serve, of in series
                for kind, count in (("input", of.input), ("output", of.output), ("cached", of.cached))
            ),
        )
        yield counter(
            "stoker_media",
            "Audio that was transcribed (seconds), text that was spoken (characters), and images that were asked for.",
            ("serve", "unit"),
            list(self._metrics.media.items()),
        )
        rates = [((serve,), of.rate) for serve, of in series if of.rate is not None]
        for prefix in _PREFIXES:
            yield gauge(
                f"{prefix}inference_tokens_per_second",
                "Tokens per second after the first one, of the last streamed reply.",
                ("model",),
                rates,
            )

    def _swaps(self) -> Iterator[Metric]:
        metrics = self._metrics
        swaps, failures = list(metrics.swaps.items()), list(metrics.load_failures.items())
        seconds, phases = list(metrics.swap_seconds.items()), list(metrics.phase_seconds.items())
        yield counter("stoker_swaps", "Swaps that ended.", ("slot", "outcome"), swaps)
        for prefix in _PREFIXES:
            yield histogram(
                f"{prefix}model_swap_duration_seconds",
                "Time from the decision to swap until the new model was ready.",
                ("serve", "temperature"),
                seconds,
            )
        yield histogram(
            "stoker_model_swap_phase_seconds",
            "Time of each phase of successful swaps.",
            ("phase",),
            (((phase,), one) for phase, one in phases),
        )
        for prefix in _PREFIXES:
            yield counter(
                f"{prefix}model_load_failures",
                "Starts of serves that failed.",
                ("model",),
                (((serve,), count) for serve, count in failures),
            )

    def _gauges(self) -> Iterator[Metric]:
        serves = records(self._status.get("serves"))
        for name, text, key in (
            ("stoker_in_flight", "Requests that hold a lease.", "in_flight"),
            ("stoker_queued", "Requests that wait for a lease.", "queued"),
        ):
            yield gauge(
                name,
                text,
                ("serve",),
                (((str(s["name"]),), value) for s in serves if (value := number(s.get(key))) is not None),
            )
        yield gauge(
            "stoker_serve_state",
            "1 for the state that a serve is in, 0 for the others.",
            ("serve", "state"),
            (((str(s["name"]), state), float(s.get("state") == state)) for s in serves for state in STATES),
        )
        slots = records(self._status.get("slots"))
        yield gauge(
            "stoker_slot_paused",
            "1 while a slot is paused: nothing is loaded there.",
            ("slot",),
            (((str(slot["name"]),), float(bool(slot.get("paused")))) for slot in slots),
        )
        yield from self._bodies()
        decisions = self._status.get("decisions")
        dropped = number(decisions.get("dropped")) if isinstance(decisions, Mapping) else None
        if dropped is not None:
            yield counter("stoker_decisions_dropped", "Decision records that were lost.", (), [((), dropped)])
        if isinstance(decisions, Mapping):
            is_writable = float(not decisions.get("problem"))
            yield gauge("stoker_state_writable", "1 if the state directory can be written.", (), [((), is_writable)])
        unrecorded = number(decisions.get("unrecorded")) if isinstance(decisions, Mapping) else None
        if unrecorded is not None:
            yield counter(
                "stoker_decisions_unrecorded",
                "Refusals without a decision record, because there were many alike.",
                (),
                [((), unrecorded)],
            )
        version = self._status.get("version")
        if isinstance(version, str):
            yield gauge("stoker_build_info", "Always 1; the label says what runs.", ("version",), [((version,), 1.0)])

    def _bodies(self) -> Iterator[Metric]:
        door = self._status.get("frontdoor")
        bodies = door.get("bodies") if isinstance(door, Mapping) else None
        if not isinstance(bodies, Mapping):
            return
        for name, text, key in (
            ("stoker_body_bytes", "Bytes of request bodies that are held in memory.", "held"),
            ("stoker_body_budget_bytes", "Limit for the bytes of request bodies.", "budget"),
        ):
            yield gauge(name, text, (), [((), number(bodies.get(key)) or 0.0)])
        refused = number(bodies.get("refused")) or 0.0
        yield counter(
            "stoker_bodies_refused", "Requests refused because their bodies did not fit in memory.", (), [((), refused)]
        )
