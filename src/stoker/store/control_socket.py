"""Where `up` listens for commands: a unix socket, whose path the kernel keeps short."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
from pathlib import Path

from stoker.store.files import atomic
from stoker.store.files.directories import is_private_directory, unusable

LONGEST = 100
"""Bytes of a path that is bound. The kernel's `sun_path` has 108, 104 on some systems, with its final zero."""
_LISTENS = 0x10000
"""The flag of a socket in /proc/net/unix that accepts connections."""


def path_for(state: Path) -> Path:
    """The socket of the `up` that owns the directory `state`, whether it runs or not. Changes nothing.

    1. `stoker.sock` in the directory, if that path is short enough
    2. the path that the running `up` wrote down: its environment may differ from ours
    3. a short path derived from the directory's
    """
    plain = state / "stoker.sock"
    if len(os.fsencode(plain)) <= LONGEST:
        return plain  # 1
    try:
        return Path(os.fsdecode(_pointer(state).read_bytes()))  # 2
    except FileNotFoundError:
        return _short(state)  # 3


def bind(state: Path) -> tuple[socket.socket, Path]:
    """A listening socket, 0600, not blocking, and its path; removes one that a crash left there.

    Call it only while holding the directory's lock, which proves that the old socket is dead. Raises StokerError
    `state_unusable`.
    """
    where = state / "stoker.sock"
    if len(os.fsencode(where)) > LONGEST:
        where = _short(state)
        _make_private(where.parent)
        atomic.write(_pointer(state), os.fsencode(where))
    _remove_stale(where)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)  # 0600 from its first moment
    try:
        made.bind(os.fspath(where))
        made.listen(128)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise unusable(
            f"the socket {where} cannot be made ({error.strerror}): check who owns {where.parent}"
        ) from error
    finally:
        os.umask(mask)
    return made, where


def running_states() -> list[Path]:
    """The state directories of this user's `up`s that run, but for those with so long a path that the socket lies
    elsewhere. None where the system has no /proc/net/unix. Blocks.
    """
    found = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]:
            fields = line.split(maxsplit=7)  # number, references, protocol, flags, type, state, inode, path
            if len(fields) == 8 and int(fields[3], 16) & _LISTENS and fields[7].endswith("/stoker.sock"):
                with contextlib.suppress(OSError):
                    state = Path(fields[7]).parent
                    if (state / "lock").stat().st_uid == os.geteuid():
                        found.append(state)
    return found


def remove(state: Path, where: Path) -> None:
    """Take away what `bind` made; what is gone already is fine. Raises OSError."""
    where.unlink(missing_ok=True)
    if where.parent != state:
        _pointer(state).unlink(missing_ok=True)
        where.parent.rmdir()


def _pointer(state: Path) -> Path:
    return state / "stoker.sock.path"


def _short(state: Path) -> Path:
    mark = hashlib.sha256(os.fsencode(os.path.realpath(state))).hexdigest()[:16]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        where = Path(runtime, f"stoker-{mark}", "stoker.sock")
        if len(os.fsencode(where)) <= LONGEST and os.path.isdir(runtime):
            return where
    return Path(f"/tmp/stoker-{os.geteuid()}-{mark}/stoker.sock")


def _make_private(directory: Path) -> None:
    """In /tmp anyone may have been here first, with a link or with a directory of their own."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        is_ours = is_private_directory(directory)
    except OSError as error:
        raise unusable(
            f"the directory {directory} for the socket cannot be created ({error.strerror}): "
            "set XDG_RUNTIME_DIR to a directory that you own"
        ) from error
    if not is_ours:
        raise unusable(
            f"{directory} is not a private directory of this user: remove it, or set XDG_RUNTIME_DIR to one of yours"
        )


def _remove_stale(where: Path) -> None:
    try:
        if not stat.S_ISSOCK(os.lstat(where).st_mode):
            raise unusable(f"{where} is not a socket, so it is left alone: move it away and start again")
        where.unlink()
    except FileNotFoundError:
        pass  # the usual case: the last `up` cleaned up
    except OSError as error:
        raise unusable(f"the stale socket {where} cannot be removed ({error.strerror}): remove it yourself") from error
