"""A vocabulary of 1024 pieces for llama.cpp's `llama` (SPM) tokenizer: bytes, characters, letter merges.

A space is its own token and merges join ASCII letters only: a word is then the same tokens wherever it
stands, so that copying is copying tokens, and digits stay single.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

SPECIALS = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]
BOS, END = 1, 4
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
CHARACTERS = [chr(code) for code in range(32, 127)] + ["\n"]
SIZE = 1024
MARKS = "|".join(re.escape(special) for special in SPECIALS[3:])
SPLIT = re.compile(f"({MARKS})|([A-Za-z]+)|(.)", re.DOTALL)
LETTERS = re.compile("[A-Za-z]+")


class Tokenizer:
    def __init__(self, merges: list[str]) -> None:
        self.pieces = [*SPECIALS, *BYTES, *CHARACTERS, *merges]
        self.ids = {piece: index for index, piece in enumerate(self.pieces)}
        self.run = lru_cache(maxsize=200_000)(self._run)

    @property
    def merges(self) -> list[str]:
        return self.pieces[len(SPECIALS) + len(BYTES) + len(CHARACTERS) :]

    def encode(self, text: str) -> list[int]:
        found: list[int] = []
        for special, letters, other in SPLIT.findall(text):
            if special:
                found.append(self.ids[special])
            elif letters:
                found.extend(self.run(letters))
            elif other in self.ids:
                found.append(self.ids[other])
            else:
                found.extend(self.ids[f"<0x{byte:02X}>"] for byte in other.encode())
        return found

    def _run(self, letters: str) -> tuple[int, ...]:
        """Merges the adjacent pair whose concatenation ranks best until none is a piece, as SPM does."""
        parts = list(letters)
        while True:
            joined = [a + b for a, b in pairwise(parts)]
            ranked = [(self.ids[piece], i) for i, piece in enumerate(joined) if piece in self.ids]
            if not ranked:
                return tuple(self.ids[part] for part in parts)
            _, i = min(ranked)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]

    def decode(self, ids: list[int]) -> str:
        raw = b""
        for index in ids:
            piece = self.pieces[index]
            raw += bytes([int(piece[3:5], 16)]) if piece in BYTES else piece.encode()
        return raw.decode(errors="replace")

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.merges), encoding="utf-8")


def load(path: Path) -> Tokenizer:
    return Tokenizer(json.loads(path.read_text(encoding="utf-8")))


def build(texts: list[str]) -> Tokenizer:
    """Byte-pair merges over the letter runs of `texts`, the most frequent pair first."""
    counts = Counter(run for text in texts for run in LETTERS.findall(text))
    split = {run: list(run) for run in counts}
    merges: list[str] = []
    taken = set(SPECIALS + CHARACTERS)
    while len(merges) < SIZE - len(SPECIALS) - len(BYTES) - len(CHARACTERS):
        pairs: Counter[tuple[str, str]] = Counter()
        for run, parts in split.items():
            for pair in pairwise(parts):
                pairs[pair] += counts[run]
        (a, b), _ = min(pairs.items(), key=lambda item: (-item[1], item[0]))
        if a + b not in taken:
            merges.append(a + b)
            taken.add(a + b)
        for parts in split.values():
            i = 0
            while i < len(parts) - 1:
                if parts[i] == a and parts[i + 1] == b:
                    parts[i : i + 2] = [a + b]
                i += 1
    return Tokenizer(merges)
