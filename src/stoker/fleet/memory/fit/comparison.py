"""Needed against what there is. Pure; bytes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stoker.fleet.memory.ledger import USABLE_SHARE

TIGHT = 0.90
"""Share of the memory from which on a fit counts as tight."""


class FitAnswer(StrEnum):
    FITS = "fits"
    TIGHT = "tight"
    """Between 90 and 95 %: as aimed at, with no room for more."""
    TOO_LARGE = "too large"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class MemoryFit:
    answer: FitAnswer
    need: int
    room: int | None
    """What may be used of `total`."""
    total: int | None

    @property
    def short(self) -> int:
        """Bytes that are missing; 0: none."""
        return max(0, self.need - self.room) if self.room is not None else 0


def judge(need: int, total: int | None, ceiling: float = USABLE_SHARE, most: int | None = None) -> MemoryFit:
    """Whether `need` fits into the share `ceiling` of `total`, and into `most` where that is given.

    1. total unknown           -> unknown
    2. above the ceiling       -> too large
    3. above 90 % of the whole -> tight
    4. otherwise               -> fits
    """
    if total is None:
        return MemoryFit(FitAnswer.UNKNOWN, need, None, None)  # 1
    room = int(total * ceiling)
    if most is not None:
        room = min(room, most)
    if need > room:
        return MemoryFit(FitAnswer.TOO_LARGE, need, room, total)  # 2
    if need > min(total * TIGHT, room * TIGHT / USABLE_SHARE):
        return MemoryFit(FitAnswer.TIGHT, need, room, total)  # 3
    return MemoryFit(FitAnswer.FITS, need, room, total)  # 4


def worst(verdicts: list[MemoryFit]) -> MemoryFit:
    """The one that decides, of several places: too large before unknown before tight."""
    order = (FitAnswer.TOO_LARGE, FitAnswer.UNKNOWN, FitAnswer.TIGHT, FitAnswer.FITS)
    return min(verdicts, key=lambda verdict: (order.index(verdict.answer), -verdict.short))
