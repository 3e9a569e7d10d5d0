"""What an earlier control plane left running: is it still right, and how is it held from now on?"""

from __future__ import annotations

from pathlib import Path

from stoker.domain.serve import Serve
from stoker.fleet.process.keys import Keys
from stoker.fleet.process.start_records import StartRecord
from stoker.fleet.supervision.managed_serve import ManagedServe, OnExit


class AdoptionJudge:
    """Judges records; the supervisor acts."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def unfit(self, record: StartRecord, serve: Serve | None) -> str:
        """Why what runs cannot go on as it is; empty if its configuration is what it was."""
        if serve is None:
            return "it is not configured any more"
        if record.fingerprint != self._keys.fingerprint(serve):
            return "its configuration has changed"
        if not record.ready:
            return "its start was never finished"
        if record.asleep:
            return "it was asleep"
        return ""

    def hold(self, record: StartRecord, serve: Serve | None, on_exit: OnExit, now: float) -> ManagedServe:
        """A found start, as if it had been launched now."""
        known = serve if serve is not None else Serve(name=record.name, stop_grace=record.grace)
        log = Path(record.log) if record.log else None
        address = self._keys.address(known, record)
        return ManagedServe(known, on_exit, address, now, record.started_at, record, log, _size(log))


def _size(path: Path | None) -> int:
    try:
        return path.stat().st_size if path is not None else 0
    except OSError:
        return 0
