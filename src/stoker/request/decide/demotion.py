"""A tier whose answers became worse: what the preflight after the alarm comes to, and how long that holds. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import Enum, auto

from stoker.domain.run import Finding, Fingerprint, Outcome
from stoker.domain.tier import Demotion, ProfileRow

TRIES = 2
"""Times that a preflight is begun: one that ends its serve each time is not begun for ever."""


class DemotionOutcome(Enum):
    """Of one tier at one class."""

    NOTHING = auto()
    """The alarm was about what it is no more."""
    AGAIN = auto()
    """When it is next ready."""
    UNDECIDED = auto()
    """Nobody knows: it stays suspect, and its answers are checked until it is measured again."""
    PASSED = auto()
    """It stays suspect all the same."""
    DEMOTE = auto()


def demotion_outcome(
    rounds: Sequence[Sequence[Finding]], tries: int, is_same: bool, never: Collection[str] = ()
) -> tuple[DemotionOutcome, tuple[str, ...]]:
    """What becomes of it, and the gates that say so.

    1. it was measured again meanwhile, or is another one -> nothing
    2. broken off: it stopped, or died of it              -> again; after TRIES times undecided
    3. a gate failed in every round                       -> demoted
    4. none did, or only those that it never passed       -> passed

    `rounds`: what the gates said, then what those said that had failed. `tries`: how often it was begun, with this one.
    `is_same`: it is still suspect, and what it was. `never`: gates that it never passed, where it was asked before.
    """
    if not is_same:  # 1
        return DemotionOutcome.NOTHING, ()
    if any(one.outcome is Outcome.INTERRUPTED for findings in rounds for one in findings):  # 2
        return (DemotionOutcome.AGAIN if tries < TRIES else DemotionOutcome.UNDECIDED), ()
    first, again = failures(rounds[0]), [failures(findings) for findings in rounds[1:]]
    failed = tuple(name for name in first if name not in never and all(name in names for names in again))
    return (DemotionOutcome.DEMOTE if failed else DemotionOutcome.PASSED), failed  # 3, 4


def failures(findings: Iterable[Finding]) -> list[str]:
    """Gates that failed, in their order."""
    return [one.name for one in findings if one.outcome is Outcome.FAILED]


def never_passed(runs: Iterable[Sequence[Finding]]) -> frozenset[str]:
    """Gates that failed in each of these preflights that asked them."""
    failed: set[str] = set()
    passed: set[str] = set()
    for findings in runs:
        failed |= set(failures(findings))
        passed |= {one.name for one in findings if one.outcome is Outcome.PASSED}
    return frozenset(failed - passed)


def holds(demotion: Demotion, row: ProfileRow | None, now: Fingerprint | None) -> bool:
    """1. measured since then: no  2. another one than was looked at: no  3. yes, also where nobody knows what it is."""
    if row is not None and row.at != demotion.measured:
        return False  # 1
    return now is None or (now.identity, now.execution) == (demotion.identity, demotion.execution)  # 2, 3


def describe_demotion(checks: Iterable[str]) -> str:
    """For people."""
    return f"demoted: its answers became worse, and the preflight failed at {', '.join(checks)}"
