"""What operators have paused, remembered through a restart: `STATE/paused.json`."""

from __future__ import annotations

import logging
from concurrent.futures import Executor
from pathlib import Path

import msgspec

from stoker.domain.pauses import OperatorPauses
from stoker.store.files import atomic

log = logging.getLogger("stoker.store")


class PausedSlots:
    """`writer` has one thread, so that the last word is the last written."""

    def __init__(self, path: Path, writer: Executor) -> None:
        self._path = path
        self._writer = writer

    def last(self) -> OperatorPauses:
        """A file that cannot be read is reported and counts as none: models that load are better than none that do."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=OperatorPauses)
        except FileNotFoundError:
            return OperatorPauses()
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("%s cannot be read, so no slot is paused: %s", self._path, error)
            return OperatorPauses()

    def remember(self, pauses: OperatorPauses) -> None:
        """Returns at once; the disk is written on a thread."""
        self._writer.submit(self._write, pauses)

    def _write(self, pauses: OperatorPauses) -> None:
        try:
            if pauses == OperatorPauses():
                self._path.unlink(missing_ok=True)
            else:
                atomic.write(self._path, msgspec.json.format(msgspec.json.encode(pauses), indent=1) + b"\n")
        except OSError as error:
            log.warning("paused slots cannot be saved, so a restart of Stoker forgets the pause: %s", error)
