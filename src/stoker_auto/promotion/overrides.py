"""Promotions, remembered through a restart: `STATE/overrides.json`."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import msgspec

from stoker.domain.gate import Override
from stoker.store.files import atomic

log = logging.getLogger("stoker.store")


class Overrides:
    """Written by rename and synced: through a power cut a reader finds the old list or the new one. Any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = threading.Lock()

    def read(self) -> dict[str, Override]:
        """By alias. A file that cannot be read is put aside as `overrides.json.unreadable`, with a warning."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=list[Override])
        except FileNotFoundError:
            return {}
        except OSError as error:
            log.warning("%s cannot be read (%s): aliases are as configured", self._path, error.strerror)
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError):
            aside = self._path.with_name(f"{self._path.name}.unreadable")
            self._path.replace(aside)
            log.warning("%s is not valid: moved to %s, and aliases are as configured", self._path, aside)
            return {}
        return {override.alias: override for override in found}

    def write(self, overrides: dict[str, Override]) -> None:
        """All of them. Blocks for a sync of the disk. Raises OSError, and the old list stays then."""
        with self._writing:
            body = msgspec.json.format(msgspec.json.encode(list(overrides.values())), indent=1) + b"\n"
            atomic.write(self._path, body)
