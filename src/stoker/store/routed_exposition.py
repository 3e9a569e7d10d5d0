"""The series of routed requests. Imported at the first scrape, as `exposition` is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from stoker.store.families import counter, gauge, records
from stoker.store.labels import CIRCUITS
from stoker.store.routed import RoutedCounts


def families(counts: RoutedCounts, status: Mapping[str, object]) -> Iterator[Metric]:
    """Each table is copied in one step: the event loop may change it."""
    yield counter(
        "stoker_routed_requests",
        "Requests that named a task, by the tier that answered.",
        ("task", "tier", "outcome"),
        list(counts.requests.items()),
    )
    yield counter(
        "stoker_routed_classes",
        "Requests that named a task, by who said the class, and from which probability on.",
        ("source", "certainty"),
        list(counts.classified.items()),
    )
    yield counter(
        "stoker_tier_attempts",
        "Times that a tier was tried, by what came of it.",
        ("tier", "outcome"),
        list(counts.attempts.items()),
    )
    yield counter(
        "stoker_tier_repairs",
        "Times that a tier was asked once more, since its answer was found wrong.",
        ("tier",),
        (((tier,), count) for tier, count in list(counts.repairs.items())),
    )
    yield counter(
        "stoker_tier_findings",
        "Answers of a tier in which a check proved something wrong.",
        ("tier", "check"),
        list(counts.findings.items()),
    )
    yield counter(
        "stoker_tier_cost",
        "What a tier cost, as far as its tokens are known, in the currency of the tiers.",
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
        ("stoker_routed_cost_saved", "What answers cost less than the dearest cloud tier would have.", counts.saved),
        ("stoker_routed_cost_overspent", "What answers cost more than it would have.", counts.overspent),
    ):
        yield counter(name, text, (), [((), value)] if counts.clouds else ())
    yield counter(
        "stoker_shadow_graded",
        "Answers that a judge graded, by what it said.",
        ("task", "tier", "verdict"),
        list(counts.graded.items()),
    )
    yield counter(
        "stoker_shadow_dropped",
        "Answers that were drawn to be graded and were not, by reason.",
        ("reason",),
        (((reason,), count) for reason, count in list(counts.ungraded.items())),
    )
    text = "What grading cost, in the currency of the tiers."
    yield counter("stoker_shadow_cost", text, (), [((), counts.judging)] if counts.graded or counts.ungraded else ())
    yield counter(
        "stoker_classifier_asked",
        "Times that a model was to tell the class of a request, by what came of it.",
        ("outcome",),
        (((outcome,), count) for outcome, count in list(counts.classifier.items())),
    )
    routing = status.get("routing")
    tiers = records(routing.get("tiers"), "tier") if isinstance(routing, Mapping) else []
    yield gauge(
        "stoker_tier_circuit",
        "1 for the state that a tier's circuit is in, 0 for the others.",
        ("tier", "state"),
        (((str(one["tier"]), state), float(one.get("circuit") == state)) for one in tiers for state in CIRCUITS),
    )
