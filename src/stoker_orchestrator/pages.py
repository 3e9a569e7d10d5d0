"""The scratchpads of orchestrated requests: GET /admin/orchestrator/REQUEST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.domain.errors import ClientError
from stoker_orchestrator.memory.pads import Scratchpads


class ScratchpadPages:
    """Documents about scratchpads. They hold what models wrote, so only administrators may read them."""

    def __init__(self, pads: Scratchpads) -> None:
        self._pads = pads

    def records(self, request: str, query: Mapping[str, str]) -> dict[str, Any]:
        """The records from `?offset=BYTES` on, and the `next` offset to ask for. Blocks. Raises ClientError."""
        offset = query.get("offset", "0")
        if not (offset.isascii() and offset.isdigit() and len(offset) < 16):
            raise ClientError("offset must be a number", code="bad_field", param="offset")
        try:
            found, after = self._pads.read_new(request, int(offset))
        except (OSError, ValueError):
            text = f"there is no scratchpad of request {request[:80]!r}: nothing was written yet, or it was removed"
            raise ClientError(text, code="unknown_request", status=404) from None
        return {"request": request, "next": after, "records": [{**one.facts, "text": one.text} for one in found]}
