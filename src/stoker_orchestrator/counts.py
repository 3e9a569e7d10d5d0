"""Counters of requests that named an orchestrator: blocks, failed checks, tokens."""

from __future__ import annotations

from collections import Counter

from stoker.domain.decision import Decision, OrchestratedRecord
from stoker.store import labels
from stoker_orchestrator.orchestrator import CheckLayer, Policy

LAYERS = frozenset((*CheckLayer, "unreadable"))
POLICIES = frozenset(Policy)


class OrchestratedCounts:
    """Fed on the event loop; label values are bounded, as those of `stoker.store.metrics`."""

    def __init__(self) -> None:
        self._names = labels.names()
        self.requests: Counter[tuple[str, str, str]] = Counter()
        """By orchestrator, policy and outcome."""
        self.blocks: Counter[tuple[str, str]] = Counter()
        """By orchestrator, and `committed`, `failed` or `discarded`."""
        self.failures: Counter[tuple[str, str]] = Counter()
        """By orchestrator and layer."""
        self.tokens: Counter[tuple[str, str]] = Counter()
        """By orchestrator, and `worker`, `validator` or `wasted`."""

    def observe(self, decision: Decision, record: OrchestratedRecord) -> None:
        name = self._names.label(record.orchestrator)
        policy = record.policy if record.policy in POLICIES else labels.OTHER
        outcome = decision.outcome if decision.outcome in labels.OUTCOMES else labels.OTHER
        self.requests[name, policy, outcome] += 1
        failures = {layer if layer in LAYERS else labels.OTHER: count for layer, count in record.failures.items()}
        for layer, count in failures.items():
            self.failures[name, layer] += count
        failed = sum(count for layer, count in failures.items() if layer != "unreadable")
        for result, count in (
            ("committed", record.blocks - record.resumed),
            ("failed", failed),
            ("discarded", record.discarded),
        ):
            self.blocks[name, result] += max(0, count)
        for role, count in (
            ("worker", (decision.input_tokens or 0) + (decision.output_tokens or 0)),
            ("validator", record.validator_tokens),
            ("wasted", record.wasted_tokens),
        ):
            self.tokens[name, role] += count
