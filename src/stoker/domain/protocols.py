"""One protocol for each kind of IO. `stoker_lab.testing` has a fake clock and a fake fleet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from stoker.domain.key import Priority
from stoker.domain.lease import NOBODY, FairShare, Lease, PendingLease, Target
from stoker.domain.replica_wish import NO_WISH, ReplicaWish
from stoker.domain.serve import Serve


@dataclass(frozen=True, slots=True)
class Running:
    """A serve that is proved ready: by its health, the exact model id and, if configured, a canary."""

    serve: Serve
    target: Target
    pid: int | None
    started_at: float
    """Unix time."""
    facts: dict[str, str | int | float]
    """What is known about its start: context, parallel, build, the seconds to load and of each phase."""
    start_kind: str = "cold"
    """What it was started from: `cold`, `warm` (weights in the page cache) or `asleep`."""


FileMarks = tuple[tuple[str, int, int, int], ...]
"""Files, in the order of their paths: path, inode, size in bytes, time of the last change in nanoseconds."""


class QuickCheck(NamedTuple):
    """Whether a serve can start."""

    problems: Sequence[str] = ()
    """What prevents it (weights, command, files, port): one sentence each."""
    lacks_weights: bool = False
    """Its weights are missing, and can be downloaded from its `source`."""
    lasting: Sequence[str] = ()
    """Those of `problems` that are lasting: somebody has to change a file or the configuration."""
    files: FileMarks = ()
    """What a start reads: weights, engine, templates. Empty if there are such problems, or nothing of it is here."""


class Fleet(Protocol):
    """Starts and stops serves. Only `fleet.swapping` calls it."""

    def quick_check(self, serve: Serve) -> QuickCheck | Awaitable[QuickCheck]:
        """What prevents a start. Changes nothing, and is called before a swap is decided. Takes milliseconds, or, if a
        file system does not answer, a few seconds: then that is the problem. An awaitable if files have to be read.
        """

    async def download(self, serve: Serve) -> None:
        """Download and verify its missing weights. Raises StartFailed. On cancel no half-written file stays."""

    def download_progress(self, name: str) -> str:
        """The progress of a download under way, in words."""

    def load_percent(self, name: str) -> int | None:
        """How much of a starting serve is loaded, as its engine prints it; None: it does not say. Microseconds."""

    def start_step(self, name: str) -> str:
        """What a start waits for, where its driver says so, in words after the serve's name; else empty."""

    async def full_check(
        self, serve: Serve, victims: tuple[str, ...] = (), checked: QuickCheck | None = None
    ) -> list[str]:
        """As `quick_check`, and all that takes longer: image, container, unit, hashes of the weights, free memory.
        `checked`: what the quick check found just now; None: it is done here.

        It runs while the victims of a swap drain, and again right before they are stopped; if it finds a problem, they
        go on. Memory that the victims hold counts as free. Raises StartFailed for a problem that has its own code.
        """

    async def start(self, serve: Serve, on_exit: Callable[[str, str], None]) -> Running:
        """Start and wait until proved ready. Raises StartFailed with the engine's last output.

        `on_exit(name, detail)` is called once if the process ends after that without `stop`.
        On cancel: whatever was started is gone before CancelledError is raised.
        """

    def failure_of(self, name: str) -> str:
        """Why a serve last exited, as one word (`out_of_memory`); empty: the reason is not known."""

    async def stop(self, name: str, grace: float, keep_warm: bool = False) -> None:
        """SIGTERM to the process group, SIGKILL after `grace` seconds. Returns when the memory of the serve is free.

        `keep_warm`: the serve may be put to sleep instead; then it holds host memory, but no memory of its slot. An
        unknown name does nothing. On cancel the stop goes on, and the call returns only when the process is gone.
        """

    async def forget(self, name: str) -> None:
        """Delete the saved conversations of a stopped serve."""

    async def adopt(self, serves: list[Serve], on_exit: Callable[[str, str], None]) -> list[Running]:
        """Take over the serves that an earlier run of Stoker left running and whose configuration has not changed."""

    async def close(self, leave_running: bool) -> list[str]:
        """Stop all serves, or leave them running for the next run of Stoker. Returns what could not be stopped, and
        why: one sentence each.
        """

    def set_busy(self, is_busy: bool) -> None:
        """True: the first lease was granted; False: the last one was released. Called with most requests, so it has to
        take less than a microsecond. While the fleet is busy, nothing is read from disk ahead of time.
        """

    def hurry(self, leave_running: bool) -> None:
        """Kill at once the serves that are being stopped, and those that `close` would stop. Every later stop is
        without grace, saves no conversations and does not wait for memory.
        """


class Leases(Protocol):
    """Grants leases. The conductor implements it. Hold leases through `exchange.leasing`."""

    contested: Collection[str]
    """The serves in whose slots others can be loaded, too, so that models may have to take turns."""

    def acquire(
        self,
        name: str,
        takes_place: bool = True,
        share: FairShare = NOBODY,
        body_bytes: int = 0,
        wish: ReplicaWish = NO_WISH,
    ) -> Lease | PendingLease:
        """A lease, or a pending one; loads the serve if necessary. `takes_place`: the lease takes one of its places.
        `share`: whose request it is. `body_bytes`: the size of its body, by which its cost is expected. `wish`:
        which replica suits it.

        A refusal is a StokerError: raised at once, or later as the exception of the pending lease.
        """

    def allow_preemption(self, lease: Lease, priority: Priority | None = None) -> None:
        """Let this lease be cut as soon as a request of a higher priority than this (None: any request) needs its place
        or its serve's memory.
        """

    def has_choice(self, name: str) -> bool:
        """Whether several replicas of a serve are ready, so that its prompt says which one suits a request."""

    def has_another(self, name: str, wish: ReplicaWish) -> bool:
        """Whether a replica of a serve that `wish` allows is ready or can be started."""

    def target(self, name: str) -> Target | None:
        """Where a serve answers; None: it is not ready."""

    def load_progress(self, name: str) -> str:
        """What a request for this serve waits for, in words after its name (`is loading, 40 %`); empty: not for a
        load.
        """

    def failure_code(self, name: str) -> str:
        """The code of a serve's last failure; empty: it is ready, or never failed."""


class EdgeTargets(Protocol):
    """Where the workers of edges answer: for serves with `base_url = "edge:NAME"`."""

    async def target(self, edge: str) -> Target:
        """The address at which the worker was proved last. Raises StartFailed: it was never found."""


class SwapEntry(msgspec.Struct, frozen=True):
    """A swap in the journal: it has begun, and is not known to have ended."""

    slot: str
    target: str
    victims: tuple[str, ...] = ()


class Journal(Protocol):
    """The swaps under way, on disk. The next run of Stoker finds those that did not end."""

    async def begin(self, swap: SwapEntry) -> None:
        """Write an entry. It survives a power cut when this returns. Raises StokerError `state_unusable`.

        On cancel the entry is complete or absent, and nothing writes any more when CancelledError is raised.
        """

    def end(self, swap: SwapEntry) -> None:
        """Remove the entry: the swap ended, successfully or not. Raises nothing."""

    def unfinished(self) -> list[SwapEntry]:
        """The swaps that an earlier run of Stoker began and did not end."""


class Clock(Protocol):
    """Monotonic seconds, and wall time."""

    def now(self) -> float: ...

    def wall(self) -> float: ...
