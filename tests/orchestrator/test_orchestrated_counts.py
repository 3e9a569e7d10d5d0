"""What a scrape shows of requests that name an orchestrator."""

from __future__ import annotations

from tests.store.test_metrics import samples_of, sealed, value

from stoker.domain.decision import OrchestratedRecord
from stoker_orchestrator.counts import OrchestratedCounts
from stoker_orchestrator.exposition import families


def blocks() -> OrchestratedCounts:
    """Every series has a sample."""
    counts = OrchestratedCounts()
    counts.observe(sealed(), OrchestratedRecord("pair", "simple", "chat", failures={"names": 1}))
    return counts


def test_blocks_failures_and_tokens_of_an_orchestrated_request_are_counted_once() -> None:
    counts = OrchestratedCounts()
    record = OrchestratedRecord(
        "pair", "block_by_block", "code-write", blocks=5, resumed=2, discarded=1, validator_tokens=40, wasted_tokens=7,
        failures={"structure": 2, "validator": 1, "unreadable": 4},
    )  # fmt: skip
    counts.observe(sealed(input_tokens=100, output_tokens=50), record)
    samples = samples_of(families(counts))
    of = {"orchestrator": "pair"}
    requests = "stoker_orchestrated_requests_total"
    assert value(samples, requests, **of, policy="block_by_block", outcome="served") == 1
    blocks = {result: value(samples, "stoker_orchestrated_blocks_total", **of, result=result)
              for result in ("committed", "failed", "discarded")}  # fmt: skip
    assert blocks == {"committed": 3, "failed": 3, "discarded": 1}, "an unreadable answer is no failed block"
    assert value(samples, "stoker_orchestrated_check_failures_total", **of, layer="unreadable") == 4
    tokens = {role: value(samples, "stoker_orchestrated_tokens_total", **of, role=role)
              for role in ("worker", "validator", "wasted")}  # fmt: skip
    assert tokens == {"worker": 150, "validator": 40, "wasted": 7}


def test_labels_of_orchestrated_requests_are_bounded() -> None:
    counts = OrchestratedCounts()
    for number in range(2000):
        record = OrchestratedRecord(f"o{number}", f"policy{number}", "x", failures={f"layer{number}": 1})
        counts.observe(sealed(), record)
    samples = samples_of(families(counts))
    assert len(samples["stoker_orchestrated_requests_total"]) < 1000
    layers = {dict(labels)["layer"] for labels in samples["stoker_orchestrated_check_failures_total"]}
    assert layers == {"other"}
