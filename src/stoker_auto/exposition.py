"""The series of routed requests. Imported at the first scrape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from stoker.store.families import counter, gauge, records
from stoker_auto.counts import RoutedCounts
from stoker_auto.decide.breaker import BreakerState


def families(counts: RoutedCounts, routing: Mapping[str, object]) -> Iterator[Metric]:
    """Each table is copied in one step: the event loop may change it. `routing`: that of /status."""
    yield counter(
        "stoker_routed_requests",
        "Routed requests, by the tier that answered.",
        ("task", "tier", "outcome"),
        list(counts.requests.items()),
    )
    yield counter(
        "stoker_routed_classes",
        "Routed requests, by the source of their class and its certainty.",
        ("source", "certainty"),
        list(counts.classified.items()),
    )
    yield counter(
        "stoker_tier_attempts",
        "Attempts at tiers, by outcome.",
        ("tier", "outcome"),
        list(counts.attempts.items()),
    )
    yield counter(
        "stoker_tier_repairs",
        "Repairs: a tier was asked again because its answer was wrong.",
        ("tier",),
        (((tier,), count) for tier, count in list(counts.repairs.items())),
    )
    yield counter(
        "stoker_tier_findings",
        "Answers of a tier that failed a check.",
        ("tier", "check"),
        list(counts.findings.items()),
    )
    yield counter(
        "stoker_tier_cost",
        "Cost of a tier, as far as its tokens are known, in the currency of the tiers.",
        ("tier",),
        (((tier,), cost) for tier, cost in list(counts.cost.items())),
    )
    yield counter(
        "stoker_tier_demotions",
        "Times that a tier was demoted: its preflight failed after an alarm.",
        ("task", "tier"),
        list(counts.demoted.items()),
    )
    for name, text, value in (
        ("stoker_routed_cost_saved", "Cost saved, compared with the most expensive cloud tier.", counts.saved),
        ("stoker_routed_cost_overspent", "Extra cost, compared with the most expensive cloud tier.", counts.overspent),
    ):
        yield counter(name, text, (), [((), value)] if counts.clouds else ())
    yield counter(
        "stoker_shadow_graded",
        "Answers that were graded by a model, by grade.",
        ("task", "tier", "verdict"),
        list(counts.graded.items()),
    )
    yield counter(
        "stoker_shadow_dropped",
        "Sampled answers that were not graded, by reason.",
        ("reason",),
        (((reason,), count) for reason, count in list(counts.ungraded.items())),
    )
    text = "Cost of grading, in the currency of the tiers."
    yield counter("stoker_shadow_cost", text, (), [((), counts.judging)] if counts.graded or counts.ungraded else ())
    yield counter(
        "stoker_classifier_asked",
        "Requests to the classifier model, by outcome.",
        ("outcome",),
        (((outcome,), count) for outcome, count in list(counts.classifier.items())),
    )
    tiers, contradicted = records(routing.get("tiers"), "tier"), records(routing.get("contradictions"), "tier")
    yield gauge(
        "stoker_tier_contradicted",
        "1 while the judge of live answers contradicts what the suite measured of a tier.",
        ("task", "tier"),
        (((str(one["class"]), str(one["tier"])), 1.0) for one in contradicted),
    )
    yield gauge(
        "stoker_tier_circuit",
        "1 for the state that a tier's circuit is in, 0 for the others.",
        ("tier", "state"),
        (((str(one["tier"]), state), float(one.get("circuit") == state)) for one in tiers for state in BreakerState),
    )
