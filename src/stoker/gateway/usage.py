"""Who used what: GET /v1/usage. A key sees its own usage; with scope `observe`, everybody's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stoker.access.access_store import AccessStore
from stoker.access.caller import Caller
from stoker.access.usage import HOUR
from stoker.access.usage_report import parse_dimensions, usage_report
from stoker.domain.errors import ClientError
from stoker.domain.key import Scope

DEFAULT_SINCE = 7 * 86_400.0
MAX_SINCE = 4000 * 86_400.0


class UsagePages:
    """`wall`: Unix seconds."""

    def __init__(self, store: AccessStore, wall: Callable[[], float]) -> None:
        self._store = store
        self._wall = wall

    async def report(self, caller: Caller, query: Mapping[str, str]) -> dict[str, Any]:
        """`?by=key,day&since=SECONDS&key=NAME`. `since`: how far back; whole hours count. Raises ClientError 400."""
        dimensions = parse_dimensions(query.get("by", "key"))
        now = self._wall()
        seconds = _seconds(query.get("since"))
        first, last = int((now - seconds) // HOUR), int(now // HOUR)
        rows = await self._store.usage_between(first, last)
        own = caller.key.name if caller.key.scope < Scope.OBSERVE else query.get("key")
        if own is not None:
            rows = [row for row in rows if row[0][1] == own]
        return {
            "by": list(dimensions),
            "from": first * HOUR,
            "to": round(now, 3),
            "data": usage_report(rows, dimensions),
            "total": next(iter(usage_report(rows, ())), None),
        }


def _seconds(text: str | None) -> float:
    if text is None:
        return DEFAULT_SINCE
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= MAX_SINCE:
        raise ClientError("'since' must be a number of seconds above 0", code="bad_field", param="since")
    return seconds
