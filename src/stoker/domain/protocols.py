"""One seam per kind of IO. `stoker.testing` has a fake clock and a fake fleet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from stoker.domain.lease import Lease, PendingLease, Target
from stoker.domain.serve import Serve


@dataclass(frozen=True, slots=True)
class Running:
    """A serve that is up: proved by health, exact id and (where asked) a canary."""

    serve: Serve
    target: Target
    pid: int | None
    started_at: float
    """Unix time."""
    facts: dict[str, str | int | float]
    """The engine's start-up facts: context, parallel, build, load seconds, per-phase times."""
    start_kind: str = "cold"
    """What it was started from: `cold`, `warm` (weights in the page cache) or `asleep`."""


class Fleet(Protocol):
    """Starts and stops serves. Only `fleet.swapping` calls it."""

    def quick_check(self, serve: Serve) -> list[str]:
        """What stands in the way of a start (weights, command, files, port): one sentence each, empty if nothing.

        Touches nothing and takes milliseconds: called before a running serve is asked to go.
        """

    def lacks_weights(self, serve: Serve) -> bool:
        """Whether its weights are missing and can be fetch_progress from its `source`. Microseconds."""

    async def fetch(self, serve: Serve) -> None:
        """Bring its missing weights, verified. Raises StartFailed; on cancel nothing is left half done."""

    def fetch_progress(self, name: str) -> str:
        """How far a fetch under way is, in words."""

    async def full_check(self, serve: Serve, victims: tuple[str, ...] = ()) -> list[str]:
        """As `quick_check`, with everything that takes longer: image, container, unit, weights' hashes, free memory.

        Awaited while the victims of a swap drain, and right before they are stopped; if anything is found they are not
        touched. What the victims hold is credit. Raises StartFailed where what is found has a code of its own.
        """

    async def start(self, serve: Serve, on_exit: Callable[[str, str], None]) -> Running:
        """Start and wait until proved ready. Raises StartFailed with the engine's last words.

        `on_exit(name, detail)` is called once if the process ends after that without `stop`.
        On cancel: whatever was started is gone before CancelledError leaves this call.
        """

    def failure_of(self, name: str) -> str:
        """What the last end of a serve was, in one word (`out_of_memory`); empty: nothing that has a name."""

    async def stop(self, name: str, grace: float, keep_warm: bool = False) -> None:
        """SIGTERM to the group, `grace` seconds, SIGKILL; returns when gone and its memory is free. Unknown: nothing.

        `keep_warm`: it may be put to sleep instead; it then holds host memory, and nothing of its slot.

        On cancel: the kill goes on; the call returns only when the process is gone.
        """

    async def forget(self, name: str) -> None:
        """Remove what was kept of a stopped serve for its next start: saved conversations."""

    async def adopt(self, serves: list[Serve], on_exit: Callable[[str, str], None]) -> list[Running]:
        """Take over what an earlier control plane left running and that is still right for its configuration."""

    async def close(self, leave_running: bool) -> None:
        """Give up everything: stop all serves, or leave them to the next control plane."""

    def set_busy(self, is_busy: bool) -> None:
        """True: the first lease was granted; False: the last one was released. Called with most requests, so it has to
        take less than a microsecond. While the fleet is busy, nothing is read from disk ahead of time.
        """

    def hurry(self, leave_running: bool) -> None:
        """Whoever waits will wait no longer: what is being stopped, and what `close` would stop, is killed now. Every
        stop from here on is without grace, saves nothing and does not wait for memory.
        """


class Leases(Protocol):
    """Who may use a serve now. The conductor is one. Hold leases through `exchange.leasing`."""

    def acquire(self, name: str, counted: bool = True) -> Lease | PendingLease:
        """A lease now or later. `counted`: it takes one of the serve's places. Loads the serve if it has to.

        A refusal is a StokerError: raised if it is known at once, else the end of the wait.
        """

    def allow_preemption(self, lease: Lease) -> None:
        """Take this lease away as soon as somebody waits for what it holds; that may be at once."""

    def target(self, name: str) -> Target | None:
        """Where a serve answers; None: it is not ready."""

    def failure_code(self, name: str) -> str:
        """Why a serve is not there, as its error's code; empty: it is there, or never failed."""


class SwapEntry(msgspec.Struct, frozen=True):
    """A swap as the journal has it: begun, and not known to have ended."""

    slot: str
    target: str
    victims: tuple[str, ...] = ()


class Journal(Protocol):
    """Swaps under way, on disk: what is begun is ended, or found by the next control plane."""

    async def begin(self, swap: SwapEntry) -> None:
        """On disk, and safe from a power cut, when this returns. Raises StokerError `state_unusable`.

        On cancel: the entry is whole or not there, and nothing writes any more when CancelledError leaves this call.
        """

    def end(self, swap: SwapEntry) -> None:
        """It came to an end, whichever. Raises nothing."""

    def unfinished(self) -> list[SwapEntry]:
        """What an earlier control plane began and did not end."""


class Clock(Protocol):
    """Monotonic seconds, and wall time."""

    def now(self) -> float: ...

    def wall(self) -> float: ...
