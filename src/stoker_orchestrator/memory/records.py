"""A Markdown file that only grows, one record at a time.

A record is a comment with JSON, which names the length of the text below it. Because the length counts, no text can
look like a record, and a record that a crash cut off is recognised and left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

_BEGIN = b"<!-- stoker: "
_END = b" -->\n"
_MAX_HEADER = 64 * 1024


class MarkdownRecord(NamedTuple):
    facts: dict[str, Any]
    """What programs read."""
    text: str
    """What people read."""


def encode(facts: dict[str, Any], text: str) -> bytes:
    """One record in bytes."""
    body = text.encode("utf-8", "replace")
    # In JSON, "-->" may only stand within a string: there it is escaped, so that it does not end the comment.
    header = msgspec.json.encode({**facts, "bytes": len(body)}).replace(b"-->", b"--\\u003e")
    return _BEGIN + header + _END + body


def decode(data: bytes) -> Iterator[MarkdownRecord]:
    """The whole records, from the first one. Linear; raises nothing."""
    at = 0
    while data.startswith(_BEGIN, at):
        end = data.find(_END, at, at + _MAX_HEADER)
        if end < 0:
            return
        try:
            facts = msgspec.json.decode(data[at + len(_BEGIN) : end])
            size = int(facts.pop("bytes"))
        except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return
        start = end + len(_END)
        if size < 0 or start + size > len(data):
            return
        yield MarkdownRecord(facts, data[start : start + size].decode("utf-8", "replace"))
        at = start + size


def whole_length(data: bytes) -> int:
    """Bytes up to the end of the last whole record."""
    return sum(len(encode(facts, text)) for facts, text in decode(data))


def append(path: Path, facts: dict[str, Any], text: str, *, is_synced: bool = True) -> None:
    """Add one record, in one write. The file is made with mode 0600. `is_synced`: it survives a power cut when this
    returns. Blocks. Raises OSError: also for a link in the file's place.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o600)
    try:
        data = encode(facts, text)
        written = os.write(handle, data)
        if written != len(data):
            os.ftruncate(handle, os.fstat(handle).st_size - written)
            raise OSError(28, "no space for a whole record", str(path))
        if is_synced:
            getattr(os, "fdatasync", os.fsync)(handle)  # macOS has only the other
    finally:
        os.close(handle)


def read(path: Path, limit: int = 64 * 2**20) -> list[MarkdownRecord]:
    """The whole records of a file of at most `limit` bytes. Blocks. Raises OSError."""
    with path.open("rb") as file:
        return list(decode(file.read(limit)))


def read_new(path: Path, offset: int, limit: int = 16 * 2**20) -> tuple[list[MarkdownRecord], int]:
    """The whole records from `offset` on, which has to be the end of a record, and the offset after them; at most
    `limit` bytes. Blocks. Raises OSError.
    """
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(limit)
    return list(decode(data)), offset + whole_length(data)


def repair(path: Path, limit: int = 64 * 2**20) -> bool:
    """Cut off what a crash left behind the last whole record, so that more can be added. True: something was cut off.
    Blocks. Raises OSError.
    """
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        with os.fdopen(os.dup(handle), "rb") as file:
            data = file.read(limit)
        length = whole_length(data)
        if length == len(data):
            return False
        os.ftruncate(handle, length)
        os.fsync(handle)
        return True
    finally:
        os.close(handle)
