"""One bound for all request bodies that are held at once, whoever sent them and whatever they wait for."""

from __future__ import annotations

from stoker.domain.access import FrontDoor
from stoker.domain.errors import CapacityError

MIN_BUDGET = 64 * 2**20
MEMORY_DIVISOR = 10
"""One part in so many of the machine's memory."""
SMALL = 64 * 1024
"""Bytes of a body up to which it may use the reserve, too."""
_RESERVE = 16
"""One part in so many is kept for small bodies: large ones cannot shut everybody out."""
RETRY_AFTER = 5.0


class BodyBudget:
    """Bytes as they came; what is made of a body while it is read or translated is not counted.

    Whoever takes gives back the same, once: see `Wire`.
    """

    __slots__ = ("_limit_for_large", "held", "limit", "refused")

    def __init__(self, limit: int = MIN_BUDGET) -> None:
        self.resize(limit)
        self.held = 0
        self.refused = 0
        """Bodies that there was no room for."""

    def resize(self, limit: int) -> None:
        """Change the bound; what is held already stays."""
        self.limit = limit
        self._limit_for_large = limit - limit // _RESERVE

    def has_room(self, size: int, is_small: bool) -> bool:
        """Whether `size` more bytes may be held."""
        return self.held + size <= (self.limit if is_small else self._limit_for_large)

    def take(self, size: int, is_small: bool) -> bool:
        """Hold `size` more bytes; False: there is no room, and nothing was taken."""
        held = self.held + size
        if held > (self.limit if is_small else self._limit_for_large):
            return False
        self.held = held
        return True

    def give_back(self, size: int) -> None:
        self.held -= size

    def refusal(self) -> CapacityError:
        """For a body that there is no room for. It is counted."""
        self.refused += 1
        text = f"Stoker holds {self.held} of {self.limit} bytes of request bodies (front_door.body_budget): retry later"
        return CapacityError(text, code="body_budget", retry_after=RETRY_AFTER)


def least_for(body_limit: int) -> int:
    """The smallest budget in which one body of the largest size fits."""
    return -(-body_limit * _RESERVE // (_RESERVE - 1))


def budget_for(front_door: FrontDoor, memory: int | None) -> int:
    """As configured; else a tenth of `memory` (bytes; None is unknown), at least 64 MiB, and enough for one body of the
    largest size.
    """
    if front_door.body_budget is not None:
        return front_door.body_budget
    return max(MIN_BUDGET, (memory or 0) // MEMORY_DIVISOR, least_for(front_door.body_limit))
