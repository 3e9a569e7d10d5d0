"""What the scheduler asks its caller to do. Commands are carried out in order, each exactly once."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker.domain.errors import StokerError


class Grant(msgspec.Struct, frozen=True, gc=False):
    """The wait of `id` is over: a request holds a lease with that id now; a switch or unload is done."""

    id: int


class Reject(NamedTuple):
    """The wait of `id` fails with this error."""

    id: int
    error: StokerError


class Reassign(NamedTuple):
    """The request `id` waits for another replica from now on: `serve`."""

    id: int
    serve: str


class Cut(NamedTuple):
    """These leases of `serve` are taken away: their streams end with an error event that states `reason`."""

    serve: str
    leases: tuple[int, ...]
    reason: str


class StartSwap(NamedTuple):
    """Stop the victims, wait until their memory is free, start the target, prove it; then `on_swap_done`.

    `target` None: only stop. `swap_id` comes back with the result.
    """

    swap_id: int
    target: str | None
    victims: tuple[str, ...]


class CheckStart(NamedTuple):
    """A swap was decided and its victims drain. Meanwhile check whether the target can start at all.

    If it cannot: `on_swap_done` with the error and `victims_untouched`. That ends the drain before any request is cut.
    """

    swap_id: int
    target: str


class CancelSwap(NamedTuple):
    """No request waits for the target any more: abort its start. `on_swap_done` still follows, with `cancelled`."""

    swap_id: int


class WakeAt(NamedTuple):
    """Call `on_tick` at this time (monotonic seconds; None: no timer). Replaces the previous WakeAt."""

    at: float | None


Command = Grant | Reject | Reassign | Cut | CheckStart | StartSwap | CancelSwap | WakeAt
