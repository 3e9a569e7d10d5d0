"""What is a tier worth at a class of tasks, by what was measured? Pure.

1. a cloud tier, never measured                    -> allow: it is what the others are measured against
2. never measured                                  -> allow-with-verify; at high risk deny
3. measured as something else than it is now, or
   worse since then, as an alarm has it            -> stale: a deny stays a deny; the rest like 2
   the preflight failed after that alarm           -> stale: deny, also where nothing is measured
4. denied                                          -> deny
5. undecided, or too few samples for an allow      -> like 2
6. allowed, but nobody knows what it is now        -> like 2
7. allowed, and it is not loaded: it is what it was
   when it last ran, as far as can be told         -> allow-with-verify
8. allowed                                         -> allow
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.domain.run import Fingerprint
from stoker.domain.tier import Row, Tier, Verdict
from stoker.request.decide.demotion import told

MIN_SAMPLES = 20
"""An `allow` of fewer is none: with 20 of 20 passed the rate is above 0.84 (Wilson, 95 %)."""


class Standing(NamedTuple):
    verdict: Verdict
    why: str
    """In a few words, for people."""
    is_stale: bool = False
    is_proved: bool = False
    """An allow that was measured, of what runs."""


def standing(
    tier: Tier,
    task_class: str,
    row: Row | None,
    now: Fingerprint | None,
    high_risk: bool,
    is_loaded: bool = True,
    is_suspect: bool = False,
    failed: tuple[str, ...] = (),
) -> Standing:
    """`now`: what the tier's serve was found to be when it was last looked at, as it is configured; None: it never was.
    `is_loaded`: that was this very process. `is_suspect`: its answers have become worse since it was measured.
    `failed`: and the preflight failed then, at these gates.
    """
    doubt = Verdict.DENY if high_risk else Verdict.VERIFY
    if failed:  # 3
        return Standing(Verdict.DENY, told(failed), is_stale=True)
    if row is None:
        if tier.cloud:
            return Standing(Verdict.ALLOW, "trusted, not measured")  # 1
        return Standing(doubt, f"not measured at {task_class}")  # 2
    seen = f"{row.passed} of {row.n} passed"
    if now is not None and not _is_of(row, now):  # 3
        if row.verdict is Verdict.DENY:
            return Standing(Verdict.DENY, f"denied before it changed ({seen}): measure it again", is_stale=True)
        return Standing(doubt, f"changed since it was measured ({seen})", is_stale=True)
    if is_suspect and row.verdict is not Verdict.DENY:
        return Standing(doubt, f"its answers became worse since it was measured ({seen})", is_stale=True)
    if row.verdict is Verdict.DENY:
        return Standing(Verdict.DENY, f"denied: {seen}")  # 4
    if row.verdict is Verdict.VERIFY or row.n < MIN_SAMPLES:
        return Standing(doubt, f"undecided: {seen}")  # 5
    if now is None and not tier.cloud:
        return Standing(
            doubt, f"allowed ({seen}), but not known to be what was measured: it has to be loaded once"
        )  # 6
    if not is_loaded and not tier.cloud:
        return Standing(Verdict.VERIFY, f"allowed, and to be looked at once it is loaded ({seen})")  # 7
    return Standing(Verdict.ALLOW, f"allowed: {seen}", is_proved=True)  # 8


def _is_of(row: Row, now: Fingerprint) -> bool:
    """Whether the row counts: an identity that is not known is nobody's."""
    return bool(row.identity) and row.identity == now.identity and row.execution == now.execution
