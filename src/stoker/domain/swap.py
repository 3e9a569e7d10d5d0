"""The report of a swap, and what is remembered of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec


@dataclass(frozen=True, slots=True)
class SwapReport:
    """The result of a swap. `outcome` is `ready`, `failed`, `cancelled` or `stopped`; `running` before its end.

    `phases`, in seconds, one after the other: `drain`; `check` (the full check of the target, and the
    journal); `stop` (the victims, until they are gone and their memory is free); `start` (until the target's health is
    good); `ready` (until its exact id, and its canary where asked, are proved).
    """

    swap_id: int
    serve: str | None
    """The target; None: the victims were only stopped."""
    slot: str
    victims: tuple[str, ...]
    outcome: str = "running"
    phases: dict[str, float] = field(default_factory=dict)
    start_kind: str = "cold"
    """What the target was started from; see `Running`."""
    error: str = ""
    key: str = ""
    """The key whose request caused it; empty: none did."""


class EndedSwap(msgspec.Struct, frozen=True):
    """A swap that has ended, as people and programs are told of it. Its fields are those of `SwapReport`."""

    at: float
    """Unix time of its end."""
    swap: int
    serve: str | None
    slot: str
    victims: tuple[str, ...] = ()
    outcome: str = "ready"
    phases: Mapping[str, float] = {}
    start_kind: str = "cold"
    error: str | None = None
    key: str | None = None

    @property
    def began_at(self) -> float:
        """Unix time at which its drain began."""
        return self.at - sum(self.phases.values())
