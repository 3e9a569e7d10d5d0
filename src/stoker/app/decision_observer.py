"""The end of each request: the one place where all learn of it."""

from __future__ import annotations

from stoker.app.server_parts import ServerParts
from stoker.domain.decision import Decision
from stoker.store.decisions import DecisionLog
from stoker.store.metrics import Metrics


class DecisionObserver:
    """Gets the record of each request once, when it is over."""

    def __init__(
        self,
        decisions: DecisionLog,
        metrics: Metrics,
        extensions: ServerParts,
    ) -> None:
        self._decisions = decisions
        self._metrics = metrics
        self._extensions = extensions

    def on_decision(self, decision: Decision) -> None:
        self._decisions.record(decision)
        self._metrics.observe(decision)
        if self._extensions.observers:
            self._extensions.on_decision(decision)
