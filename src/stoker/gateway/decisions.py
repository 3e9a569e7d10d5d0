"""Decision records for operators: GET /admin/decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from stoker.domain.errors import ClientError
from stoker.store.decisions import DecisionLog

MAX_LISTED = 10_000


class DecisionPages:
    """`grade_of(request_id)`: the shadow grade of a request; empty: it has none."""

    def __init__(self, store: DecisionLog, grade_of: Callable[[str], str] = lambda request_id: "") -> None:
        self._store = store
        self._grade_of = grade_of

    def one(self, request_id: str) -> dict[str, Any]:
        """Raises ClientError 404."""
        found = self._store.find(request_id)
        if found is None:
            text = f"no decision has the id {request_id[:80]!r}: it is too old, or was one of many equal refusals"
            raise ClientError(text, code="no_decision", status=404)
        if found.routed is not None and (grade := self._grade_of(found.id)):
            found = replace(found, routed=replace(found.routed, graded=grade))
        return {"decision": msgspec.to_builtins(found)}

    def newest(self, query: Mapping[str, str]) -> dict[str, Any]:
        """The newest first; `?limit=N`, 50 by default. Raises ClientError 400."""
        limit = query.get("limit", "50")
        if not (limit.isascii() and limit.isdigit()):
            raise ClientError("limit must be a number", code="bad_field", param="limit")
        return {"decisions": [msgspec.to_builtins(one) for one in self._store.recent(min(int(limit), MAX_LISTED))]}
