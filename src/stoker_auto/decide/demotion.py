"""A tier whose answers became worse: the outcome of the preflight after the alarm, and how long it holds. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import Enum, auto

from stoker.domain.run import Finding, Fingerprint, Outcome
from stoker.domain.tier import Demotion, ProfileRow

TRIES = 2
"""How often a preflight is started: one that kills its serve each time must not be repeated for ever."""


class DemotionOutcome(Enum):
    """The outcome for one tier at one class."""

    NOTHING = auto()
    """The alarm was about an earlier state of the tier."""
    AGAIN = auto()
    """The preflight is repeated when the tier is ready again."""
    UNDECIDED = auto()
    """Undecided: the tier stays suspect, and its answers are checked until it is measured again."""
    PASSED = auto()
    """The gates passed, but the tier stays suspect."""
    DEMOTE = auto()


def demotion_outcome(
    rounds: Sequence[Sequence[Finding]], tries: int, is_same: bool, never: Collection[str] = ()
) -> tuple[DemotionOutcome, tuple[str, ...]]:
    """The outcome, and the gates that caused it.

    1. the tier was measured again meanwhile, or changed          -> nothing
    2. the preflight broke off: the serve stopped, or crashed     -> again; after TRIES times undecided
    3. a gate failed in every round                               -> demoted
    4. none did, or only gates that the tier has never passed     -> passed

    `rounds`: findings of all gates, then of those that had failed. `tries`: how often the preflight was started, this
    time included. `is_same`: the tier is still suspect and unchanged. `never`: gates that it failed whenever asked.
    """
    if not is_same:  # 1
        return DemotionOutcome.NOTHING, ()
    if any(one.outcome is Outcome.INTERRUPTED for findings in rounds for one in findings):  # 2
        return (DemotionOutcome.AGAIN if tries < TRIES else DemotionOutcome.UNDECIDED), ()
    first, again = failures(rounds[0]), [failures(findings) for findings in rounds[1:]]
    failed = tuple(name for name in first if name not in never and all(name in names for names in again))
    return (DemotionOutcome.DEMOTE if failed else DemotionOutcome.PASSED), failed  # 3, 4


def failures(findings: Iterable[Finding]) -> list[str]:
    """Gates that failed, in order."""
    return [one.name for one in findings if one.outcome is Outcome.FAILED]


def never_passed(runs: Iterable[Sequence[Finding]]) -> frozenset[str]:
    """Gates that failed in every preflight of `runs` that included them."""
    failed: set[str] = set()
    passed: set[str] = set()
    for findings in runs:
        failed |= set(failures(findings))
        passed |= {one.name for one in findings if one.outcome is Outcome.PASSED}
    return frozenset(failed - passed)


def holds(demotion: Demotion, row: ProfileRow | None, now: Fingerprint | None) -> bool:
    """Whether it still holds: 1. measured since: no  2. the tier changed: no  3. yes, also if its state is unknown."""
    if row is not None and row.at != demotion.measured:
        return False  # 1
    return now is None or (now.identity, now.execution) == (demotion.identity, demotion.execution)  # 2, 3


def describe_demotion(checks: Iterable[str]) -> str:
    """The demotion in a few words."""
    return f"demoted: its answers became worse, and the preflight failed at {', '.join(checks)}"
