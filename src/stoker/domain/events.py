"""What happened, in the past tense. A part publishes events to the one `notify` that it was built with.

The publisher does not know who listens. It calls `notify` on the event loop's thread, and `notify` returns at once.
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
    """A swap ended, successfully or not."""

    report: SwapReport


@dataclass(frozen=True, slots=True)
class ServeAdopted:
    """An earlier run of Stoker left this serve running, and it is managed again."""

    serve: str
    is_identified: bool = True
    """Whether it was proved that the configured model answers."""


@dataclass(frozen=True, slots=True)
class ServeExited:
    """A ready serve exited, or stopped answering. Published before the scheduler gets to know."""

    serve: str
    detail: str


@dataclass(frozen=True, slots=True)
class ServeDisconnected:
    """Requests are no longer sent to this address: its serve is being stopped, or has exited."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ServeMoved:
    """The worker of an edge has another address, and its serve answers there now."""

    serve: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class ServeRestarted:
    """A running serve was wedged: its streams are cut, and it starts again."""

    serve: str
    reason: str


@dataclass(frozen=True, slots=True)
class ServeSick:
    """A running serve does not work as configured, and a restart would not mend that: it goes on."""

    serve: str
    reason: str


@dataclass(frozen=True, slots=True)
class ServeParked:
    """A serve is stopped, and starts again only when an operator switches to it or its configuration changes."""

    serve: str
    reason: str


@dataclass(frozen=True, slots=True)
class SlotPaused:
    """A slot gives its devices up: what is loaded there ends, and nothing is loaded until `SlotResumed`."""

    slot: str
    reason: str


@dataclass(frozen=True, slots=True)
class SlotResumed:
    """A cause of a pause is over: the slot may load again, and what was loaded comes back."""

    slot: str
    reason: str
    still_paused: str = ""
    """The other cause, for which it stays paused; empty: there is none."""


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
    """Routing's predictions of the next models changed."""


class MoveCause(Enum):
    """Why an alias was moved to another serve."""

    PROMOTED = "promoted"
    RESET = "reset"
    """Back to the configured serve."""
    ROLLED_BACK = "rolled back"
    ENDED = "promotion ended"
    """The serve to which it was promoted is no longer configured: back to the configured one."""


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
    """An alias went back to this serve, but that was not saved: after a restart of Stoker the promotion is back."""

    serve: str
    problem: str


@dataclass(frozen=True, slots=True)
class PromotionWatchEnded:
    """The watch over a promotion is over. `rolled_back`: the model became worse, or nothing was proved."""

    override: Override
    finding: Finding
    rolled_back: bool


@dataclass(frozen=True, slots=True)
class ExtensionEvent:
    """What the driver of an extension tells that extension's part of the server."""

    extension: str
    value: object


Event = (
    SwapEnded
    | ServeAdopted
    | ServeExited
    | ServeDisconnected
    | ServeMoved
    | ServeRestarted
    | ServeSick
    | ServeParked
    | SlotPaused
    | SlotResumed
    | MemoryMeasured
    | OperatorActed
    | ServeIdentified
    | PredictionsChanged
    | AliasMoved
    | RollbackNotSaved
    | PromotionWatchEnded
    | ExtensionEvent
)
Notify = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A `notify` that drops every event."""
