"""The state directory of one control plane, and the lock that keeps a second one out."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
from pathlib import Path

from stoker.domain.errors import ClientError, OurBug
from stoker.store import control_socket, signing_key
from stoker.store.files.directories import make_directory, unusable
from stoker.store.files.remedies import remedy

_log = logging.getLogger(__name__)
IN_FILE = "choose another one with `state` under [paths]"
WITHOUT_FILE = "choose another one with the environment variable XDG_STATE_HOME"
"""How to use another state directory; the demo has no configuration file."""


class StateDir:
    """The paths in a state directory, and its lock.

    Constructing one changes nothing, so that any command may ask where the socket is; `lock` makes the directory.
    Errors are StokerErrors that say what to type. A crash leaves no lock: the kernel drops it with the process.
    """

    def __init__(self, path: Path, elsewhere: str = IN_FILE, configuration: str = "") -> None:
        """`elsewhere`: how to use another directory, for messages. `configuration`: the file that the lock names."""
        self._elsewhere = elsewhere
        self._configuration = configuration
        self.path = path.absolute()
        self._lock: int | None = None
        self._socket: Path | None = None

    @property
    def decisions_path(self) -> Path:
        return self.path / "decisions.db"

    @property
    def serves_path(self) -> Path:
        """The directory for the records of what runs; the fleet makes it."""
        return self.path / "serves"

    @property
    def socket_path(self) -> Path:
        """Where the `up` of this directory listens for commands, whether it runs or not."""
        return control_socket.path_for(self.path)

    @property
    def running_configuration(self) -> str:
        """The configuration file of the Stoker that has the lock; empty: unknown."""
        try:
            content = (self.path / "lock").read_bytes()
        except OSError:
            return ""
        return os.fsdecode(content).partition("\n")[2].removesuffix("\n")

    @property
    def note(self) -> str | None:
        """A sentence for the start-up message, if the socket is elsewhere."""
        where = self.socket_path
        if where.parent == self.path:
            return None
        return f"the path of {self.path} is too long for a socket: commands are answered on {where}"

    def prepare(self) -> None:
        """Create the directory 0700. StokerError `state_unusable` if others own it or can write into it."""
        make_directory(self.path, self._elsewhere)

    def lock(self) -> None:
        """Prepare the directory and lock it. Never waits: ClientError `state_locked` names the owner."""
        if self._lock is not None:
            raise OurBug(f"{self.path} is locked already, by this very object")
        self.prepare()
        while self._lock is None:
            self._lock = self._try_lock(self.path / "lock")

    def close(self) -> None:
        """Remove the socket that was bound and give up the lock. Without the lock: nothing."""
        if self._lock is None:
            return
        handle, self._lock = self._lock, None
        where, self._socket = self._socket, None
        try:
            if where is not None:
                control_socket.remove(self.path, where)
        except OSError as error:
            _log.warning("the socket of %s could not be removed, the next start will: %s", self.path, error)
        finally:
            os.ftruncate(handle, 0)  # the file itself stays: another process may have it open already, to lock it
            os.close(handle)

    def bind_socket(self) -> socket.socket:
        """A listening, non-blocking unix socket, 0600, at `socket_path`; a stale one is removed. Needs the lock."""
        if self._lock is None:
            raise OurBug(f"a socket in {self.path} may be replaced only while its lock is held")
        made, self._socket = control_socket.bind(self.path)
        return made

    def keep_socket(self) -> None:
        """The control socket belongs to another process as well: `close` does not remove it."""
        self._socket = None

    def own_socket(self) -> None:
        """The control socket came from another process: `close` removes it. Needs the lock."""
        if self._lock is None:
            raise OurBug(f"a socket in {self.path} may be owned only while its lock is held")
        self._socket = self.socket_path

    def signing_key(self) -> bytes:
        """The 32 bytes of `signing.key`, made at first use. StokerError `state_unusable` if it was tampered with."""
        self.prepare()
        return signing_key.read_or_make(self.path / "signing.key")

    def earlier_signing_key(self) -> bytes | None:
        """The key before that one, if it was rotated: moved to `signing.key.previous`. StokerError as above."""
        path = self.path / "signing.key.previous"
        return signing_key.read_or_make(path) if path.exists() else None

    def _try_lock(self, path: Path) -> int | None:
        """The locked handle, or None if the file was deleted while it was being locked: try again."""
        try:
            # Not inheritable: an engine that outlives Stoker must not hold the lock.
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unusable(
                f"{path} cannot be opened ({error.strerror}): {remedy(error, self.path)}, or {self._elsewhere}"
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _leads_to(path, handle):
                os.close(handle)
                return None
            os.ftruncate(handle, 0)
            named = f"{self._configuration}\n" if self._configuration else ""
            os.pwrite(handle, f"{os.getpid()}\n".encode() + os.fsencode(named), 0)
        except BlockingIOError as error:
            holder = os.pread(handle, 32, 0)
            os.close(handle)
            raise self._held(holder) from error
        except OSError as error:
            os.close(handle)
            raise unusable(
                f"{path} cannot be locked ({error.strerror}): {remedy(error, self.path)}, or {self._elsewhere}"
            ) from error
        return handle

    def _held(self, content: bytes) -> ClientError:
        pid = content.decode("ascii", "replace").partition("\n")[0]
        if pid.isdigit():
            message = (
                f"the state directory {self.path} is in use by another Stoker (process {pid}): look at it with "
                f"`stoker slot status`, end it with `kill {pid}`, or {self._elsewhere}"
            )
        else:
            message = (
                f"the state directory {self.path} is being locked or unlocked by another Stoker: "
                f"look at it with `stoker slot status`, try again, or {self._elsewhere}"
            )
        return ClientError(message, code="state_locked", status=409)


def _leads_to(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False
