"""The report of a swap."""

from __future__ import annotations

import msgspec


class SwapReport(msgspec.Struct, frozen=True):
    """What a swap did, as people and programs are told of it. `outcome` is `ready`, `failed`, `cancelled` or `stopped`;
    `running` before its end.

    `phases`, in seconds, one after the other: `drain`; `check` (the full check of the target, and the
    journal); `stop` (the victims, until they are gone and their memory is free); `start` (until the target's health is
    good); `ready` (until its exact id, and its canary where asked, are proved).
    """

    swap_id: int = msgspec.field(name="swap")
    serve: str | None
    """The target; None: the victims were only stopped."""
    slot: str
    victims: tuple[str, ...] = ()
    outcome: str = "running"
    phases: dict[str, float] = {}
    start_kind: str = "cold"
    """What the target was started from; see `Running`."""
    error: str | None = None
    key: str | None = None
    """The key whose request caused it; None: none did."""
    at: float = 0.0
    """Unix time of its end; 0: it has not ended."""

    @property
    def began_at(self) -> float:
        """Unix time at which its drain began."""
        return self.at - sum(self.phases.values())
