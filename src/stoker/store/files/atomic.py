"""Write a file so that a reader sees the old one or the new one, never half of it. Everything here blocks."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def write(
    path: Path,
    content: bytes,
    mode: int = 0o600,
    *,
    owner: tuple[int, int] | None = None,
    is_synced: bool = True,
    make_parents: bool = False,
    before_replace: Callable[[], None] | None = None,
) -> None:
    """Replace the file at `path`. `make_parents`: missing directories are made, with mode 0700.

    `owner`: its user and group; None: those of this process. `is_synced`: when this returns, the new file survives a
    power cut. `before_replace` is called when the new file is complete. Raises OSError, and what `before_replace`
    raises; the old file is unchanged then.
    """
    if make_parents:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = write_draft(path, content, mode, owner=owner, is_synced=is_synced)
    try:
        if before_replace is not None:
            before_replace()
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if is_synced:
        sync(path.parent)


def replace_text(path: Path, text: str) -> Path | None:
    """Write a file that people edit. What it held before, if that is lost otherwise, is kept beside it, in FILE.bak or
    the first of FILE.bak2, FILE.bak3 ... that is free; returns that file. Raises OSError; nothing is lost then.
    """
    content, kept = text.encode(), None
    if path.exists() and (before := path.read_bytes()) != content:
        free = (path.with_name(f"{path.name}.bak{number}") for number in ("", *map(str, range(2, 1000))))
        kept = next((backup for backup in free if not backup.exists()), None)
        if kept is None:
            raise FileExistsError(f"{path}.bak to {path}.bak999 exist: remove those that you do not need")
        write(kept, before, mode=path.stat().st_mode & 0o777)
    write(path, content, mode=0o644)
    return kept


def write_draft(
    path: Path, content: bytes, mode: int = 0o600, *, owner: tuple[int, int] | None = None, is_synced: bool = True
) -> Path:
    """Write a new hidden file beside `path`, complete, for the caller to rename or link there. Raises OSError."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            made = os.fstat(handle)
            if owner is not None and owner != (made.st_uid, made.st_gid):
                os.fchown(handle, *owner)
            os.fchmod(handle, mode)  # whatever the umask is
            file.write(content)
            file.flush()
            if is_synced:
                os.fsync(handle)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


def sync(path: Path) -> None:
    """Flush a file to disk, or a directory: then the files renamed in it survive a power cut. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
