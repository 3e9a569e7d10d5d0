"""What routing did, counted from decisions; and what it cost beside the dearest cloud."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.domain.decision import Attempt, Decision, Routed
from stoker.domain.routing import RouterSettings
from stoker.domain.tier import Cost, ProfileRow, Tier, Verdict
from stoker_auto.routing_report import TierRoute, silent_failure_interval, tier_routes, total_route, verdicts_of
from stoker_auto.spending import always_cloud, cloud_costs, saved
from stoker_lab.statistics.stats import wilson

CLOUD = (Cost(10.0, 100.0),)
ALLOWED = {(tier, task): Verdict.ALLOW for tier in ("cheap", "dear") for task in ("chat", "planning")}


def tried(tier: str, outcome: str = "served", cost: float | None = 0.0, **more: Any) -> Attempt:
    return Attempt(tier, outcome, more.pop("input_tokens", 1000), more.pop("output_tokens", 100), cost, **more)


def made(*attempts: Attempt, task: str = "chat", outcome: str = "served") -> Decision:
    answered = [one.tier for one in attempts if one.outcome == "served"]
    route = Routed(task, "rules", tier=answered[0] if answered else "", attempts=list(attempts))
    last = attempts[-1] if attempts else None
    tokens = (None, None) if last is None else (last.input_tokens, last.output_tokens)
    return Decision(
        "r", 0.0, "/v1/chat/completions", outcome=outcome, routed=route, input_tokens=tokens[0], output_tokens=tokens[1]
    )


def row(rows: list[TierRoute], tier: str, task: str = "chat") -> TierRoute:
    return next(one for one in rows if (one.tier, one.task) == (tier, task))


def test_a_tier_is_judged_by_the_requests_that_it_got_first() -> None:
    decisions = [
        made(tried("cheap")), made(tried("cheap")), made(tried("cheap")),
        made(tried("cheap", "failed_verification"), tried("dear")),
        made(tried("dear")),
    ]  # fmt: skip
    rows = tier_routes(decisions, CLOUD, ALLOWED)
    cheap, dear = row(rows, "cheap"), row(rows, "dear")
    assert (cheap.requests, cheap.first, cheap.accepted, cheap.escalated) == (4, 4, 3, 1)
    assert (cheap.accept_rate, cheap.escalation_rate) == (0.75, 0.25)
    assert cheap.accept_interval == wilson(3, 4)
    assert (dear.requests, dear.first, dear.accepted, dear.escalated) == (2, 1, 1, 0), "it answered one second-hand"


@pytest.mark.parametrize("outcome", ["client_left", "refused", "cut", "bug", "open"])
def test_a_request_that_says_nothing_of_a_tier_is_not_held_against_it(outcome: str) -> None:
    (found,) = tier_routes([made(tried("cheap", "left"), outcome=outcome)], CLOUD, ALLOWED)
    assert (found.requests, found.first, found.accept_rate) == (1, 0, None)


def test_a_tier_that_failed_with_nobody_behind_it_was_not_enough() -> None:
    (found,) = tier_routes([made(tried("cheap", "unreachable"), outcome="upstream_failed")], CLOUD, ALLOWED)
    assert (found.first, found.accepted, found.escalated) == (1, 0, 0)


def test_classes_are_kept_apart_and_who_names_a_model_is_not_counted() -> None:
    decisions = [made(tried("cheap"), task="planning"), made(tried("cheap")), Decision("r", 0.0, "/v1/models")]
    assert [(one.task, one.tier, one.requests) for one in tier_routes(decisions, CLOUD, ALLOWED)] == [
        ("chat", "cheap", 1), ("planning", "cheap", 1),
    ]  # fmt: skip


def test_repairs_and_findings_add_up() -> None:
    bad = tried("cheap", "failed_verification", repairs=1, findings=["json", "empty"])
    found = row(tier_routes([made(bad, tried("dear")), made(bad, tried("dear"))], CLOUD, ALLOWED), "cheap")
    assert (found.repairs, found.findings) == (2, {"json": 2, "empty": 2})


def test_an_answer_that_was_thrown_away_lessens_what_the_one_after_it_saves() -> None:
    bad, good = tried("cheap", "failed_verification", cost=0.004), tried("dear", cost=0.02)
    rows = tier_routes([made(bad, good), made(tried("cheap", cost=0.004))], CLOUD, ALLOWED)
    assert row(rows, "dear").saved == pytest.approx(-0.004)
    assert row(rows, "cheap").saved == pytest.approx(0.016)
    assert row(rows, "cheap").cost == pytest.approx(0.008)
    whole = total_route(rows)
    assert whole.saved == pytest.approx(0.012)
    assert whole.always_cloud == pytest.approx(0.04)


def test_without_a_cloud_or_without_tokens_nothing_is_known_to_be_saved() -> None:
    assert tier_routes([made(tried("cheap"))], (), ALLOWED)[0].saved is None
    (found,) = tier_routes([made(tried("cheap", cost=None, input_tokens=None))], CLOUD, ALLOWED)
    assert (found.cost, found.saved, found.always_cloud) == (None, None, None)


def test_of_no_requests_there_is_a_total_that_knows_nothing() -> None:
    whole = total_route(tier_routes([], CLOUD, ALLOWED))
    assert (whole.requests, whole.accept_rate, whole.escalation_rate, whole.saved) == (0, None, None, None)


def test_the_total_adds_all_tiers() -> None:
    bad = tried("cheap", "failed_verification", repairs=1, findings=["json"])
    whole = total_route(
        tier_routes(
            [made(bad, tried("dear", findings=["json"])), made(tried("cheap"), task="planning")], CLOUD, ALLOWED
        )
    )
    assert (whole.requests, whole.first, whole.accepted, whole.escalated, whole.repairs) == (3, 2, 1, 1, 1)
    assert whole.findings == {"json": 2}


def test_the_dearest_cloud_is_the_one_that_these_tokens_would_cost_most_at() -> None:
    clouds = (Cost(100.0, 0.0), Cost(0.0, 500.0))
    assert always_cloud(made(tried("cheap")), clouds) == pytest.approx(0.1)
    long_answer = made(tried("cheap", input_tokens=10, output_tokens=1000))
    assert always_cloud(long_answer, clouds) == pytest.approx(0.5)


def test_only_the_answer_that_the_client_got_is_priced_at_the_cloud() -> None:
    decision = made(tried("a", "empty", cost=1.0), tried("b", cost=None))
    assert decision.routed is not None
    assert decision.routed.cost == 1.0
    assert always_cloud(decision, CLOUD) == pytest.approx(0.02)
    assert saved(decision, CLOUD) == pytest.approx(0.02 - 1.0)
    assert saved(made(tried("a", "empty"), outcome="upstream_failed"), CLOUD) is None
    assert saved(Decision("r", 0.0, "/", input_tokens=1, output_tokens=1), CLOUD) is None, "it named a model"


def test_an_answer_that_was_asked_for_twice_is_paid_twice_and_priced_once() -> None:
    decision = made(tried("a", cost=0.004, input_tokens=2000, output_tokens=200, repairs=1))
    decision.input_tokens, decision.output_tokens = 1000, 100
    assert always_cloud(decision, CLOUD) == pytest.approx(0.02)
    assert saved(decision, CLOUD) == pytest.approx(0.016)


def test_rates_of_clouds_are_taken_from_the_tiers_that_are_clouds() -> None:
    tiers = (Tier("a", "a", cost=Cost(1.0, 1.0)), Tier("b", "b", cloud=True, cost=Cost(3.0, 15.0)))
    assert cloud_costs(RouterSettings(tiers)) == (Cost(3.0, 15.0),)
    assert cloud_costs(None) == ()


def test_silent_failures_are_an_interval_around_the_graded_sample() -> None:
    assert silent_failure_interval(3, 100) == wilson(3, 100)
    assert silent_failure_interval(3, 100).low < 0.03 < silent_failure_interval(3, 100).high
    assert silent_failure_interval(0, 0) == (0.0, 1.0), "nothing graded: nothing known"


@pytest.mark.parametrize(("wrong", "graded"), [(2, 1), (-1, 5), (0, -1)])
def test_a_sample_that_cannot_be_is_an_error(wrong: int, graded: int) -> None:
    with pytest.raises(ValueError, match="accepted_wrong"):
        silent_failure_interval(wrong, graded)


def test_what_nobody_measured_is_neither_accepted_nor_saved() -> None:
    decisions = [made(tried("cheap")), made(tried("cheap")), made(tried("cheap"), task="planning")]
    verdicts = {("cheap", "planning"): Verdict.ALLOW}
    rows = tier_routes(decisions, CLOUD, verdicts)
    chat, planning = row(rows, "cheap"), row(rows, "cheap", "planning")
    assert (chat.first, chat.accepted, chat.unmeasured, chat.accept_rate, chat.saved) == (2, 2, 2, None, None)
    assert (planning.unmeasured, planning.accept_rate, planning.verdict) == (0, 1.0, "allow")
    whole = total_route(rows)
    assert (whole.first, whole.unmeasured, whole.accept_rate) == (3, 2, 1.0)
    assert whole.saved == planning.saved


@pytest.mark.parametrize("verdict", [Verdict.VERIFY, Verdict.DENY])
def test_only_a_tier_with_an_allow_saves(verdict: Verdict) -> None:
    (found,) = tier_routes([made(tried("cheap"))], CLOUD, {("cheap", "chat"): verdict})
    assert (found.accept_rate, found.saved) == (1.0, None)


def test_what_escalations_and_repairs_cost_is_told() -> None:
    bad, good = tried("cheap", "failed_verification", cost=0.004), tried("dear", cost=0.02, repairs=1)
    whole = total_route(tier_routes([made(bad, good)], CLOUD, ALLOWED))
    assert (whole.escalations, whole.repaired) == (pytest.approx(0.004), pytest.approx(0.01))


def test_a_suites_verdict_comes_before_that_of_live_grades() -> None:
    suite = {("cheap", "chat"): ProfileRow("cheap", "chat", "i", "e", 3, 0, Verdict.DENY)}
    live = [ProfileRow("cheap", name, "i", "e", 30, 30, Verdict.ALLOW) for name in ("chat", "review")]
    assert verdicts_of(suite, live) == {("cheap", "chat"): Verdict.DENY, ("cheap", "review"): Verdict.ALLOW}
