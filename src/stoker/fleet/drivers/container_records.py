"""How each container was made, on disk: `STATE/containers/NAME.json`, one small file per container, 0600."""

from __future__ import annotations

from pathlib import Path

import msgspec

from stoker.fleet.drivers.containers import ContainerRecord
from stoker.store.files import atomic


class ContainerRecords:
    """Written by rename: a reader sees the old one or the new one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, container: str) -> ContainerRecord | None:
        """None: no record of a container of this name, or an unreadable one."""
        try:
            return msgspec.json.decode(self._path(container).read_bytes(), type=ContainerRecord)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, container: str, made: ContainerRecord) -> None:
        """Raises OSError. Not synced to disk: after a power cut the container may count as unknown."""
        atomic.write(self._path(container), msgspec.json.encode(made), is_synced=False, make_parents=True)

    def _path(self, container: str) -> Path:
        """Names of Docker are safe file names: letters, digits, `_`, `.` and `-`, the first not a `.`."""
        return self._directory / f"{container}.json"
