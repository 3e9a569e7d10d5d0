"""The file of learned weights: one line of text, then compressed data. Pure.

    stoker weights 1 DIGEST      the digest is that of the prompts that the weights were learned from
    HEAD, NAMES, ROWS            compressed

HEAD is a line of JSON: the classes, the number of names in each table, the size of NAMES in bytes. NAMES has one name a
line, table after table. ROWS has one byte per class and name: the weight plus 128. All weights of one class are
adjacent: they compress better, and the row of one name is a slice with a stride.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

_MAGIC = b"stoker weights 1 "


class Table(NamedTuple):
    """`rows`: the weights of the first class by name, then those of the second, and so on."""

    names: tuple[str, ...]
    rows: bytes

    def row(self, place: int) -> bytes:
        """One byte per class: the weight plus 128."""
        return self.rows[place :: len(self.names)]


class Packed(NamedTuple):
    learned_from: str
    """Digest of the prompts."""
    classes: tuple[str, ...]
    tables: dict[str, Table]


class _Head(msgspec.Struct):
    classes: list[str]
    tables: dict[str, int]
    names: int


def table(rows: Mapping[str, bytes], classes: int) -> Table:
    """A table from one row per name. Raises ValueError for a row of another length, and for an empty name or a line
    break in a name.
    """
    names = tuple(rows)
    for name, row in rows.items():
        if len(row) != classes:
            raise ValueError(f"{len(row)} weights of '{name}' for {classes} classes")
        if not name or "\n" in name:
            raise ValueError(f"no name, or a line break in it: {name!r}")
    return Table(names, b"".join(bytes(row[at] for row in rows.values()) for at in range(classes)))


def pack(learned_from: str, classes: Sequence[str], tables: Mapping[str, Table]) -> bytes:
    names = "\n".join(name for one in tables.values() for name in one.names).encode()
    head = _Head(list(classes), {name: len(one.names) for name, one in tables.items()}, len(names))
    body = [msgspec.json.encode(head), b"\n", names, *(one.rows for one in tables.values())]
    return _MAGIC + learned_from.encode() + b"\n" + zlib.compress(b"".join(body), 9)


def unpack(body: bytes) -> Packed:
    """Raises ValueError for anything that `pack` did not write."""
    line, _, rest = body.partition(b"\n")
    if not line.startswith(_MAGIC):
        raise ValueError("not a file of weights")
    try:
        first, _, rest = zlib.decompress(rest).partition(b"\n")
        head = msgspec.json.decode(first, type=_Head)
        names = rest[: head.names].decode().split("\n") if head.names else []
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"a broken file of weights: {error}") from error
    if len(names) != sum(head.tables.values()) or len(rest) != head.names + len(names) * len(head.classes):
        raise ValueError("a file of weights that is cut off")
    tables: dict[str, Table] = {}
    name_at, row_at = 0, head.names
    for name, count in head.tables.items():
        size = count * len(head.classes)
        tables[name] = Table(tuple(names[name_at : name_at + count]), rest[row_at : row_at + size])
        name_at, row_at = name_at + count, row_at + size
    return Packed(line[len(_MAGIC) :].decode(), tuple(head.classes), tables)
