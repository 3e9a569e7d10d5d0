"""Reads the header of a GGUF file: metadata and tensor sizes, never the weights.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Time and memory are linear in the header's size,
which is bounded; counts are believed only as far as the file is long enough for them.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from stoker.domain.errors import UnreadableModel

HEADER_LIMIT = 256 * 2**20
MOST_KEYS, MOST_TENSORS = 65_536, 262_144
LONGEST_TEXT, LONGEST_LIST = 2**24, 4096
"""Longer lists (the vocabulary) are passed over."""
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
# Number: name, elements in a block, bytes of a block.
_TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
}  # fmt: skip


class TextCount(int):
    """Stands for a list of texts in a header: how many there are. The texts themselves are passed over."""


@dataclass(frozen=True, slots=True)
class Header:
    """One file's facts (lists up to LONGEST_LIST only) and tensors: name, bytes, elements, type's name."""

    facts: dict[str, object]
    tensors: tuple[tuple[str, int, int, str], ...]


class ByteReader(Protocol):
    """A file, here or elsewhere, that is read forward."""

    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, whence: int = 0, /) -> int: ...

    def tell(self) -> int: ...


def read_header_from(file: ByteReader, name: str, size: int) -> Header:
    """The header of a file of `size` bytes, from its beginning on. `name` is for errors. Raises UnreadableModel."""
    return _Reader(name, file, size).header()


def read_header(path: str) -> Header:
    """Raises UnreadableModel for anything but a whole GGUF header."""
    try:
        with open(path, "rb") as file:
            return read_header_from(file, path, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise UnreadableModel(
            f"{path} cannot be read ({error.strerror}): correct the path, or its permissions"
        ) from error


def trained_context(path: str) -> int | None:
    """The tokens that the model was trained for; None: unknown. Reads the first facts only: 0.1 ms for most files."""
    try:
        with open(path, "rb") as file:
            facts: dict[str, object] = {}
            for name, value in _Reader(path, file, os.fstat(file.fileno()).st_size).first_facts():
                facts[name] = value
                found = whole(facts, f"{facts.get('general.architecture')}.context_length")
                if found is not None:
                    return found or None
    except (OSError, UnreadableModel):
        pass
    return None


def whole(facts: Mapping[str, object], *names: str) -> int | None:
    """The first of these that is a whole number of at least 0 and of a believable size; None: none is."""
    for name in names:
        value = facts.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**48:
            return value
    return None


class _Reader:
    def __init__(self, path: str, file: ByteReader, size: int) -> None:
        self._path = path
        self._file = file
        self._size = size
        self._left = min(size, HEADER_LIMIT)

    def header(self) -> Header:
        tensors, keys = self._counts()
        facts = dict(self._facts(keys))
        entries = [self._tensor() for _ in range(tensors)]
        return Header(facts, self._sized(entries, whole(facts, "general.alignment") or 32))

    def first_facts(self) -> Iterator[tuple[str, object]]:
        """Name and value of each fact, read one at a time."""
        _, keys = self._counts()
        yield from self._facts(keys)

    def _facts(self, keys: int) -> Iterator[tuple[str, object]]:
        for _ in range(keys):
            name = self._text(LONGEST_LIST)
            yield name, self._value(self._number("I"))

    def _counts(self) -> tuple[int, int]:
        """How many tensors and keys the header has."""
        if self._take(4) != b"GGUF":
            raise UnreadableModel(f"{self._path} is not a GGUF file: download it again, or name another one")
        version = self._number("I")
        if version not in (2, 3):
            raise self._broken(f"its version is {version}, but only 2 and 3 can be read")
        tensors, keys = self._number("Q"), self._number("Q")
        # The shortest tensor entry has 32 bytes, the shortest key 13.
        if keys > MOST_KEYS or tensors > MOST_TENSORS or 13 * keys + 32 * tensors > self._size:
            raise self._broken(f"it claims {tensors} tensors and {keys} keys")
        return tensors, keys

    def _tensor(self) -> tuple[str, int, int, int]:
        """Name, elements, type, offset."""
        name = self._text(LONGEST_LIST)
        dimensions = self._number("I")
        if dimensions > 8:
            raise self._broken(f"a tensor with {dimensions} dimensions")
        elements = 1
        for _ in range(dimensions):
            elements *= self._number("Q")
        kind, offset = self._number("I"), self._number("Q")
        if elements > 2**50 or offset > 2**50:
            raise self._broken("a tensor of impossible size")
        return name, elements, kind, offset

    def _sized(self, entries: list[tuple[str, int, int, int]], alignment: int) -> tuple[tuple[str, int, int, str], ...]:
        """Bytes by type; of a type that this does not know, up to the next tensor."""
        begin = self._file.tell()
        begin += -begin % max(1, alignment)
        offsets = sorted({offset for *_, offset in entries})
        following = dict(pairwise([*offsets, max(0, self._size - begin)]))
        sized = []
        for name, elements, kind, offset in entries:
            label, block, size = _TYPES.get(kind, (f"type {kind}", 0, 0))
            length = -(-elements // block) * size if block else max(0, following[offset] - offset)
            if begin + offset + length > self._size:
                raise UnreadableModel(
                    f"{self._path} is cut off (it has {self._size} bytes, and should have {begin + offset + length} or "
                    "more): download it again"
                )
            sized.append((name, length, elements, label))
        return tuple(sized)

    def _value(self, kind: int) -> object:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind == _TEXT:
            return self._text(LONGEST_TEXT)
        if kind != _LIST:
            raise self._broken(f"a value of type {kind}")
        inner, count = self._number("I"), self._number("Q")
        if inner == _TEXT:
            if 8 * count > self._left:
                raise self._too_long()
            self._skip_texts(count)
            return TextCount(count)  # how many is what matters of a vocabulary
        if inner not in _SCALARS:
            raise self._broken(f"a list of type {inner}")
        width = struct.calcsize(f"<{_SCALARS[inner]}")
        if count > LONGEST_LIST:
            self._skip(count * width)
            return count
        return list(struct.unpack(f"<{count}{_SCALARS[inner]}", self._take(count * width)))

    def _number(self, code: str) -> int:
        (value,) = struct.unpack(f"<{code}", self._take(struct.calcsize(f"<{code}")))
        return value  # type: ignore[no-any-return]

    def _text(self, longest: int) -> str:
        length = self._number("Q")
        if length > longest:
            raise self._broken(f"a text of {length} bytes")
        return self._take(length).decode("utf-8", "replace")

    def _skip(self, count: int) -> None:
        self._spend(count)
        self._file.seek(count, os.SEEK_CUR)

    def _skip_texts(self, count: int) -> None:
        """Passes over a list of texts: hundreds of thousands in a vocabulary, so the loop is written out."""
        read, seek, left = self._file.read, self._file.seek, self._left
        for _ in range(count):
            length = int.from_bytes(read(8), "little")
            left -= 8 + length
            if left < 0:
                break
            if length < 4096:
                read(length)
            else:
                seek(length, os.SEEK_CUR)
        self._spend(self._left - left)

    def _take(self, count: int) -> bytes:
        self._spend(count)
        data = self._file.read(count)
        if len(data) < count:
            raise self._too_long()
        return data

    def _spend(self, count: int) -> None:
        if count > self._left:
            raise self._too_long()
        self._left -= count

    def _too_long(self) -> UnreadableModel:
        """The header claims more bytes than are left of the file, or of what is read of a header."""
        is_cut = self._size <= HEADER_LIMIT
        return self._broken("it ends inside its header" if is_cut else "its header is longer than 256 MiB")

    def _broken(self, what: str) -> UnreadableModel:
        return UnreadableModel(f"{self._path} is broken ({what}): download it again")
