"""A limit for the bodies of all requests that wait for a place or a load: `front_door.queue_bytes`."""

from __future__ import annotations

from stoker.domain.errors import CapacityError

RETRY_AFTER = 5.0


class WaitingBodies:
    """Each `hold` that succeeds is followed by one `release` of the same size. `limit` None: any amount."""

    __slots__ = ("_limit", "held", "refused")

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self.held = 0
        self.refused = 0

    def configure(self, limit: int | None) -> None:
        """Requests that wait already stay."""
        self._limit = limit

    @property
    def limit(self) -> int | None:
        return self._limit

    def hold(self, size: int) -> None:
        """Raises CapacityError 503 if there is no room for another waiting body of this size."""
        if self._limit is not None and self.held + size > self._limit:
            self.refused += 1
            text = (
                f"the bodies of waiting requests hold {self.held} of {self._limit} bytes (front_door.queue_bytes): "
                "this one would have to wait, and does not fit: retry later"
            )
            raise CapacityError(text, code="queue_bytes", retry_after=RETRY_AFTER)
        self.held += size

    def release(self, size: int) -> None:
        self.held -= size
