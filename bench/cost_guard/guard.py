"""The kept counts, and what grew."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

KEPT = Path(__file__).with_name("kept.json")
ALLOWED = 1.03
"""How much of a kept count is no rise."""
MAX_SHOWN = 8
"""Functions named for one rise."""


class Counts(msgspec.Struct):
    """Of one kind of work, per unit."""

    bytecode: dict[str, float] = {}
    """Python instructions by function."""
    machine_code: float | None = None
    """Instructions of the processor; None: not counted."""

    @property
    def python(self) -> float:
        return sum(self.bytecode.values())


class Kept(msgspec.Struct):
    """`counts`: by interpreter, then by kind of work."""

    counts: dict[str, dict[str, Counts]] = {}


class Rise(NamedTuple):
    """A count above what is allowed."""

    work: str
    what: str
    before: float
    now: float
    grown: tuple[tuple[str, float], ...]
    """The functions whose Python instructions rose most, and by how many."""

    def __str__(self) -> str:
        share = 100 * (self.now / self.before - 1)
        lines = [f"{self.work}: {self.what} {self.before:,.0f} -> {self.now:,.0f} (+{share:.1f} %)"]
        return "\n".join([*lines, *(f"    +{more:.0f} {name}" for name, more in self.grown)])


def interpreter() -> str:
    """Counts are comparable only between equal interpreters."""
    return f"{platform.python_implementation()} {platform.python_version()} {platform.machine()}"


def read(path: Path = KEPT) -> Kept:
    """No file: nothing is kept yet. Raises msgspec.DecodeError."""
    return msgspec.json.decode(path.read_bytes(), type=Kept) if path.exists() else Kept()


def write(kept: Kept, path: Path = KEPT) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(kept, order="deterministic"), indent=1) + b"\n")


def rises(kept: Mapping[str, Counts], now: Mapping[str, Counts]) -> list[Rise]:
    """What costs more than is allowed. A count that is missing on one side is no rise."""
    found = []
    for work, counts in now.items():
        before = kept.get(work)
        if before is None:
            continue
        grown = _grown(before, counts)
        if counts.python > ALLOWED * before.python:
            found.append(Rise(work, "Python instructions", before.python, counts.python, grown))
        if before.machine_code and counts.machine_code and counts.machine_code > ALLOWED * before.machine_code:
            found.append(Rise(work, "machine instructions", before.machine_code, counts.machine_code, grown))
    return found


def _grown(before: Counts, now: Counts) -> tuple[tuple[str, float], ...]:
    more = Counter({name: times - before.bytecode.get(name, 0.0) for name, times in now.bytecode.items()})
    return tuple((name, times) for name, times in more.most_common(MAX_SHOWN) if times >= 1)
