"""The names of a GGUF model that is split into files: `NAME-00001-of-00003.gguf` and two more. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_PART = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


@dataclass(frozen=True, slots=True)
class GgufPart:
    """One file of a split model. `str` gives its path."""

    stem: str
    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.stem}-{self.number:05d}-of-{self.count:05d}.gguf"

    def siblings(self) -> list[str]:
        """The paths of all files of the model, this one included: as many as the name claims, up to 99,999, whether
        they exist or not.
        """
        return [str(replace(self, number=number)) for number in range(1, self.count + 1)]


def parse_part(path: str) -> GgufPart | None:
    """None: `path` is not the name of a part."""
    found = _PART.fullmatch(path)
    return None if found is None else GgufPart(found["stem"], int(found["number"]), int(found["count"]))


def model_files(path: str) -> list[str]:
    """All files of the model if `path` is the first of them; else `path` alone."""
    part = parse_part(path)
    return [path] if part is None or part.number != 1 else part.siblings()
