"""What a step found: one row for each cell of the table. They are kept line by line, also of a run that is cut off."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec


class Outcome(StrEnum):
    MEASURED = "measured"
    SKIPPED = "skipped"
    """It cannot be tried on this machine."""
    FAILED = "failed"
    """It was tried, and ended without figures, or with a wrong result."""


class Row(msgspec.Struct, frozen=True):
    """One cell. `figures`: name with its unit -> value. `why`: of what was skipped or failed; else a remark."""

    step: str
    case: str
    outcome: Outcome
    figures: dict[str, float] = {}
    why: str = ""


class RowFile:
    """A file with a row on each line. Rows of one process after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, row: Row) -> None:
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(row) + b"\n")

    def read(self) -> list[Row]:
        """Every whole line; a last one that a killed step left unfinished is dropped."""
        if not self.path.exists():
            return []
        whole = self.path.read_bytes().rpartition(b"\n")[0]
        return [msgspec.json.decode(line, type=Row) for line in whole.splitlines()]
