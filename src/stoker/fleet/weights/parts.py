"""The files of a GGUF model, which may be split: `NAME-00001-of-00003.gguf` and two more. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_PART = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


@dataclass(frozen=True, slots=True)
class Part:
    """Prints as its path."""

    stem: str
    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.stem}-{self.number:05d}-of-{self.count:05d}.gguf"


def part(path: str) -> Part | None:
    """None: not the name of a part."""
    found = _PART.fullmatch(path)
    return None if found is None else Part(found["stem"], int(found["number"]), int(found["count"]))


def parts(path: str) -> list[str]:
    """All files of the model, when `path` is the first of them; else `path` alone. As many as the name claims, up to
    99,999, whether they are there or not.
    """
    first = part(path)
    if first is None or first.number != 1:
        return [path]
    return [str(replace(first, number=number)) for number in range(1, first.count + 1)]
