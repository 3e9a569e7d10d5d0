"""Blocks of code that are right, and the same with one planted fault each. All of them parse, so that no cheaper check
than the validator decides; half of the faults are of logic, half use an interface that does not exist.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import msgspec

DATA = files("stoker_lab.validator") / "planted-faults.jsonl"


class PlantedFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One task, its right block, and the same block with one fault."""

    id: str
    task: str
    kind: str
    """`logic` or `api`."""
    right: str
    wrong: str
    tests: str
    """Assertions that the right block passes and the wrong one fails."""


class BlockToJudge(msgspec.Struct, frozen=True):
    """What the validator is asked."""

    task: str
    text: str
    fault: str = ""
    """The kind of its fault; empty: it is right."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.task}\0{self.text}".encode()).hexdigest()[:16]


@cache
def planted_faults() -> tuple[PlantedFault, ...]:
    """Those that ship."""
    return tuple(msgspec.json.Decoder(PlantedFault).decode_lines(DATA.read_bytes()))


@cache
def blocks_to_judge() -> Sequence[BlockToJudge]:
    """Each block once right and once wrong."""
    found = []
    for one in planted_faults():
        found += [BlockToJudge(one.task, one.right), BlockToJudge(one.task, one.wrong, one.kind)]
    return tuple(found)
