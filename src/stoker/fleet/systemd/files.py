"""Several files at once: all of them change, or none."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path


@contextlib.contextmanager
def changed(changes: Mapping[Path, str | None], mode: int = 0o644) -> Iterator[None]:
    """Write these texts (None: delete the file) and keep them, unless the body raises: then all is as it was before.

    Everything is written beside its place first, then renamed. Raises OSError; nothing has changed then. Directories
    that were made for it stay.
    """
    before = {path: _read(path) for path in changes}
    drafts: dict[Path, Path] = {}
    done: list[Path] = []
    try:
        for path, text in changes.items():
            if text is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                drafts[path] = draft(path, text.encode(), mode)
        for path in changes:
            if path in drafts:
                drafts[path].replace(path)
                del drafts[path]
            else:
                path.unlink(missing_ok=True)
            done.append(path)
        yield
    except BaseException:
        for path in drafts.values():
            path.unlink(missing_ok=True)
        for path in reversed(done):
            _restore(path, before[path], mode)
        raise


def replace(path: Path, content: bytes, mode: int) -> None:
    """Write one file so that a reader sees the old one or the new one. Raises OSError."""
    made = draft(path, content, mode)
    try:
        made.replace(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def draft(path: Path, content: bytes, mode: int) -> Path:
    """A new file beside `path`, complete and synced. systemd takes no notice of it. Raises OSError."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)  # whatever the umask
            file.write(content)
            file.flush()
            os.fsync(handle)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    return made


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _restore(path: Path, content: bytes | None, mode: int) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        replace(path, content, mode)
