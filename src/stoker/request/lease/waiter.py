"""A request, or an operator's switch, that still waits."""

from __future__ import annotations

from enum import Enum

import msgspec

from stoker.domain.key import Priority
from stoker.domain.lease import NOBODY, FairShare


class Want(Enum):
    """What a waiter waits for."""

    REQUEST = "request"
    SWITCH = "switch"


class Waiter(msgspec.Struct, eq=False):
    """A request, or an operator's switch, that still waits. Times are monotonic seconds."""

    id: int
    want: Want
    since: float
    deadline: float
    takes_place: bool = True
    """Takes one of the serve's `max_active` places."""
    waits_for_place: bool = False
    """Waits for a place on a ready serve, not for a load. `update_wait` follows the serve's phase."""
    drain_timeout: float | None = None
    """The drain timeout that this switch asks for; None: the slot's."""
    share: FairShare = NOBODY
    body_bytes: int = 0
    avoid: frozenset[str] = frozenset()
    """Names of replicas that it may not join."""

    @property
    def is_background(self) -> bool:
        return self.want is Want.REQUEST and self.share.priority is Priority.BACKGROUND
