"""Who may serve a request, in what order, and why the others do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.run import Fingerprint
from stoker.domain.task import ClassSource, Task
from stoker.domain.tier import ProfileRow, Tier, Verdict, Verify
from stoker_auto.decide.policy import TierView, plan_route
from stoker_auto.decide.standing import MIN_SAMPLES, Standing, standing

CHAT, PLANNING = Task("chat", ClassSource.RULES), Task("planning", ClassSource.DECLARED)
LOCAL = Tier("local", "fast", verify=Verify.HOLD_ALL)
BIG = Tier("big", "large")
CLOUD = Tier("cloud", "cloud", cloud=True, verify=Verify.OFF)
ALLOWED = Standing(Verdict.ALLOW, "allowed: 30 of 30 passed", is_proved=True)
TRUSTED = Standing(Verdict.ALLOW, "trusted, not measured")
EXPECTED = Standing(Verdict.VERIFY, "allowed, and to be looked at once it is loaded", is_expected=True)
DOUBTED = Standing(Verdict.VERIFY, "not measured at chat")
DENIED = Standing(Verdict.DENY, "denied: 3 of 40 passed")
IS = Fingerprint("i", "e")


def names(*views: TierView, task: Task = CHAT, specialist: str = "") -> list[str]:
    return [step.tier.name for step in plan_route(task, views, specialist).steps]


def row(verdict: Verdict, n: int = 40, passed: int = 40, identity: str = "i", execution: str = "e") -> ProfileRow:
    return ProfileRow("local", "chat", identity, execution, n, passed, verdict)


def test_the_cheapest_that_may_serve_goes_first() -> None:
    cloud = TierView(CLOUD, TRUSTED, cost=0.02)
    assert names(cloud, TierView(BIG, DOUBTED, cost=0.001), TierView(LOCAL, ALLOWED)) == ["local", "big", "cloud"]


def test_who_has_proved_good_enough_goes_before_who_is_cheaper_and_has_not() -> None:
    assert names(TierView(LOCAL, DOUBTED), TierView(BIG, ALLOWED, cost=0.1)) == ["big", "local"]
    assert names(TierView(LOCAL, DOUBTED), TierView(CLOUD, TRUSTED, cost=0.1)) == ["local", "cloud"]
    assert names(TierView(LOCAL, DOUBTED), TierView(CLOUD, ALLOWED, cost=0.1)) == ["cloud", "local"]


def test_who_needs_another_model_to_leave_goes_behind_who_does_not_whatever_it_costs() -> None:
    assert names(TierView(LOCAL, ALLOWED, displaces=True), TierView(CLOUD, ALLOWED, cost=1.0)) == ["cloud", "local"]
    assert names(TierView(LOCAL, ALLOWED, is_loaded=False), TierView(CLOUD, ALLOWED, cost=1.0)) == ["local", "cloud"]


def test_who_was_passed_over_only_because_its_model_is_not_loaded_is_wanted_ahead() -> None:
    away, cloud = TierView(LOCAL, EXPECTED, is_loaded=False, displaces=True), TierView(CLOUD, ALLOWED, cost=1.0)
    assert (names(away, cloud), plan_route(CHAT, (away, cloud)).preferred_if_loaded) == (["cloud", "local"], LOCAL)
    beside = away._replace(displaces=False)
    assert (names(beside, cloud), plan_route(CHAT, (beside, cloud)).preferred_if_loaded) == (["cloud", "local"], LOCAL)
    assert plan_route(CHAT, (TierView(LOCAL, ALLOWED), cloud)).preferred_if_loaded is None, "it is there"
    assert (
        plan_route(CHAT, (away, TierView(BIG, DOUBTED, is_loaded=False, displaces=True))).preferred_if_loaded is None
    ), "it goes first"
    assert plan_route(CHAT, (away._replace(standing=DOUBTED), cloud)).preferred_if_loaded is None, (
        "it would not go first if it were there"
    )
    dearer = TierView(BIG, EXPECTED, is_loaded=False, displaces=True, cost=1.0)
    assert plan_route(CHAT, (TierView(LOCAL, ALLOWED), dearer)).preferred_if_loaded is None
    assert plan_route(CHAT, (TierView(LOCAL, ALLOWED), dearer), "big").preferred_if_loaded is None, (
        "a specialist waits for nobody"
    )


def test_who_may_not_serve_is_not_wanted_ahead() -> None:
    cloud = TierView(CLOUD, ALLOWED, cost=1.0)
    for view in (
        TierView(LOCAL, DENIED),
        TierView(LOCAL, EXPECTED, "context"),
        TierView(LOCAL, EXPECTED, "", "does_not_start"),
    ):
        assert plan_route(CHAT, (view._replace(is_loaded=False, displaces=True), cloud)).preferred_if_loaded is None
    alone = TierView(LOCAL, EXPECTED, "", "does_not_start", is_loaded=False, displaces=True)
    assert plan_route(CHAT, (alone,)).preferred_if_loaded is None, "a last resort is none to wait for"


def test_of_equal_cost_the_faster_and_then_the_first_in_the_file() -> None:
    slow, quick = TierView(LOCAL, ALLOWED, latency=3.0), TierView(BIG, ALLOWED, latency=1.0)
    assert names(slow, quick) == ["big", "local"]
    assert names(TierView(LOCAL, ALLOWED), TierView(BIG, ALLOWED)) == ["local", "big"]


def test_a_class_may_have_a_specialist_but_never_a_denied_one() -> None:
    assert names(TierView(LOCAL, ALLOWED), TierView(BIG, ALLOWED, cost=1.0), specialist="big") == ["big", "local"]
    assert names(TierView(LOCAL, ALLOWED), TierView(BIG, DENIED), specialist="big") == ["local"]


def test_given_no_class_matches_and_cloud_is_not_permitted_then_the_best_permitted_local_tier_serves() -> None:
    """Behaviour 41."""
    nothing = Task("chat", ClassSource.DEFAULT, ("no_match",))
    views = (TierView(LOCAL, DOUBTED), TierView(BIG, DENIED), TierView(CLOUD, ALLOWED, excluded="cloud_not_permitted"))
    assert names(*views, task=nothing) == ["local"]


def test_given_a_class_denied_on_local_and_no_cloud_then_the_refusal_names_class_tier_and_reason() -> None:
    """Behaviour 42."""
    made = plan_route(PLANNING, (TierView(LOCAL, DENIED), TierView(CLOUD, ALLOWED, excluded="cloud_not_permitted")))
    assert made.steps == ()
    assert made.refusal() == (
        "no tier may serve class 'planning': local: denied: 3 of 40 passed; "
        "cloud: requests do not go to the cloud ([router] allow_cloud)"
    )


def test_a_denied_tier_stays_denied_when_everybody_else_is_down() -> None:
    made = plan_route(CHAT, (TierView(LOCAL, DENIED), TierView(CLOUD, ALLOWED, unavailable="circuit_open")))
    assert [step.tier.name for step in made.steps] == ["cloud"]
    assert made.is_last_resort
    assert [(one.tier, one.code) for one in made.excluded] == [("local", "denied")]


def test_an_ailing_tier_is_left_out_as_long_as_anybody_is_well() -> None:
    made = plan_route(CHAT, (TierView(LOCAL, ALLOWED, unavailable="circuit_open"), TierView(CLOUD, ALLOWED, cost=1.0)))
    assert [step.tier.name for step in made.steps] == ["cloud"]
    assert [(one.tier, one.code) for one in made.excluded] == [("local", "circuit_open")]


def test_a_tier_that_asked_for_a_pause_is_not_even_a_last_resort_and_the_soonest_end_is_told() -> None:
    views = TierView(LOCAL, ALLOWED, pause=30.2), TierView(CLOUD, TRUSTED, pause=7.0, pause_status=503)
    made = plan_route(CHAT, views)
    assert (made.steps, made.pause, made.pause_status) == ((), 7.0, 503)
    assert [one.code for one in made.excluded] == ["rate_limited", "rate_limited"]
    assert made.excluded[0].why == "it asked for a pause (HTTP 429): 31 s are left"
    beside = plan_route(CHAT, (*views, TierView(BIG, DOUBTED, unavailable="circuit_open")))
    assert [step.tier.name for step in beside.steps] == ["big"]


def test_the_advice_of_a_refusal_names_tiers_and_classes_that_the_command_takes() -> None:
    unmeasured = TierView(LOCAL, Standing(Verdict.DENY, "not measured at planning"))
    assert plan_route(PLANNING, (unmeasured, TierView(BIG, DENIED))).refusal().endswith(
        "; measure it: stoker eval bootstrap local --class planning"
    )  # fmt: skip
    refactor = Task("multi-file-refactor", ClassSource.DECLARED)
    refusal = plan_route(
        refactor, (TierView(LOCAL, Standing(Verdict.DENY, "not measured at multi-file-refactor")),)
    ).refusal()
    assert "no fixtures of this class ship with Stoker" in refusal
    assert "stoker eval bootstrap local --class multi-file-refactor --suites DIR" in refusal
    changed = TierView(BIG, Standing(Verdict.DENY, "changed since it was measured (40 of 40 passed)"))
    assert plan_route(PLANNING, (changed,)).refusal().endswith("; measure it again: stoker eval calibrate big")
    unseen = TierView(BIG, Standing(Verdict.DENY, "allowed (40 of 40 passed), but ...: it has to be loaded once"))
    assert plan_route(PLANNING, (unseen,)).refusal().endswith("; load it: stoker serves up large")
    elsewhere = TierView(BIG, Standing(Verdict.DENY, "not measured at planning"), "not_its_class")
    assert "stoker eval" not in plan_route(PLANNING, (elsewhere,)).refusal(), "bootstrap would refuse it"


def test_a_measured_allow_is_only_watched_and_whoever_is_in_doubt_is_checked_as_its_tier_says() -> None:
    """Behaviours 43 and 44: each step has its own tier's verdict."""
    made = plan_route(
        CHAT, (TierView(LOCAL, DOUBTED), TierView(BIG, ALLOWED, cost=0.1), TierView(CLOUD, TRUSTED, cost=1.0))
    )
    assert [(step.tier.name, step.verify) for step in made.steps] == [
        ("big", Verify.OBSERVE), ("local", Verify.HOLD_ALL), ("cloud", Verify.OFF),
    ]  # fmt: skip


def test_a_class_may_want_another_mode_and_off_is_off() -> None:
    tier = Tier("local", "fast", verify=Verify.OFF, verify_class={"planning": Verify.HOLD_ALL})
    assert plan_route(PLANNING, (TierView(tier, DOUBTED),)).steps[0].verify is Verify.HOLD_ALL
    assert plan_route(CHAT, (TierView(tier, ALLOWED),)).steps[0].verify is Verify.OFF


def test_without_tiers_the_refusal_says_so() -> None:
    assert plan_route(CHAT, ()).refusal() == "no tier may serve class 'chat': no tier is configured"


@given(
    st.lists(
        st.builds(
            TierView,
            st.sampled_from([LOCAL, BIG, CLOUD]),
            st.sampled_from([ALLOWED, DOUBTED, DENIED]),
            st.sampled_from(["", "", "cloud_not_permitted", "context"]),
            st.sampled_from(["", "", "circuit_open"]),
            st.booleans(),
            st.booleans(),
            st.floats(0, 1),
            st.none(),
            st.sampled_from([0.0, 0.0, 12.5]),
            st.sampled_from([429, 503]),
        ),
        max_size=6,
    )
)
def test_every_tier_is_a_step_or_dropped_with_a_reason_and_the_pool_is_only_empty_if_all_are_barred_or_denied(
    views: list[TierView],
) -> None:
    made = plan_route(CHAT, views)
    assert len(made.steps) + len(made.excluded) == len(views)
    assert all(one.code and one.why for one in made.excluded)
    may = [view for view in views if not view.excluded and view.standing.verdict is not Verdict.DENY]
    asked_for_pause = [view for view in may if view.pause]
    assert bool(made.steps) == (len(may) > len(asked_for_pause))
    assert (made.pause is not None) == bool(asked_for_pause)
    assert all(step.verdict is not Verdict.DENY for step in made.steps)


# -- what a tier is worth ------------------------------------------------------------------------------------------


def test_a_local_tier_that_was_never_measured_is_checked_and_denied_at_high_risk() -> None:
    assert standing(LOCAL, "chat", None, IS, high_risk=False) == Standing(
        Verdict.VERIFY, "not measured at chat", False, False,
    )  # fmt: skip
    assert standing(LOCAL, "planning", None, IS, high_risk=True).verdict is Verdict.DENY


def test_a_cloud_tier_is_trusted_until_it_is_measured() -> None:
    assert standing(CLOUD, "planning", None, None, high_risk=True).verdict is Verdict.ALLOW
    assert standing(CLOUD, "chat", row(Verdict.DENY), IS, high_risk=False).verdict is Verdict.DENY


def test_an_allow_counts_for_what_was_measured_and_no_longer_after_a_change() -> None:
    """Behaviour 43."""
    allowed = row(Verdict.ALLOW)
    assert standing(LOCAL, "chat", allowed, IS, high_risk=True).verdict is Verdict.ALLOW
    changed = standing(LOCAL, "chat", allowed, Fingerprint("i", "other"), high_risk=False)
    assert (changed.verdict, changed.is_stale) == (Verdict.VERIFY, True)
    assert standing(LOCAL, "chat", allowed, Fingerprint("other", "e"), high_risk=True).verdict is Verdict.DENY


def test_a_deny_stays_a_deny_after_a_change_and_says_that_it_may_be_measured_again() -> None:
    found = standing(LOCAL, "chat", row(Verdict.DENY, passed=3), Fingerprint("other", "e"), high_risk=False)
    assert (found.verdict, found.is_stale) == (Verdict.DENY, True)
    assert "measure it again" in found.why


def test_an_allow_of_what_is_not_loaded_is_checked_as_far_as_anybody_knows_what_it_is() -> None:
    allowed = row(Verdict.ALLOW)
    assert standing(LOCAL, "chat", allowed, IS, high_risk=True, is_loaded=False).verdict is Verdict.VERIFY
    changed = standing(LOCAL, "chat", allowed, Fingerprint("i", "x"), high_risk=True, is_loaded=False)
    assert (changed.verdict, changed.is_stale) == (Verdict.DENY, True)


def test_an_allow_of_what_nobody_has_looked_at_is_worth_as_much_as_none() -> None:
    allowed = row(Verdict.ALLOW)
    assert standing(LOCAL, "chat", allowed, None, high_risk=False).verdict is Verdict.VERIFY
    assert standing(LOCAL, "chat", allowed, None, high_risk=True).verdict is Verdict.DENY
    assert standing(CLOUD, "chat", allowed, None, high_risk=True).verdict is Verdict.ALLOW


def test_whose_answers_became_worse_is_checked_again_until_it_is_measured_again() -> None:
    """The alarm denies nothing, but at high risk."""
    allowed, denied = row(Verdict.ALLOW), row(Verdict.DENY)
    found = standing(LOCAL, "chat", allowed, IS, high_risk=False, is_suspect=True)
    assert (found.verdict, found.is_stale) == (Verdict.VERIFY, True)
    assert standing(LOCAL, "chat", allowed, IS, high_risk=True, is_suspect=True).verdict is Verdict.DENY
    assert standing(LOCAL, "chat", denied, IS, high_risk=False, is_suspect=True) == Standing(
        Verdict.DENY, "denied: 40 of 40 passed", False, False, is_measured=True,
    )  # fmt: skip


@pytest.mark.parametrize("verdict", Verdict)
def test_what_is_measured_of_a_model_that_cannot_be_identified_proves_nothing_and_did_not_change(
    verdict: Verdict,
) -> None:
    now = Fingerprint("", "e", {"model": "sha256:1", "revision": "r", "quantisation": "q", "sampling": "default"})
    found = standing(LOCAL, "chat", row(verdict, passed=3, identity=""), now, high_risk=False)
    assert found == Standing(
        Verdict.DENY if verdict is Verdict.DENY else Verdict.VERIFY,
        "3 of 40 passed, but which model runs is not known (its template)", is_measured=True,
    )  # fmt: skip
    assert standing(LOCAL, "chat", row(verdict, identity=""), now, high_risk=True).verdict is Verdict.DENY


def test_few_samples_are_no_allow_and_undecided_is_a_deny_at_high_risk_only() -> None:
    few = row(Verdict.ALLOW, n=MIN_SAMPLES - 1, passed=MIN_SAMPLES - 1)
    assert standing(LOCAL, "chat", few, IS, high_risk=False).verdict is Verdict.VERIFY
    undecided = row(Verdict.VERIFY)
    assert standing(LOCAL, "chat", undecided, IS, high_risk=False).verdict is Verdict.VERIFY
    assert standing(LOCAL, "chat", undecided, IS, high_risk=True).verdict is Verdict.DENY


def test_a_cloud_whose_weights_nobody_sees_did_not_change_while_its_name_is_the_same() -> None:
    seen = row(Verdict.DENY, passed=3, identity="")
    now = Fingerprint("", "e")
    assert standing(CLOUD, "chat", seen, now, False).why == "denied: 3 of 40 passed"
    assert standing(CLOUD, "chat", row(Verdict.ALLOW, identity=""), now, False).is_proved
    assert standing(CLOUD, "chat", seen, Fingerprint("", "other"), False).is_stale
    assert not standing(LOCAL, "chat", row(Verdict.ALLOW, identity=""), now, False).is_proved, "it may be anything"


def test_where_nothing_is_measured_the_first_trusted_tier_is_asked_first() -> None:
    local, cloud = TierView(LOCAL, DOUBTED), TierView(CLOUD, TRUSTED, cost=0.1)
    assert [one.tier.name for one in plan_route(CHAT, (local, cloud), trusted_first=True).steps] == ["cloud", "local"]
    measured = local._replace(standing=Standing(Verdict.VERIFY, "undecided: 10 of 11 passed", is_measured=True))
    assert [one.tier.name for one in plan_route(CHAT, (measured, cloud), trusted_first=True).steps] == [
        "local",
        "cloud",
    ]
    steps = plan_route(CHAT, (local, cloud), specialist="local", trusted_first=True).steps
    assert [one.tier.name for one in steps] == ["local", "cloud"], "the operator's word counts"
    assert [one.tier.name for one in plan_route(CHAT, (local,), trusted_first=True).steps] == ["local"]


def test_what_was_measured_is_said_of_a_standing() -> None:
    assert not standing(LOCAL, "chat", None, IS, False).is_measured
    assert not standing(CLOUD, "chat", None, None, False).is_measured
    for verdict in Verdict:
        assert standing(LOCAL, "chat", row(verdict), IS, False).is_measured
    assert standing(LOCAL, "chat", row(Verdict.ALLOW), Fingerprint("j", "e"), False).is_measured, "once"
