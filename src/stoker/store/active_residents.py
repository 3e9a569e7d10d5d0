"""The resident of each slot, remembered through a reboot: `STATE/active.json`."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import msgspec

from stoker.store.files import atomic

log = logging.getLogger("stoker.store")


class ActiveResidents:
    """The last resident of each slot that was proved ready: what starts again after a reboot.

    Written by rename and synced: through a power cut a reader finds the old list or the new one. Any thread may call.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = threading.Lock()

    def read(self) -> dict[str, str]:
        """Slot to serve. A file that cannot be read is put aside as `active.json.unreadable`, with a warning."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except OSError as error:
            log.warning("%s cannot be read (%s): nothing is resumed; check its owner", self._path, error.strerror)
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError):
            aside = self._path.with_name(f"{self._path.name}.unreadable")
            self._path.replace(aside)
            log.warning("%s is not a valid list: moved to %s, and nothing is resumed", self._path, aside)
            return {}

    def write(self, slot: str, serve: str | None) -> None:
        """Remember `serve` as the slot's resident; None: the slot is empty. Blocks for a sync of the disk. Raises
        OSError.
        """
        with self._writing:
            residents = self.read()
            before = dict(residents)
            if serve is None:
                residents.pop(slot, None)
            else:
                residents[slot] = serve
            if residents == before:
                return
            atomic.write(self._path, msgspec.json.format(msgspec.json.encode(residents), indent=1) + b"\n")
