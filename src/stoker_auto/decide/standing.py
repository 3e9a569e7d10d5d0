"""How far is a tier trusted at a class of tasks, by its measurements? Pure.

0. no suite measured it, or the suite is undecided,
   and there are live grades that count            -> the live grades replace the suite in the cases below
   the suite and the live grades have decided, and
   contradict each other                           -> as the suite says, an allow with verification, and an alarm
1. a cloud tier, never measured                    -> allow: the others are measured against it
2. never measured                                  -> allow-with-verify; at high risk deny
3. it changed since it was measured, or became
   worse, by an alarm                              -> stale: a deny stays a deny; the rest like 2
   the preflight failed after that alarm           -> stale: deny, even if nothing is measured
4. denied                                          -> deny: live grades cannot undo that
5. undecided, or too few samples for an allow      -> like 2
6. allowed, but its present state is unknown       -> like 2
7. allowed, but not loaded: most likely unchanged
   since it last ran                               -> allow-with-verify
8. allowed                                         -> allow
9. it runs, and which model that is is not known   -> like 3, but not stale: measuring again would tell no more
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stoker.domain.run import Fingerprint
from stoker.domain.tier import LIVE, ProfileRow, Tier, Verdict
from stoker_auto.decide.demotion import describe_demotion
from stoker_lab.judging import MIN_GRADES

MIN_SAMPLES = MIN_GRADES
"""An `allow` needs at least so many samples, and so does a `deny` of live grades."""


class Standing(NamedTuple):
    verdict: Verdict
    why: str
    """In a few words, for people."""
    is_stale: bool = False
    is_proved: bool = False
    """An allow, measured for what runs now."""
    is_expected: bool = False
    """An allow, measured for a serve that is not loaded: most likely `is_proved` once it is."""
    is_measured: bool = False
    """It rests on what a suite measured, or on graded answers; also if these no longer count."""
    contradiction: str = ""
    """What the live grades say against the suite, in a few words; empty: they do not contradict it."""


def standing(
    tier: Tier,
    task_class: str,
    row: ProfileRow | None,
    now: Fingerprint | None,
    high_risk: bool,
    is_loaded: bool = True,
    is_suspect: bool = False,
    live: ProfileRow | None = None,
    failed: tuple[str, ...] = (),
) -> Standing:
    """Cases 3 to 8 rest on measurements.

    `now`: the fingerprint of the tier's serve when it last ran as configured; None if it never did. `is_loaded`:
    that was the process that runs now. `is_suspect`: its answers have become worse since it was measured. `row`: the
    result of a suite. `live`: the result of grading its live answers, if it counts. `failed`: gates that failed in the
    preflight after an alarm.
    """
    if live is not None and row is not None and not failed and _contradict(live, row, now, tier.cloud):
        found = standing(tier, task_class, row, now, high_risk, is_loaded, is_suspect)
        said = f"the judge contradicts the suite ({_seen(live)})"
        verdict = Verdict.VERIFY if found.verdict is Verdict.ALLOW else found.verdict
        return found._replace(verdict=verdict, why=f"{found.why}; {said}", contradiction=said)  # 0
    doubt = Verdict.DENY if high_risk else Verdict.VERIFY
    if failed:  # 3
        is_measured = row is not None or live is not None
        return Standing(Verdict.DENY, describe_demotion(failed), is_stale=True, is_measured=is_measured)
    if live is not None and _takes_the_place(live, row, tier):
        row = live  # 0
    if row is None:
        if tier.cloud:
            return Standing(Verdict.ALLOW, "trusted, not measured")  # 1
        return Standing(doubt, f"not measured at {task_class}")  # 2
    seen, is_denied = _seen(row), row.verdict is Verdict.DENY and _is_decided(row)
    if now is not None and not now.identity and now.parts and not tier.cloud:
        said = f"which model runs is not known (its {now.unknown_parts})"
        return Standing(Verdict.DENY if is_denied else doubt, f"{seen}, but {said}", is_measured=True)  # 9
    if now is not None and not _is_of(row, now, tier.cloud):  # 3
        if is_denied:
            return Standing(
                Verdict.DENY, f"denied before it changed ({seen}): measure it again", is_stale=True, is_measured=True
            )
        return Standing(doubt, f"changed since it was measured ({seen})", is_stale=True, is_measured=True)
    if is_suspect and row.verdict is not Verdict.DENY:
        return Standing(
            doubt, f"its answers became worse since it was measured ({seen})", is_stale=True, is_measured=True
        )
    if is_denied:
        return Standing(Verdict.DENY, f"denied: {seen}", is_measured=True)  # 4
    if not _is_decided(row):
        return Standing(doubt, f"undecided: {seen}", is_measured=True)  # 5
    if now is None and not tier.cloud:
        return Standing(
            doubt,
            f"allowed ({seen}), but not identified as the measured model: it has to be loaded once",
            is_measured=True,
        )  # 6
    if not is_loaded and not tier.cloud:
        why = f"allowed ({seen}), to be verified when it is loaded"
        return Standing(Verdict.VERIFY, why, is_expected=True, is_measured=True)  # 7
    return Standing(Verdict.ALLOW, f"allowed: {seen}", is_proved=True, is_measured=True)  # 8


def worst(standings: Sequence[Standing]) -> Standing:
    """The worst standing of one tier at several classes. It is proved only if it is proved at each."""
    if len(standings) == 1:
        return standings[0]
    found = min(standings, key=lambda one: (_ORDER.index(one.verdict), one.is_proved, one.is_expected))
    is_expected = all(one.is_proved or one.is_expected for one in standings)
    is_measured = all(one.is_measured for one in standings)
    return found._replace(is_expected=is_expected and not found.is_proved, is_measured=is_measured)


_ORDER = (Verdict.DENY, Verdict.VERIFY, Verdict.ALLOW)


def _takes_the_place(live: ProfileRow, row: ProfileRow | None, tier: Tier) -> bool:
    """Whether live grades replace the suite's row. An unmeasured cloud tier is trusted until its grades decide."""
    if row is None:
        return _is_decided(live) or not tier.cloud
    return not _is_decided(row) and _is_decided(live)


def _contradict(live: ProfileRow, row: ProfileRow, now: Fingerprint | None, is_cloud: bool) -> bool:
    """Whether both have decided about what runs now, and not alike."""
    are_of_now = now is None or (_is_of(live, now, is_cloud) and _is_of(row, now, is_cloud))
    return _is_decided(live) and _is_decided(row) and live.verdict is not row.verdict and are_of_now


def _is_decided(row: ProfileRow) -> bool:
    """One judge's word takes more of it than a suite's check, which a program makes."""
    if row.verdict is Verdict.DENY and row.source != LIVE:
        return True
    return row.verdict is not Verdict.VERIFY and row.n >= MIN_SAMPLES


def _seen(row: ProfileRow) -> str:
    return f"{'live answers: ' if row.source == LIVE else ''}{row.passed} of {row.n} passed"


def _is_of(row: ProfileRow, now: Fingerprint, is_cloud: bool) -> bool:
    """Whether the row was measured on what runs now. An unknown identity equals no other; but that of a cloud is never
    known, so only what is known of it can have changed.
    """
    return (bool(row.identity) or is_cloud) and row.identity == now.identity and row.execution == now.execution
