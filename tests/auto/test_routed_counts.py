"""What a scrape shows of requests that name a task."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.test_metrics import samples_of, sealed, value

from stoker.domain.decision import Attempt, Decision, Routed
from stoker.domain.tier import Cost
from stoker.store import labels
from stoker_auto.counts import RoutedCounts
from stoker_auto.decide.breaker import BreakerState
from stoker_auto.exposition import families

ROUTING: dict[str, object] = {
    "tiers": [{"tier": "cheap", "circuit": "half-open"}, {"tier": "dear", "circuit": "closed"}],
    "contradictions": [{"tier": "cheap", "class": "chat", "why": "the judge contradicts the suite"}],
}


def observe(counts: RoutedCounts, decision: Decision) -> None:
    if decision.routed is not None:
        counts.observe(decision, decision.routed)


def every_count() -> RoutedCounts:
    """Every series has a sample."""
    counts = RoutedCounts()
    counts.set_clouds((Cost(3.0, 15.0),))
    observe(counts, sealed(routed=routed(tried("cheap", "served", cost=0.0, repairs=1, findings=["json"]))))
    counts.observe_grade("chat", "cheap", "pass")
    counts.observe_demotion("cheap", "chat")
    counts.ungraded["queue_full"] += 1
    counts.classifier["busy"] += 1
    return counts


def scrape(counts: RoutedCounts, routing: dict[str, object] | None = None) -> dict[str, dict[Any, float]]:
    return samples_of(families(counts, routing or {}))


def tried(
    tier: str, outcome: str, input_tokens: int | None = 1000, output_tokens: int | None = 100, **more: Any
) -> Attempt:
    return Attempt(tier, outcome, input_tokens, output_tokens, **more)


def routed(*attempts: Attempt, task: str = "chat") -> Routed:
    answered = [attempt.tier for attempt in attempts if attempt.outcome == "served"]
    return Routed(task, "rules", tier=answered[0] if answered else "", verdict="allow", attempts=list(attempts))


def test_a_routed_request_counts_by_its_class_and_the_tier_that_answered() -> None:
    counts = RoutedCounts()
    observe(counts, sealed(routed=routed(tried("cheap", "served"))))
    observe(counts, sealed(routed=routed(tried("cheap", "failed_verification"), tried("dear", "served"))))
    observe(counts, sealed(routed=routed(task="planning"), outcome="refused", status=403))
    observe(counts, sealed())
    samples = scrape(counts)
    assert value(samples, "stoker_routed_requests_total", task="chat", tier="cheap", outcome="served") == 1
    assert value(samples, "stoker_routed_requests_total", task="chat", tier="dear", outcome="served") == 1
    assert value(samples, "stoker_routed_requests_total", task="planning", tier="none", outcome="refused") == 1
    assert sum(samples["stoker_routed_requests_total"].values()) == 3, "who names a model is not routed"


def test_a_demotion_counts_by_class_and_tier() -> None:
    counts = RoutedCounts()
    for tier, task in (("cheap", "chat"), ("cheap", "chat"), ("cheap", "planning")):
        counts.observe_demotion(tier, task)
    samples = scrape(counts)
    assert value(samples, "stoker_tier_demotions_total", tier="cheap", task="chat") == 2
    assert value(samples, "stoker_tier_demotions_total", tier="cheap", task="planning") == 1


def test_each_tier_that_was_tried_counts_with_what_came_of_it_what_was_found_and_what_it_cost() -> None:
    counts = RoutedCounts()
    bad = tried("cheap", "failed_verification", cost=0.25, repairs=1, findings=["json", "empty"])
    observe(counts, sealed(routed=routed(bad, tried("dear", "served", cost=0.5))))
    observe(counts, sealed(routed=routed(bad, tried("dear", "unreachable", None, None))))
    samples = scrape(counts)
    assert value(samples, "stoker_tier_attempts_total", tier="cheap", outcome="failed_verification") == 2
    assert value(samples, "stoker_tier_attempts_total", tier="dear", outcome="served") == 1
    assert value(samples, "stoker_tier_attempts_total", tier="dear", outcome="unreachable") == 1
    assert value(samples, "stoker_tier_repairs_total", tier="cheap") == 2
    assert value(samples, "stoker_tier_repairs_total", tier="dear") == 0
    assert value(samples, "stoker_tier_findings_total", tier="cheap", check="json") == 2
    assert value(samples, "stoker_tier_findings_total", tier="cheap", check="empty") == 2
    assert value(samples, "stoker_tier_cost_total", tier="cheap") == 0.5
    assert value(samples, "stoker_tier_cost_total", tier="dear") == 0.5, "what is not known is not counted"


def test_money_is_saved_against_the_cloud_that_is_dearest_for_these_tokens() -> None:
    counts = RoutedCounts()
    counts.set_clouds((Cost(1.0, 1.0), Cost(100.0, 1000.0), Cost(100.0, 500.0)))
    observe(counts, sealed(routed=routed(tried("cheap", "served", cost=0.05)), input_tokens=1000, output_tokens=100))
    samples = scrape(counts)
    assert value(samples, "stoker_routed_cost_saved_total") == pytest.approx(0.2 - 0.05)
    assert value(samples, "stoker_routed_cost_overspent_total") == 0


def test_an_answer_that_was_paid_twice_is_overspent_and_the_savings_do_not_go_down() -> None:
    counts = RoutedCounts()
    counts.set_clouds((Cost(100.0, 1000.0),))
    observe(counts, sealed(routed=routed(tried("cheap", "served", cost=0.0)), input_tokens=1000, output_tokens=100))
    observe(
        counts,
        sealed(
            routed=routed(tried("cheap", "empty", cost=0.05), tried("dear", "served", cost=0.2)),
            input_tokens=1000,
            output_tokens=100,
        ),
    )
    samples = scrape(counts)
    assert value(samples, "stoker_routed_cost_saved_total") == pytest.approx(0.2)
    assert value(samples, "stoker_routed_cost_overspent_total") == pytest.approx(0.05)


def test_what_is_not_known_is_neither_saved_nor_overspent() -> None:
    counts = RoutedCounts()
    observe(counts, sealed(routed=routed(tried("cheap", "served", cost=0.0)), input_tokens=1000, output_tokens=100))
    assert "stoker_routed_cost_saved_total" not in scrape(counts), "there is no cloud to compare with"
    counts.set_clouds((Cost(100.0, 1000.0),))
    observe(counts, sealed(routed=routed(tried("cheap", "served"))))
    observe(counts, sealed(routed=routed(tried("cheap", "unreachable")), outcome="upstream_failed"))
    assert value(scrape(counts), "stoker_routed_cost_saved_total") == 0
    assert value(scrape(counts), "stoker_routed_cost_overspent_total") == 0


def test_an_answer_of_a_tier_that_nobody_measured_saves_nothing() -> None:
    counts = RoutedCounts()
    counts.set_clouds((Cost(100.0, 1000.0),))
    route = routed(tried("cheap", "served", cost=0.0))
    route.verdict = "allow-with-verify"
    observe(counts, sealed(routed=route, input_tokens=1000, output_tokens=100))
    assert value(scrape(counts), "stoker_routed_cost_saved_total") == 0


def test_no_word_of_a_decision_makes_series_without_bound() -> None:
    counts = RoutedCounts()
    for number in range(700):
        attempt = tried(f"t{number}", f"Odd code {number}", findings=[f"f{number}"])
        observe(counts, sealed(outcome=f"o{number}", routed=routed(attempt, task=f"c{number}")))
    samples = scrape(counts)
    assert len(samples["stoker_routed_requests_total"]) == 501
    assert len(samples["stoker_tier_attempts_total"]) == 501
    assert value(samples, "stoker_tier_attempts_total", tier="t0", outcome="other") == 1
    assert value(samples, "stoker_tier_findings_total", tier="t0", check="other") == 1


def test_the_circuit_of_a_tier_is_in_one_state() -> None:
    samples = scrape(RoutedCounts(), ROUTING)
    states = {state: value(samples, "stoker_tier_circuit", tier="cheap", state=state) for state in BreakerState}
    assert states == {"closed": 0, "open": 0, "half-open": 1, "rate-limited": 0}
    assert value(samples, "stoker_tier_circuit", tier="dear", state="closed") == 1
    assert value(samples, "stoker_tier_contradicted", task="chat", tier="cheap") == 1
    assert "stoker_tier_circuit" not in scrape(RoutedCounts())


@pytest.mark.parametrize(
    ("source", "notes", "said"),
    [
        ("declared", ["declared"], ("declared", labels.NONE)),
        ("learned", ["ask:plan", "sure:80%"], ("learned", "0.8")),
        ("learned", ["sure:79%"], ("learned", "0.5")),
        ("learned", ["sure:49%"], ("learned", "0")),
        ("learned", ["sure:%"], ("learned", labels.NONE)),
        ("a source of tomorrow", [], ("other", labels.NONE)),
    ],
)
def test_how_sure_classes_are_is_counted_in_few_steps(source: str, notes: list[str], said: tuple[str, str]) -> None:
    counts = RoutedCounts()
    counts.observe(sealed(), Routed("chat", source, notes))
    assert value(scrape(counts), "stoker_routed_classes_total", source=said[0], certainty=said[1]) == 1


def test_what_came_of_asking_a_model_for_classes_is_counted() -> None:
    counts = RoutedCounts()
    assert "stoker_classifier_asked_total" not in scrape(counts)
    counts.classifier["timed_out"] += 2
    assert value(scrape(counts), "stoker_classifier_asked_total", outcome="timed_out") == 2


def test_grades_are_counted_by_class_tier_and_verdict_and_what_was_not_graded_by_reason() -> None:
    counts = RoutedCounts()
    assert "stoker_shadow_cost_total" not in scrape(counts), "nothing was ever drawn"
    for word in ("pass", "pass", "fail"):
        counts.observe_grade("chat", "cheap", word)
    counts.ungraded["judge_busy"] += 2
    counts.observe_judging(0.25)
    samples = scrape(counts)
    assert value(samples, "stoker_shadow_graded_total", task="chat", tier="cheap", verdict="pass") == 2
    assert value(samples, "stoker_shadow_graded_total", task="chat", tier="cheap", verdict="fail") == 1
    assert value(samples, "stoker_shadow_dropped_total", reason="judge_busy") == 2
    assert value(samples, "stoker_shadow_cost_total") == 0.25
