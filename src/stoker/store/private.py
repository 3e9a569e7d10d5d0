"""Files and directories that no other user may read or change."""

from __future__ import annotations

import os
import secrets
import shlex
import stat
from pathlib import Path

from stoker.domain.errors import StokerError


def unusable(message: str) -> StokerError:
    """What is found on disk cannot be worked with; `message` says what to type."""
    return StokerError(message, code="state_unusable")


def make_directory(path: Path, other: str) -> None:
    """Create `path` 0700, or accept it as it is if only this user can write into it, and nobody else chose where it is.

    `other` completes "or ..." in the message: how to use another place. Raises StokerError `state_unusable`.
    """
    path = Path(os.path.abspath(path))
    try:
        for place in (path, *path.parents):
            if place.is_symlink() and (owner := os.lstat(place).st_uid) not in (0, os.geteuid()):
                text = f"{place} is a link that user {owner} made: remove it, or {other}"
                raise unusable(f"the directory {path} cannot be used: {text}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        found = os.stat(path)
    except OSError as error:
        raise unusable(
            f"the directory {path} cannot be created ({error.strerror}): make it yourself, or {other}"
        ) from error
    if found.st_uid != os.geteuid():
        raise unusable(
            f"the directory {path} belongs to user {found.st_uid}, Stoker runs as {os.geteuid()}: "
            f"run it as that user, or {other}"
        )
    if found.st_mode & 0o022:
        raise unusable(
            f"the directory {path} can be written by other users: "
            f"type `chmod go-w {shlex.quote(str(path))}` and start again"
        )


def is_private_directory(path: Path) -> bool:
    """A real directory (no link) of this user that nobody else can even look into."""
    found = os.lstat(path)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def write_draft(path: Path, content: bytes) -> Path:
    """Write a new 0600 file beside `path`, complete and synced, to be renamed or linked there. Raises OSError."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(6)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


def replace(path: Path, content: bytes) -> None:
    """By rename and synced: a reader, or a power cut, finds the old one or the new one. Blocks. Raises OSError, and the
    old one stays then.
    """
    draft = write_draft(path, content)
    try:
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(directory: Path) -> None:
    """What was renamed in it survives a power cut."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
