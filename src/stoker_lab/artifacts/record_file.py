"""A header and its records, in JSON lines: written line by line during a measurement, which can be continued.

What cannot be read was not measured: a line that was torn, or that another version wrote, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

H = TypeVar("H")
R = TypeVar("R")
T = TypeVar("T")
MAX_BYTES = 4 * 2**20


def line(record: msgspec.Struct) -> bytes:
    """A header or a record, with the end of its line."""
    return msgspec.json.encode(record) + b"\n"


@contextmanager
def writer(path: Path, header: msgspec.Struct, is_continued: bool) -> Iterator[Callable[[msgspec.Struct], None]]:
    """Writes each record at once. `is_continued`: to what is there; else to a new file. Raises OSError."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("ab" if is_continued else "wb") as file:
        file.write(b"\n" if is_continued else line(header))  # a torn line ends here

        def write(record: msgspec.Struct) -> None:
            file.write(line(record))
            file.flush()

        yield write


def load(path: Path, header: type[H], record: type[R]) -> tuple[H | None, list[R]]:
    """Never raises. A header of None: there is no file, or it is not such a one."""
    try:
        with path.open("rb") as file:
            return parse(file.read(MAX_BYTES), header, record)
    except OSError:
        return None, []


def parse(body: bytes, header: type[H], record: type[R]) -> tuple[H | None, list[R]]:
    """As `load`."""
    first, *lines = body.split(b"\n")
    head = _decoded(first, header)
    if head is None:
        return None, []
    return head, [one for line in lines if (one := _decoded(line, record)) is not None]


def _decoded(data: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
