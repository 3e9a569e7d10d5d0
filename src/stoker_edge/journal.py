"""The switch under way, on disk beside the upstream file, and the lock that keeps a second run out."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from stoker.store.files import atomic
from stoker_edge.problem import EdgeProblem


class SwitchEntry(msgspec.Struct, frozen=True):
    """A switch that began and is not known to have ended."""

    edge: str
    old: str | None
    """The text of the file before; None: there was none."""
    new: str
    host: str
    port: int
    mode: int = 0o644


class SwitchJournal:
    """`.NAME.stoker-switch` beside the upstream file. Whoever may write that file may finish its switch."""

    def __init__(self, edge: str, upstream_file: str) -> None:
        self._edge = edge
        self._path = Path(upstream_file).with_name(f".{Path(upstream_file).name}.stoker-switch")
        self._lock = self._path.with_suffix(".stoker-lock")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Never waits. Raises EdgeProblem: another run holds the lock, or it cannot be made. A crash leaves no lock."""
        try:
            handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unusable(self._lock, error) from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
                text = f"edge '{self._edge}': another route-sync is at work (process {holder}): wait for its end"
                raise EdgeProblem(text, code="sync_under_way") from None
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(handle)

    def read(self) -> SwitchEntry | None:
        """None: no switch was interrupted. Raises EdgeProblem for a journal that cannot be read."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=SwitchEntry)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(self._path, error) from error
        except msgspec.DecodeError as error:
            text = f"edge '{self._edge}': {self._path} is damaged: check the upstream file, then delete {self._path}"
            raise EdgeProblem(text, code="journal_damaged") from error

    def begin(self, entry: SwitchEntry) -> None:
        """Write the entry; it survives a power cut when this returns. Raises EdgeProblem."""
        try:
            atomic.write(self._path, msgspec.json.encode(entry))
        except OSError as error:
            raise self._unusable(self._path, error) from error

    def end(self) -> None:
        """Remove the entry. Raises EdgeProblem."""
        try:
            self._path.unlink(missing_ok=True)
            atomic.sync(self._path.parent)
        except OSError as error:
            raise self._unusable(self._path, error) from error

    def _unusable(self, path: Path, error: OSError) -> EdgeProblem:
        text = f"edge '{self._edge}': {path} cannot be used ({error.strerror}): run the command with `sudo`"
        return EdgeProblem(text, code="journal_unusable")
