"""What happened, in the past tense. A part publishes events to the one `notify` that it was built with.

Whoever publishes does not know who listens, and calls `notify` on the event loop's thread: it returns at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from stoker.domain.gate import Override
from stoker.domain.run import Finding
from stoker.domain.swap import SwapReport


@dataclass(frozen=True, slots=True)
class SwapEnded:
    report: SwapReport


@dataclass(frozen=True, slots=True)
class ServeAdopted:
    """An earlier run of Stoker left this serve running, and it is managed again."""

    serve: str


@dataclass(frozen=True, slots=True)
class ServeExited:
    """A ready serve ended by itself, or stopped answering. The scheduler has not heard of it yet."""

    serve: str
    detail: str


@dataclass(frozen=True, slots=True)
class ServeDisconnected:
    """Requests are no longer sent to this address: its serve is being stopped, or has ended."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ServeRestarted:
    """A serve that ran was sick: its streams are cut, and it starts again."""

    serve: str
    reason: str


@dataclass(frozen=True, slots=True)
class ServeParked:
    """A serve is stopped, and starts again only when an operator switches to it or its configuration changes."""

    serve: str
    reason: str


@dataclass(frozen=True, slots=True)
class MemoryMeasured:
    """How much of its slot's memory a ready serve holds."""

    serve: str
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class OperatorActed:
    """An operator switched to this serve."""

    serve: str


@dataclass(frozen=True, slots=True)
class ServeIdentified:
    """The fingerprint of a running serve is known."""

    serve: str


@dataclass(frozen=True, slots=True)
class PredictionsChanged:
    """Routing predicts other models than before."""


class MoveCause(Enum):
    """Why an alias means another serve now."""

    PROMOTED = "promoted"
    RESET = "reset"
    """Back to what the configuration says."""
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True, slots=True)
class AliasMoved:
    """Requests for this alias go to another serve from now on."""

    alias: str
    serve: str
    previous: str
    cause: MoveCause
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RollbackNotSaved:
    """An alias went back to this serve, but the disk does not have it: after a restart it is promoted again."""

    serve: str
    problem: str


@dataclass(frozen=True, slots=True)
class PromotionWatchEnded:
    """The watch over a promotion is complete. `rolled_back`: the model got worse."""

    override: Override
    finding: Finding
    rolled_back: bool


Event = (
    SwapEnded
    | ServeAdopted
    | ServeExited
    | ServeDisconnected
    | ServeRestarted
    | ServeParked
    | MemoryMeasured
    | OperatorActed
    | ServeIdentified
    | PredictionsChanged
    | AliasMoved
    | RollbackNotSaved
    | PromotionWatchEnded
)
Notify = Callable[[Event], None]


def ignore(event: Event) -> None:
    """For a part that nobody listens to."""
