"""How grades of live answers count beside what the suites measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.run import Fingerprint
from stoker.domain.tier import LIVE, ProfileRow, Tier, Verdict
from stoker_auto.decide.standing import MIN_SAMPLES, Standing, standing

LOCAL, CLOUD = Tier("local", "s"), Tier("cloud", "c", cloud=True)
IS = Fingerprint("i", "e")
OTHER = Fingerprint("i", "other")
ALLOW, VERIFY, DENY = Verdict.ALLOW, Verdict.VERIFY, Verdict.DENY


def row(
    verdict: Verdict, passed: int = 27, n: int = 27, source: str = "bootstrap", mark: Fingerprint = IS
) -> ProfileRow:
    return ProfileRow("local", "chat", mark.identity, mark.execution, n, passed, verdict, source=source)


def live(verdict: Verdict, passed: int = 27, n: int = 27, mark: Fingerprint = IS) -> ProfileRow:
    return row(verdict, passed, n, LIVE, mark)


def of(
    suite: ProfileRow | None,
    graded: ProfileRow | None,
    tier: Tier = LOCAL,
    risky: bool = False,
    now: Fingerprint | None = IS,
) -> Standing:
    return standing(tier, "chat", suite, now, risky, live=graded)


UNDECIDED = row(VERIFY, 9, 10)
FEW = row(ALLOW, 5, 5)
WRONG = live(DENY, 12, 20)


@pytest.mark.parametrize("suite", [None, UNDECIDED, FEW, row(VERIFY, 9, 10, mark=OTHER)])
def test_where_no_suite_has_decided_the_live_verdict_takes_its_place(suite: ProfileRow | None) -> None:
    assert of(suite, live(ALLOW)) == Standing(
        ALLOW, "allowed: live answers: 27 of 27 passed", False, True, is_measured=True
    )
    assert of(suite, WRONG) == Standing(DENY, "denied: live answers: 12 of 20 passed", False, False, is_measured=True)
    assert of(suite, live(ALLOW), risky=True).verdict is ALLOW


def test_an_allow_of_few_live_answers_is_none() -> None:
    few = live(ALLOW, MIN_SAMPLES - 1, MIN_SAMPLES - 1)
    assert of(None, few).verdict is VERIFY
    assert of(None, few, risky=True).verdict is DENY
    assert of(UNDECIDED, few).why == "undecided: 9 of 10 passed"


@pytest.mark.parametrize("suite", [None, row(ALLOW)])
@pytest.mark.parametrize("tier", [LOCAL, CLOUD])
def test_a_few_fails_of_a_judge_deny_nothing(suite: ProfileRow | None, tier: Tier) -> None:
    now = IS if tier is LOCAL else None
    few = live(DENY, 0, 3)
    assert of(suite, few, tier, now=now).verdict is not DENY
    if suite is not None:
        assert of(suite, few, tier, now=now) == of(suite, None, tier, now=now)
    assert of(None, live(DENY, 0, MIN_SAMPLES), tier, now=now).verdict is DENY


def test_undecided_grades_of_what_nobody_measured_are_told() -> None:
    assert of(None, live(VERIFY, 5, 6)) == Standing(
        VERIFY, "undecided: live answers: 5 of 6 passed", False, False, is_measured=True
    )


def test_where_suite_and_judge_contradict_each_other_there_is_an_alarm_and_no_denial() -> None:
    for risky in (False, True):
        found = of(row(ALLOW), WRONG, risky=risky)
        assert (found.verdict, found.is_stale, found.is_proved) == (VERIFY, False, True), "no tier gets before it"
        assert found.contradiction == "the judge contradicts the suite (live answers: 12 of 20 passed)"
        assert found.why == f"allowed: 27 of 27 passed; {found.contradiction}"
    assert of(row(ALLOW), WRONG, CLOUD, now=None).verdict is VERIFY
    denied = of(row(DENY, 0, 3), live(ALLOW))
    assert (denied.verdict, denied.is_proved) == (DENY, False)
    assert denied.contradiction == "the judge contradicts the suite (live answers: 27 of 27 passed)"


def test_grades_that_agree_or_are_of_another_model_contradict_nothing() -> None:
    assert of(row(ALLOW), live(ALLOW)).contradiction == ""
    assert of(row(ALLOW, mark=OTHER), WRONG).contradiction == ""
    assert of(row(ALLOW), live(DENY, 0, 30, OTHER)).contradiction == ""
    suspect = standing(LOCAL, "chat", row(ALLOW), IS, True, is_suspect=True, live=WRONG)
    assert suspect.verdict is DENY, "its checked answers became worse, whatever a judge says"


@pytest.mark.parametrize("graded", [live(ALLOW), live(VERIFY, 3, 4), WRONG])
@pytest.mark.parametrize("mark", [IS, OTHER])
def test_a_suites_deny_stays_one_whatever_the_grades_say(graded: ProfileRow, mark: Fingerprint) -> None:
    found, alone = of(row(DENY, 0, 3, mark=mark), graded), of(row(DENY, 0, 3, mark=mark), None)
    assert (found.verdict, found.is_stale, found.is_measured) == (alone.verdict, alone.is_stale, alone.is_measured)
    assert found.why.startswith(alone.why)


def test_a_suites_allow_is_told_as_before_where_the_grades_agree_or_are_undecided() -> None:
    for graded in (live(ALLOW), live(VERIFY, 3, 4)):
        assert of(row(ALLOW), graded) == of(row(ALLOW), None)


def test_grades_of_something_else_count_as_a_suites_rows_of_it_do() -> None:
    assert of(None, live(ALLOW, mark=OTHER)) == Standing(
        VERIFY, "changed since it was measured (live answers: 27 of 27 passed)", True, False, is_measured=True,
    )  # fmt: skip
    assert of(None, live(DENY, 0, 20, OTHER)).verdict is DENY
    assert of(row(ALLOW), live(DENY, 0, 3, OTHER)) == of(row(ALLOW), None), "what was wrong was another one"


def test_a_cloud_is_trusted_until_its_grades_have_decided() -> None:
    assert of(None, live(VERIFY, 2, 4), CLOUD, now=None) == Standing(ALLOW, "trusted, not measured", False, False)
    assert of(None, live(ALLOW), CLOUD, now=None).is_proved
    assert of(None, WRONG, CLOUD, now=None).verdict is DENY


def test_a_tier_that_nobody_looked_at_is_not_allowed_by_grades_either() -> None:
    assert of(None, live(ALLOW), now=None).verdict is VERIFY
    assert standing(LOCAL, "chat", None, IS, True, is_loaded=False, live=live(ALLOW)).verdict is VERIFY


rows = st.none() | st.builds(
    row, st.sampled_from(Verdict), st.integers(0, 30), st.just(30), st.just("bootstrap"), st.sampled_from((IS, OTHER))
)
graded = st.none() | st.builds(
    live, st.sampled_from(Verdict), st.integers(0, 30), st.just(30), st.sampled_from((IS, OTHER))
)


@given(rows, graded, st.booleans())
def test_grades_never_bring_back_what_a_suite_denied_and_never_allow_without_an_allow(
    suite: ProfileRow | None, given: ProfileRow | None, risky: bool
) -> None:
    found = of(suite, given, risky=risky)
    if suite is not None and suite.verdict is DENY:
        assert found.verdict is DENY
    if found.verdict is ALLOW:
        assert ALLOW in {one.verdict for one in (suite, given) if one is not None}
