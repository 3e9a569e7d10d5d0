"""Finding what an earlier control plane left running, and telling what is still ours and still right."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path

from stoker.domain.serve import Serve
from stoker.fleet import identity
from stoker.fleet.drivers import group
from stoker.fleet.fingerprint import fingerprint
from stoker.fleet.held import Held, OnExit
from stoker.fleet.launcher import Launcher
from stoker.fleet.records import Record
from stoker.fleet.signing import Signer

_SWEEP_LIMIT = 5.0
_LOOK = 0.02


class Finder:
    """Judges records; the supervisor acts."""

    def __init__(self, launcher: Launcher, signer: Signer, log: logging.Logger) -> None:
        self._launcher = launcher
        self._signer = signer
        self._log = log

    def is_ours(self, record: Record) -> bool:
        """Whether the process with this number now is the one that was started then.

        A start that was never finished may have replaced its program meanwhile (a wrapper's `exec`), so only a proved
        one has to have the command line too.
        """
        if not record.mark or identity.start_mark(record.pid) != record.mark:
            return False
        return not record.ready or self._launcher.command(record.pid) == record.command

    def unfit(self, record: Record, serve: Serve | None) -> str:
        """Why the process cannot go on as it is; empty if its configuration is what it was."""
        if serve is None:
            return "it is not configured any more"
        if record.fingerprint != fingerprint(serve, self._signer):
            return "its configuration has changed"
        if not record.ready:
            return "its start was never finished"
        return ""

    def hold(self, record: Record, serve: Serve | None, on_exit: OnExit, now: float) -> Held:
        """A found process, as if it had been launched now."""
        known = serve if serve is not None else Serve(name=record.name, stop_grace=record.grace)
        log = Path(record.log)
        address = self._launcher.address(known, record)
        return Held(known, on_exit, address, now, record.started_at, record, log, _size(log))

    async def sweep(self, record: Record) -> None:
        """The leader is gone: end what it left in its group, by the mark of that start, so that no stranger is hit."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SWEEP_LIMIT):
                while left := [p for p in group.members(record.pid) if identity.carries_mark(p, record.nonce)]:
                    self._log.warning("serve %s left processes %s behind: they are killed", record.name, left)
                    for pid in left:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    await asyncio.sleep(_LOOK)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
