"""Several files at once: all of them change, or none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from stoker.store.files import atomic


@contextlib.contextmanager
def changed_files(changes: Mapping[Path, str | None], mode: int = 0o644) -> Iterator[None]:
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
                drafts[path] = atomic.write_draft(path, text.encode(), mode)
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


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _restore(path: Path, content: bytes | None, mode: int) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        atomic.write(path, content, mode)
