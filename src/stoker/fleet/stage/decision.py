"""What to do about a model that is asked for. Pure: a question, whose answer has its reason with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StageAnswer(StrEnum):
    NOTHING = "nothing"
    REFUSE = "refuse"
    FETCH = "fetch"


@dataclass(frozen=True, slots=True)
class StageSituation:
    """Bytes; None: not known. `is_same` None: nothing proves it, either way."""

    name: str
    is_there: bool
    is_same: bool | None
    size: int | None
    """Of everything to fetch."""
    kept: int
    """What an earlier attempt left of it."""
    used: int
    """In the whole vault, drafts included."""
    quota: int | None
    room: int
    """What may be written before the disk counts as full."""


@dataclass(frozen=True, slots=True)
class StageDecision:
    answer: StageAnswer
    code: str = ""
    why: str = ""


def decide(situation: StageSituation) -> StageDecision:
    """1 it is there, the very same: nothing  2 something is there: refused  3 over the quota: refused
    4 no room: refused  5 fetch
    """
    name = f"vault:{situation.name}"
    if situation.is_there and situation.is_same:  # 1
        return StageDecision(StageAnswer.NOTHING, why=f"{name} exists already and is the same: nothing is fetched")
    if situation.is_there:  # 2
        why = "and differs" if situation.is_same is False else "and nothing proves that it is the same (--sha256 would)"
        ways = f"stage this one --as another name, or `stoker stage --remove {situation.name}` first"
        return StageDecision(StageAnswer.REFUSE, "name_taken", f"{name} exists already, {why}: {ways}")
    needed = max(0, (situation.size or 0) - situation.kept)
    over = over_quota(situation.used + needed, situation.quota)
    if over:  # 3
        return StageDecision(StageAnswer.REFUSE, "over_quota", over)
    short = needed - situation.room
    if short > 0:  # 4
        return StageDecision(
            StageAnswer.REFUSE,
            "disk_full",
            f"{needed:,} bytes have to be fetched, but the vault's disk may take only "
            f"{max(0, situation.room):,}: make room for "
            f"{short:,} more (`stoker stage --list` says what is there), or move the vault",
        )
    return StageDecision(StageAnswer.FETCH)  # 5


def over_quota(used: int, quota: int | None) -> str:
    """A sentence if the vault would be too large; else empty."""
    if quota is None or used <= quota:
        return ""
    return (
        f"the vault would hold {used:,} bytes, {used - quota:,} more than --quota allows: take something out "
        "(`stoker stage --list`, `stoker stage --remove NAME`), or allow more"
    )
