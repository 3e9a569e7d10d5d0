"""Directories that no other user may read or change."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from stoker.domain.errors import StokerError
from stoker.store.files.remedies import remedy


def unusable(message: str) -> StokerError:
    """The error for state on disk that Stoker cannot use. `message` says what to type."""
    return StokerError(message, code="state_unusable")


def make_directory(path: Path, other: str) -> None:
    """Create `path` with mode 0700. Accept an existing one if only this user can write to it and no link of another
    user leads there.

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
        place = next((one for one in path.parents if os.path.isdir(one)), path.parent)  # `is_dir` raises
        advice = remedy(error, place)
        raise unusable(f"the directory {path} cannot be created ({error.strerror}): {advice}, or {other}") from error
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
    """Whether `path` is a directory of this user, not a link, that no other user can list."""
    found = os.lstat(path)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
