"""What a preflight after an alarm comes to, and how long a demotion holds."""

from __future__ import annotations

from itertools import product

import pytest

from stoker.domain.run import Finding, Fingerprint, Outcome
from stoker.domain.tier import Demotion, ProfileRow, Tier, Verdict
from stoker_auto.decide.demotion import TRIES, DemotionOutcome, demotion_outcome, holds, never_passed
from stoker_auto.decide.standing import standing

NOW = Fingerprint("i", "e")
ROW = ProfileRow("cheap", "chat", "i", "e", 27, 27, Verdict.ALLOW, at=5.0)
DEMOTED = Demotion("cheap", "chat", "i", "e", 5.0, ("tool-single", "stop"))


def said(**outcomes: str) -> list[Finding]:
    return [Finding(name, Outcome(word)) for name, word in outcomes.items()]


@pytest.mark.parametrize(
    ("rounds", "tries", "is_same", "after", "checks"),
    [
        ([said(a="failed")], 1, False, DemotionOutcome.NOTHING, ()),
        ([said(a="passed", b="interrupted")], 1, True, DemotionOutcome.AGAIN, ()),
        ([said(a="failed", b="interrupted")], 1, True, DemotionOutcome.AGAIN, ()),
        ([said(a="failed"), said(a="interrupted")], 1, True, DemotionOutcome.AGAIN, ()),
        ([said(a="interrupted")], TRIES, True, DemotionOutcome.UNDECIDED, ()),
        (
            [said(a="failed", b="failed", c="passed"), said(a="passed", b="failed")],
            1,
            True,
            DemotionOutcome.DEMOTE,
            ("b",),
        ),
        ([said(a="failed"), said(a="passed")], 1, True, DemotionOutcome.PASSED, ()),
        ([said(a="passed", b="not-applicable")], 1, True, DemotionOutcome.PASSED, ()),
    ],
)
def test_the_table_is_kept(
    rounds: list[list[Finding]], tries: int, is_same: bool, after: DemotionOutcome, checks: tuple[str, ...]
) -> None:
    assert demotion_outcome(rounds, tries, is_same) == (after, checks)


def test_only_what_failed_in_every_round_demotes_and_never_what_is_another_one_by_now() -> None:
    for first, second, is_same in product(Outcome, Outcome, (True, False)):
        after, checks = demotion_outcome([said(a=first.value), said(a=second.value)], TRIES, is_same)
        assert (after is DemotionOutcome.DEMOTE) == (is_same and first is second is Outcome.FAILED)
        assert bool(checks) == (after is DemotionOutcome.DEMOTE)


def test_what_it_never_passed_is_no_news() -> None:
    rounds = [said(a="failed", b="failed")] * 2
    assert demotion_outcome(rounds, 1, True, {"a"}) == (DemotionOutcome.DEMOTE, ("b",))
    assert demotion_outcome(rounds, 1, True, {"a", "b"}) == (DemotionOutcome.PASSED, ())
    assert never_passed([]) == frozenset()
    assert never_passed([said(a="failed", b="failed"), said(a="failed", b="passed", c="interrupted")]) == {"a"}


def test_a_demotion_holds_until_it_is_measured_again_or_is_another_one() -> None:
    assert holds(DEMOTED, ROW, NOW)
    assert holds(DEMOTED, ROW, None), "nobody knows what it is: it may be the same"
    assert holds(DEMOTED, None, NOW), "a row that was taken out measures nothing"
    assert not holds(DEMOTED, ProfileRow("cheap", "chat", "i", "e", 27, 27, Verdict.ALLOW, at=6.0), NOW)
    assert not holds(DEMOTED, ROW, Fingerprint("other", "e"))
    assert not holds(DEMOTED, ROW, Fingerprint("i", "other"))


def test_a_demoted_tier_is_denied_whatever_was_measured_and_says_where_it_failed() -> None:
    for row, is_risky in product((ROW, None), (True, False)):
        found = standing(Tier("cheap", "fast"), "chat", row, NOW, is_risky, True, True, failed=DEMOTED.checks)
        assert (found.verdict, found.is_stale) == (Verdict.DENY, True)
        assert found.why == "demoted: its answers became worse, and the preflight failed at tool-single, stop"
