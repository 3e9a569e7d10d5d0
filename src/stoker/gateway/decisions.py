"""Decision records for operators: GET /admin/decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from stoker.domain.decision import Decision
from stoker.domain.errors import ClientError
from stoker.domain.swap import SwapReport
from stoker.gateway.explain.explanation import explain, with_waits
from stoker.store.decisions import DecisionLog

MAX_LISTED = 10_000
CONSIDERED = 4_000
"""Decisions among which an explanation looks for requests that were in the way; memory has that many."""

KEPT_CONSIDERED = 256
"""The same for a record on its way to disk: under load every request waits, and overlaps with all others."""


class DecisionPages:
    """`grade_of(request_id)`: the shadow grade of a request; empty: it has none. `swaps()`: those that are known."""

    def __init__(
        self,
        store: DecisionLog,
        grade_of: Callable[[str], str] = lambda request_id: "",
        swaps: Callable[[], Iterable[SwapReport]] = tuple,
    ) -> None:
        self._store = store
        self._grade_of = grade_of
        self._swaps = swaps

    def by_id(self, request_id: str) -> dict[str, Any]:
        """With its explanation. Raises ClientError 404."""
        found = self._store.find(request_id)
        if found is None:
            text = f"no decision has the id {request_id[:80]!r}: it is too old, or was one of many equal refusals"
            raise ClientError(text, code="no_decision", status=404)
        if found.routed is not None and (grade := self._grade_of(found.id)):
            found = replace(found, routed=replace(found.routed, graded=grade))
        near = self._store.in_memory(CONSIDERED) if found.queued else ()
        return {"decision": found, "explanation": explain(found, self._swaps(), near)}

    def with_waits(self, decision: Decision) -> Decision:
        """The record as it is kept: with what the request waited for. From any thread."""
        if decision.queued is None and decision.attempts:
            return decision
        return with_waits(decision, self._swaps(), self._store.overlapping(decision.at, KEPT_CONSIDERED))

    def newest(self, query: Mapping[str, str]) -> dict[str, Any]:
        """The newest first; `?limit=N`, 50 by default; `?failed=true`: only those that failed. Raises ClientError
        400.
        """
        limit = query.get("limit", "50")
        if not (limit.isascii() and limit.isdigit()):
            raise ClientError("limit must be a number", code="bad_field", param="limit")
        most = min(int(limit), MAX_LISTED)
        wanted = query.get("failed", "false")
        if wanted not in ("true", "false"):
            raise ClientError("failed must be true or false", code="bad_field", param="failed")
        return {"decisions": self._store.newest_failed(most) if wanted == "true" else self._store.recent(most)}
