"""The protocols of drivers: how a serve is started, found again, watched and ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stoker.domain.access import Paths
from stoker.domain.cluster import Cluster
from stoker.domain.errors import StokerError
from stoker.domain.lease import Target
from stoker.domain.serve import Serve
from stoker.fleet.process.keys import Keys
from stoker.fleet.process.start_records import StartRecord


@dataclass(frozen=True, slots=True)
class Launched:
    """A unit that was just started; nothing watches it yet."""

    record: StartRecord
    address: Target
    log: Path | None
    """None: its output is kept elsewhere, and the driver's `recent_output` fetches it."""
    log_start: int = 0


@dataclass(frozen=True, slots=True)
class DriverContext:
    """What the driver of an extension is made with."""

    paths: Paths
    keys: Keys
    log: logging.Logger
    cluster_of: Callable[[str], Cluster | None]
    """The cluster of that name, as configured now; None: no cluster has that name."""


class NotGone(StokerError):
    """What was started may still run somewhere else, and its place stays used until it is known to be gone."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="still_used", status=503)


class Unit(Protocol):
    """One started process group, container or systemd unit that is watched and can be ended.

    `on_exit(code)` (given to the driver's `attach`) is called once when it ends, requested or not; it has to call
    `begin_end`. `on_gone()` is called once, when nothing of it is left.
    """

    @property
    def pid(self) -> int | None:
        """The leader's process number on this machine, which is used to measure memory; None if unknown."""

    @property
    def code(self) -> int | None:
        """The exit code; None if it runs, or the code is unknown."""

    @property
    def ended_how(self) -> str:
        """How it ended, if that is more than its code says: the rest of a sentence. Usually empty."""

    def on_ready(self) -> None:
        """It was proved ready: from now on it has to answer."""

    async def end(self, grace: float) -> None:
        """Ask it to end, wait `grace` seconds, then force it; returns when nothing is left.

        A second call joins the first. On cancel it goes on, and CancelledError leaves this call when everything is
        gone. Raises `NotGone` if it may be a while until that is known; the end goes on, and `on_gone` tells of it.
        """

    def begin_end(self, grace: float) -> asyncio.Task[None] | None:
        """As `end`, without waiting for it. None: it is gone already."""

    def release(self) -> None:
        """Stop watching it; it runs on."""


class UnitDriver(Protocol):
    """How serves of one kind are run. Its only memory is `StartRecord`."""

    async def start_problems(self, serve: Serve) -> list[str]:
        """What prevents a start, one sentence each, with the next step. Changes nothing."""

    async def launch(
        self, serve: Serve, taken: Container[int], started_at: float, intend: Callable[[StartRecord], None]
    ) -> Launched:
        """Start it. `intend(record)` is called before anything exists, so that a crash in between leaves a trace.

        Raises StartFailed; nothing runs then. On cancel: whatever was started has ended before CancelledError leaves.
        """

    def attach(self, record: StartRecord, on_exit: Callable[[int | None], None], on_gone: Callable[[], None]) -> Unit:
        """Watches the unit of `record`. Raises ProcessLookupError if it is already gone."""

    async def find(self, record: StartRecord) -> StartRecord | None:
        """The completed record; None if its unit does not exist or is not Stoker's. Ends an interrupted launch."""

    async def recent_output(self, record: StartRecord) -> str:
        """The end of its output, for drivers without a log file; empty if it cannot be read."""
