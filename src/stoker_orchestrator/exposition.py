"""The series of orchestrated requests. Imported at the first scrape."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from stoker.store.families import counter
from stoker_orchestrator.counts import OrchestratedCounts


def families(counts: OrchestratedCounts) -> Iterator[Metric]:
    """Each table is copied in one step: the event loop may change it."""
    yield counter(
        "stoker_orchestrated_requests",
        "Requests that named an orchestrator.",
        ("orchestrator", "policy", "outcome"),
        list(counts.requests.items()),
    )
    yield counter(
        "stoker_orchestrated_blocks",
        "Blocks that an orchestrator's worker wrote, by what became of them.",
        ("orchestrator", "result"),
        list(counts.blocks.items()),
    )
    yield counter(
        "stoker_orchestrated_check_failures",
        "Blocks that failed a check, by its layer.",
        ("orchestrator", "layer"),
        list(counts.failures.items()),
    )
    yield counter(
        "stoker_orchestrated_tokens",
        "Tokens of orchestrated requests: the worker's, the validator's, and those in no answer.",
        ("orchestrator", "role"),
        list(counts.tokens.items()),
    )
