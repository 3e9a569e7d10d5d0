"""What every driver gives: how a serve is started, found again, watched and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stoker.domain.lease import Target
from stoker.domain.serve import Serve
from stoker.fleet.process.start_records import StartRecord


@dataclass(frozen=True, slots=True)
class Launched:
    """Something was just started; nobody watches it yet."""

    record: StartRecord
    address: Target
    log: Path | None
    """None: what it says is kept somewhere else, and the driver's `said` fetches it."""
    log_start: int = 0


class Unit(Protocol):
    """One started thing, a process group, a container or a systemd unit, that we watch and can end.

    `on_exit(code)` (given to the driver's `hold`) is called once when it ends, asked for or not; whoever hears it
    calls `begin_end`. `on_gone()` is called once, when nothing of it is left.
    """

    @property
    def pid(self) -> int | None:
        """Its leader on this machine; None: not known. Memory is measured by it."""

    @property
    def code(self) -> int | None:
        """How it ended; None: it runs, or it cannot be told."""

    async def end(self, grace: float) -> None:
        """Ask it to end, `grace` seconds, then force; returns when nothing is left. A second call joins the first.

        On cancel it goes on, and CancelledError leaves this call when everything is gone.
        """

    def begin_end(self, grace: float) -> asyncio.Task[None] | None:
        """As `end`, without waiting for it. None: it is gone already."""

    def release(self) -> None:
        """Stop watching it; it runs on."""


class UnitDriver(Protocol):
    """How serves of one kind are run. Remembers nothing but what `StartRecord` holds."""

    async def examine(self, serve: Serve) -> list[str]:
        """What stands in the way of a start, one sentence each, with the next step. Changes nothing."""

    async def launch(
        self, serve: Serve, taken: Container[int], started_at: float, intend: Callable[[StartRecord], None]
    ) -> Launched:
        """Start it. `intend(record)` is called before anything exists: a crash in between leaves something to look for.

        Raises StartFailed; nothing runs then. On cancel: whatever was started is ended before CancelledError leaves.
        """

    def hold(self, record: StartRecord, on_exit: Callable[[int | None], None], on_gone: Callable[[], None]) -> Unit:
        """Watch what `record` is about. Raises ProcessLookupError if it is gone already."""

    async def find(self, record: StartRecord) -> StartRecord | None:
        """The record, completed, if what it is about exists and is ours; None if not. Ends what an interrupted
        launch left half made."""

    async def recent_output(self, record: StartRecord) -> str:
        """The last of what it wrote, for drivers without a log file of ours; empty if that cannot be had."""
