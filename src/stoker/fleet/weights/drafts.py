"""What a fetch leaves on disk before it is done. Everything here blocks: call it in a thread, or for a few files."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from stoker.fleet.weights import copying
from stoker.fleet.weights.copying import SourceUnreadable


def draft_of(target: Path) -> Path:
    return target.with_name(f".{target.name}.part")


def discard(draft: Path) -> None:
    """Remove everything that an attempt left, including a tool's own temporary files beside the draft."""
    for path in _pieces(draft):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
            continue
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _pieces(draft: Path) -> list[Path]:
    try:
        names = os.listdir(draft.parent)
    except OSError:
        return []
    return [draft.parent / name for name in names if name == draft.name or name.startswith(f"{draft.name}.")]


def copy(source: Path, draft: Path, on_progress: Callable[[int], None], stop: threading.Event) -> str:
    """A file, or a folder with all that is in it; a file's digest, empty for a folder. Raises as `copying.copy`."""
    if not source.is_dir():
        return copying.copy(source, draft, stop, on_progress)
    discard(draft)  # of a folder nothing is gone on with
    try:
        files = [path for path in sorted(source.rglob("*")) if path.is_file()]
    except OSError as error:
        raise SourceUnreadable(f"{source}: {error.strerror}") from error
    done = 0
    draft.mkdir()
    for file in files:
        target = draft / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            copying.copy(file, target, stop, partial(_add, on_progress, done))
        except SourceUnreadable:
            discard(draft)
            raise
        copying.note_of(target).unlink(missing_ok=True)
        done += target.stat().st_size
    return ""


def take(draft: Path, brought: Path, stop: threading.Event) -> str:
    """What a tool brought becomes the draft; a file's digest, empty for a folder. Raises FileNotFoundError."""
    if brought != draft:
        brought.rename(draft)
        shutil.rmtree(draft.with_name(f"{draft.name}.d"), ignore_errors=True)
    if draft.is_dir():
        shutil.rmtree(draft / ".cache", ignore_errors=True)  # the hub client's own notes
        return ""
    return copying.hash_file(draft, stop)


def _add(on_progress: Callable[[int], None], before: int, done: int) -> None:
    on_progress(before + done)


def bytes_of(path: Path) -> int:
    """Of a file, or of all that is in a folder. Raises OSError if it is not there."""
    if path.is_dir():
        return sum(_size(file) for file in path.rglob("*"))
    return path.stat().st_size


def bytes_so_far(draft: Path) -> int:
    found = 0
    for path in _pieces(draft):
        with contextlib.suppress(OSError):  # it is gone
            found += bytes_of(path)
    return found


def _size(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:  # it is gone
        return 0


def existing(directory: Path) -> Path:
    """The directory, or the nearest above it that is there."""
    return directory if directory.exists() or directory == directory.parent else existing(directory.parent)
