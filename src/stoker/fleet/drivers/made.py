"""What our containers were made from, on disk: `STATE/containers/NAME.json`, one small file per container, 0600."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

from stoker.fleet.drivers.containers import Made


class MadeFiles:
    """Written by rename: a reader sees the old one or the new one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, container: str) -> Made | None:
        """None: nothing is known of a container of this name, or what is there cannot be read."""
        try:
            return msgspec.json.decode(self._path(container).read_bytes(), type=Made)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, container: str, made: Made) -> None:
        """Raises OSError. Not synced to disk: after a power cut the container counts as not known."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(container)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.encode(made))
            draft.rename(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise

    def _path(self, container: str) -> Path:
        """Docker allows letters, digits, `_`, `.` and `-` in a name, and the first is no `.`: safe as a file name."""
        return self._directory / f"{container}.json"
