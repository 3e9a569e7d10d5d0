"""Reads the header of a GGUF file: metadata and tensor sizes, never the weights.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Time and memory are linear in the header's size,
which is bounded; counts are believed only as far as the file is long enough for them.
"""

from __future__ import annotations

import os
import re
import struct
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

from stoker.fleet.memory.fit.shape import Layer, Shape, UnreadableModel, whole
from stoker.store.files.split_gguf import model_files

HEADER_LIMIT = 256 * 2**20
MOST_KEYS, MOST_TENSORS, MOST_PARTS = 65_536, 262_144, 1024
LONGEST_TEXT, LONGEST_LIST = 2**24, 4096
"""Longer lists (the vocabulary) are passed over."""
MOST_LAYERS = 4096
_LAYER = re.compile(r"^blk\.(\d{1,4})\.")
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
# One layer in so many has full attention, the others a sliding window; llama.cpp has this in its code.
_PERIOD = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4, "exaone4": 4, "llama4": 4, "olmo2": 4}


class TextCount(int):
    """Stands for a list of texts in a header: how many there are. The texts themselves are passed over."""


@dataclass(frozen=True, slots=True)
class Header:
    """One file's facts (lists up to LONGEST_LIST only) and tensors: name, bytes, elements, type's name."""

    facts: dict[str, object]
    tensors: tuple[tuple[str, int, int, str], ...]


def read(path: str) -> Shape:
    """The shape of a model from its header, parts included. Raises UnreadableModel."""
    headers = [read_header(part) for part in model_files(path)[:MOST_PARTS]]
    tensors = [tensor for header in headers for tensor in header.tensors]
    facts = headers[0].facts
    architecture = facts.get("general.architecture")
    weights_in_all = sum(size for _, size, _, _ in tensors)
    if not isinstance(architecture, str) or not weights_in_all:
        raise UnreadableModel(f"{path} has no weights of a language model in it: give the model's own file")
    prefix = f"{architecture}."
    own = {key.removeprefix(prefix): value for key, value in facts.items() if key.startswith(prefix)}
    count = whole(own, "block_count")
    if count is None or not 0 < count <= MOST_LAYERS:
        raise UnreadableModel(f"{path} does not say how many layers it has ({prefix}block_count): download it again")
    weights = [0] * count
    kinds: Counter[str] = Counter()
    for tensor, size, _, kind in tensors:
        kinds[kind] += size
        found = _LAYER.match(tensor)
        if found is not None and int(found[1]) < count:
            weights[int(found[1])] += size
    layers, notes = _layers(architecture, own, weights)
    name = facts.get("general.name")
    return Shape(
        name=name[:100] if isinstance(name, str) and name.isprintable() else os.path.basename(path),
        architecture=architecture[:40],
        format="gguf",
        precision=kinds.most_common(1)[0][0],
        weights=weights_in_all,
        layers=layers,
        parameters=sum(elements for _, _, elements, _ in tensors),
        embedding=sum(size for name, size, _, _ in tensors if name == "token_embd.weight"),
        context=whole(own, "context_length") or None,
        vocabulary=whole(own, "vocab_size") or whole(facts, "tokenizer.ggml.tokens"),
        width=whole(own, "embedding_length"),
        experts=whole(own, "expert_count"),
        notes=notes,
    )


def _layers(
    architecture: str, facts: dict[str, object], weights: list[int]
) -> tuple[tuple[Layer, ...], tuple[str, ...]]:
    """What each layer caches. Where the file does not say, the larger figure, and a note."""
    count = len(weights)
    notes: list[str] = []
    heads = _each(facts, "attention.head_count", count) or [0] * count
    kept = _each(facts, "attention.head_count_kv", count) or heads
    width = whole(facts, "embedding_length") or 0
    key = whole(facts, "attention.key_length") or (width // max(heads) if max(heads) else 0)
    value = whole(facts, "attention.value_length") or key
    latent = whole(facts, "attention.kv_lora_rank")
    if latent is not None and "attention.key_length_mla" in facts:
        # llama.cpp keeps one latent vector with its positions per token; the values are a part of it.
        key, value, kept = latent + (whole(facts, "rope.dimension_count") or 0), 0, [1] * count
    window = whole(facts, "attention.sliding_window") or None
    period = whole(facts, "attention.sliding_window_pattern") or _PERIOD.get(architecture)
    listed = facts.get("attention.sliding_window_pattern")
    if window and not period and not isinstance(listed, list):
        notes.append(
            f"which layers use the sliding window of {window} is not known for {architecture}: counted as none"
        )
        window = None
    full_every = whole(facts, "full_attention_interval")
    state = _state(facts)
    layers = []
    for number in range(count):
        is_recurrent = bool(state) and (
            bool((number + 1) % full_every) if full_every else kept[number] == 0 or not heads[number]
        )
        if isinstance(listed, list) and number < len(listed):
            looks_back = window if listed[number] else None
        else:
            looks_back = window if period and (number + 1) % period else None
        layers.append(
            Layer(weights[number], state=state)
            if is_recurrent
            else Layer(weights[number], kept[number], key + value, looks_back)
        )
    return tuple(layers), tuple(notes)


def _state(facts: dict[str, object]) -> int:
    """Bytes that a state-space layer keeps per sequence: its convolution's window and its state, in 32 bits."""
    inner, size = whole(facts, "ssm.inner_size") or 0, whole(facts, "ssm.state_size") or 0
    window, groups = whole(facts, "ssm.conv_kernel") or 1, whole(facts, "ssm.group_count") or 0
    return 4 * ((window - 1) * (inner + 2 * groups * size) + inner * size)


def _each(facts: dict[str, object], name: str, count: int) -> list[int] | None:
    """A figure per layer; files give one for all, or a list."""
    value = facts.get(name)
    if isinstance(value, list):
        numbers = [n if isinstance(n, int) and 0 <= n < 2**20 else 0 for n in value]
        return (numbers + [0] * count)[:count]
    single = whole(facts, name)
    return [single] * count if single is not None else None


def read_header(path: str) -> Header:
    """Raises UnreadableModel for anything but a whole GGUF header."""
    try:
        with open(path, "rb") as file:
            return _Reader(path, file, os.fstat(file.fileno()).st_size).header()
    except OSError as error:
        raise UnreadableModel(
            f"{path} cannot be read ({error.strerror}): correct the path, or its permissions"
        ) from error


class _Reader:
    def __init__(self, path: str, file: BinaryIO, size: int) -> None:
        self._path = path
        self._file = file
        self._size = size
        self._left = min(size, HEADER_LIMIT)

    def header(self) -> Header:
        if self._take(4) != b"GGUF":
            raise UnreadableModel(f"{self._path} is not a GGUF file: download it again, or name another one")
        version = self._number("I")
        if version not in (2, 3):
            raise self._broken(f"its version is {version}, but only 2 and 3 can be read")
        tensors, keys = self._number("Q"), self._number("Q")
        # The shortest tensor entry has 32 bytes, the shortest key 13.
        if keys > MOST_KEYS or tensors > MOST_TENSORS or 13 * keys + 32 * tensors > self._size:
            raise self._broken(f"it claims {tensors} tensors and {keys} keys")
        facts: dict[str, object] = {}
        for _ in range(keys):
            name = self._text(LONGEST_LIST)
            facts[name] = self._value(self._number("I"))
        entries = [self._tensor() for _ in range(tensors)]
        return Header(facts, self._sized(entries, whole(facts, "general.alignment") or 32))

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
                    f"{self._path} is cut off: it should have {begin + offset + length} bytes or more and has "
                    f"{self._size}; download it again"
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
                raise self._broken(f"a list of {count} texts")
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
            raise self._broken("it ends inside its header")
        return data

    def _spend(self, count: int) -> None:
        if count > self._left:
            raise self._broken("its header is longer than the file, or than 256 MiB")
        self._left -= count

    def _broken(self, what: str) -> UnreadableModel:
        return UnreadableModel(f"{self._path} is broken: {what}; download it again")
