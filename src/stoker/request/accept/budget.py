"""One limit for all request bodies that are in memory at the same time."""

from __future__ import annotations

from stoker.domain.access import FrontDoor
from stoker.domain.errors import CapacityError

MIN_BUDGET = 64 * 2**20
MEMORY_DIVISOR = 10
"""The default budget is the machine's memory divided by this."""
SMALL = 64 * 1024
"""Bytes up to which a body may also use the reserve."""
_RESERVE = 16
"""The budget divided by this is reserved for small bodies, so that large ones cannot lock them out."""
RETRY_AFTER = 5.0


class BodyBudget:
    """Counts bytes as received; copies made while a body is read or translated are not counted.

    Each `take` is followed by one `give_back` of the same size: see `Wire`.
    """

    __slots__ = ("_limit_for_large", "held", "limit", "refused")

    def __init__(self, limit: int = MIN_BUDGET) -> None:
        self.resize(limit)
        self.held = 0
        self.refused = 0
        """How many bodies were refused for lack of room."""

    def resize(self, limit: int) -> None:
        """Change the limit. Bodies that are held already stay."""
        self.limit = limit
        self._limit_for_large = limit - limit // _RESERVE

    def has_room(self, size: int, is_small: bool) -> bool:
        """Whether `size` more bytes may be held."""
        return self.held + size <= (self.limit if is_small else self._limit_for_large)

    def take(self, size: int, is_small: bool) -> bool:
        """Hold `size` more bytes; False: there is no room."""
        held = self.held + size
        if held > (self.limit if is_small else self._limit_for_large):
            return False
        self.held = held
        return True

    def give_back(self, size: int) -> None:
        self.held -= size

    def refusal(self) -> CapacityError:
        """The error for a body that there is no room for. Counts it."""
        self.refused += 1
        text = f"Stoker holds {self.held} of {self.limit} bytes of request bodies (front_door.body_budget): retry later"
        return CapacityError(text, code="body_budget", retry_after=RETRY_AFTER)


def least_for(body_limit: int) -> int:
    """The smallest budget in which one body of the largest size fits."""
    return -(-body_limit * _RESERVE // (_RESERVE - 1))


def budget_for(front_door: FrontDoor, memory: int | None) -> int:
    """The configured budget; else a tenth of `memory` (bytes; None: unknown), but at least 64 MiB, and enough for one
    body of the largest size.
    """
    if front_door.body_budget is not None:
        return front_door.body_budget
    return max(MIN_BUDGET, (memory or 0) // MEMORY_DIVISOR, least_for(front_door.body_limit))
