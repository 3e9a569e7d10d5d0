"""The series of memory. Imported at the first scrape, as `exposition` is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import Metric

from stoker.store.families import counter, gauge, number, records


def families(status: Mapping[str, object], prefixes: Sequence[str]) -> Iterator[Metric]:
    """Of the machine under each prefix, of the serves, and of the warm pool. What `status` lacks is left out."""
    for key, text in (
        ("vram_used_bytes", "Accelerator memory in use."),
        ("ram_used_bytes", "Main memory in use."),
    ):
        used = number(status.get(key))
        if used is not None:
            for prefix in prefixes:
                yield gauge(f"{prefix}{key}", text, (), [((), used)])
    yield gauge(
        "stoker_serve_memory_bytes",
        "Memory that a running serve holds, as measured.",
        ("serve",),
        (
            ((str(serve["name"]),), held)
            for serve in records(status.get("serves"))
            if (held := number(serve.get("measured"))) is not None
        ),
    )
    yield from _warm(status.get("warm"))


def _warm(warm: object) -> Iterator[Metric]:
    if not isinstance(warm, Mapping):
        return
    predictions = warm.get("predictions")
    yield counter(
        "stoker_preload_predictions",
        "Swaps, by whether the new model had been predicted.",
        ("result",),
        (((str(result),), count) for result, count in predictions.items()) if isinstance(predictions, Mapping) else (),
    )
    restarts = number(warm.get("holder_restarts"))
    yield counter(
        "stoker_warm_holder_restarts",
        "Unexpected ends of the process that keeps models warm.",
        (),
        [((), restarts)] if restarts is not None else (),
    )
    for name, text, key in (
        ("stoker_warm_budget_bytes", "Host memory for the weights of models that were swapped out.", "budget"),
        ("stoker_warm_bytes", "Host memory in use for such weights.", "used"),
    ):
        value = number(warm.get(key))
        yield gauge(name, text, (), [((), value)] if value is not None else ())
    yield gauge(
        "stoker_warm_model_bytes",
        "Host memory that a model uses.",
        ("model", "how"),
        (((str(m["name"]), str(m.get("how"))), number(m.get("bytes")) or 0.0) for m in records(warm.get("models"))),
    )
