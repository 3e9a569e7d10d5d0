"""Swaps under way: `STATE/swaps/SLOT.json`, there from before the first victim is touched until the swap has ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from urllib.parse import quote

import msgspec

from stoker.domain.errors import StokerError
from stoker.domain.protocols import SwapEntry
from stoker.store.files import atomic
from stoker.store.files.remedies import remedy

log = logging.getLogger("stoker.store")


class SwapJournal:
    """Implements `domain.protocols.Journal`.

    Written by rename and synced: through a crash or a power cut a reader finds the whole entry, or none.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def begin(self, entry: SwapEntry) -> None:
        writing = asyncio.get_running_loop().run_in_executor(None, self._write, entry)
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing])
            raise
        except OSError as error:
            text = f"the swap to '{entry.target}' was not begun: {self._directory} cannot be written ({error.strerror})"
            raise StokerError(f"{text}: {remedy(error, self._directory)}", code="state_unusable", status=503) from error

    def end(self, entry: SwapEntry) -> None:
        """Unless a later swap of the same slot has taken its place. What cannot be deleted is logged."""
        path = self._path(entry.slot)
        try:
            if self._read(path) == entry:
                path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be deleted (%s): check the owner of its directory", path, error.strerror)

    def unfinished(self) -> list[SwapEntry]:
        """What was begun and never ended. One that cannot be read is logged and deleted."""
        found = []
        for path in sorted(self._directory.glob("*.json")):
            entry = self._read(path)
            if entry is not None:
                found.append(entry)
                continue
            log.warning("%s is not a valid entry: deleted; its swap is not recovered", path)
            with contextlib.suppress(OSError):
                path.unlink()
        return found

    def _write(self, entry: SwapEntry) -> None:
        atomic.write(self._path(entry.slot), msgspec.json.encode(entry), make_parents=True)

    def _read(self, path: Path) -> SwapEntry | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=SwapEntry)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _path(self, slot: str) -> Path:
        return self._directory / f"{quote(slot, safe='~')}.json"
