"""The series of keys. Imported at the first scrape, as `exposition` is."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from stoker.store.families import counter
from stoker.store.key_usage import COLUMNS, KeyUsageCounts


def families(counts: KeyUsageCounts) -> Iterator[Metric]:
    """The table is copied in one step: the event loop may change it."""
    rows = [(place, dict(zip(COLUMNS, list(amounts), strict=True))) for place, amounts in list(counts.totals.items())]
    labels = ("key", "app")
    for name, column, meaning in (
        ("stoker_key_requests", "requests", "Requests of each key that ended."),
        ("stoker_key_failures", "failed", "Those of them that were not answered."),
        ("stoker_key_cost", "cost", "Money that each key spent on clouds and tools."),
        ("stoker_key_accelerator_seconds", "accelerator_seconds", "Busy time of slots, divided among what ran."),
        ("stoker_key_energy_joules", "joules", "Energy of the accelerators, as far as they report their power."),
        ("stoker_key_swap_seconds", "swap_seconds", "Seconds of the swaps that each key caused."),
    ):
        yield counter(name, meaning, labels, ((place, amounts[column]) for place, amounts in rows))
    limited = [((key,), count) for key, count in list(counts.limited.items())]
    yield counter("stoker_key_limited", "Requests that a limit of their key refused.", ("key",), limited)
    kinds = ("input", "cached", "output", "reasoning")
    yield counter(
        "stoker_key_tokens",
        "Tokens of each key. `input` includes `cached`, `output` includes `reasoning`.",
        (*labels, "kind"),
        (((*place, kind), amounts[kind]) for place, amounts in rows for kind in kinds),
    )
