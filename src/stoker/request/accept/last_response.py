"""What a connection remembers of its last response, so that its next request can go on from there although nothing is
stored.
"""

from __future__ import annotations

from stoker.request.accept.budget import SMALL, BodyBudget
from stoker.request.stored_responses.compaction import since_compaction
from stoker.request.stored_responses.records import StoredItem


class LastResponse:
    """Counts as a request body while it is kept: where the budget has no room for it, it is not kept."""

    def __init__(self, bodies: BodyBudget) -> None:
        self._bodies = bodies
        self._id = ""
        self._items: list[StoredItem] = []
        self._held = 0

    def keep(self, id: str, items: list[StoredItem]) -> None:
        """The response with all that it was asked, in the place of what was kept before."""
        self.forget()
        items = since_compaction(items)
        size = sum(len(item.body) for item in items)
        if id and self._bodies.take(size, size <= SMALL):
            self._id, self._items, self._held = id, items, size

    def items_of(self, id: str | None) -> list[StoredItem] | None:
        """What came before, for a request that continues this response; None: it is not the last one."""
        return self._items if id is not None and id == self._id else None

    def forget(self, id: str | None = None) -> None:
        """Forget the response; with `id` only if it is this one."""
        if id is not None and id != self._id:
            return
        held, self._held = self._held, 0
        self._bodies.give_back(held)
        self._id, self._items = "", []
