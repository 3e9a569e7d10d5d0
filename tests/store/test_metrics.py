"""What a scrape shows of the requests and swaps that were."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from bench.cost_guard import bytecode
from prometheus_client.parser import text_string_to_metric_families

from stoker.domain.decision import Attempt, Decision, OrchestratedRecord, Routed
from stoker.domain.tier import Cost
from stoker.domain.usage import MediaUnits
from stoker.store import labels
from stoker.store.exposition import expose
from stoker.store.histogram import Histogram
from stoker.store.metrics import Metrics

Labels = frozenset[tuple[str, str]]


def sealed(**changes: Any) -> Decision:
    made = Decision(id="req_1", at=1.7e9, endpoint="/v1/chat/completions", serve="fast", status=200, outcome="served")
    for field, value in changes.items():
        setattr(made, field, value)
    return made


def tried(
    tier: str, outcome: str, input_tokens: int | None = 1000, output_tokens: int | None = 100, **more: Any
) -> Attempt:
    return Attempt(tier, outcome, input_tokens, output_tokens, **more)


def routed(*attempts: Attempt, task: str = "chat") -> Routed:
    answered = [attempt.tier for attempt in attempts if attempt.outcome == "served"]
    return Routed(task, "rules", tier=answered[0] if answered else "", verdict="allow", attempts=list(attempts))


def scrape(metrics: Metrics, status: Mapping[str, object] | None = None) -> dict[str, dict[Labels, float]]:
    """Sample name to labels to value."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(expose(metrics, status or {}).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def value(samples: dict[str, dict[Labels, float]], name: str, **labels: str) -> float | None:
    return samples.get(name, {}).get(frozenset(labels.items()))


def test_audio_and_images_are_counted_by_serve_and_unit() -> None:
    metrics = Metrics()
    metrics.observe(sealed(media=MediaUnits(audio_seconds=2.5)))
    metrics.observe(sealed(media=MediaUnits(audio_seconds=0.5, images=3)))
    metrics.observe(sealed())
    samples = scrape(metrics)
    assert value(samples, "stoker_media_total", serve="fast", unit="audio_seconds") == 3.0
    assert value(samples, "stoker_media_total", serve="fast", unit="images") == 3
    assert value(samples, "stoker_media_total", serve="fast", unit="characters") is None


# -- requests -----------------------------------------------------------------------------------------------------


def test_requests_are_counted_by_serve_endpoint_status_and_outcome() -> None:
    metrics = Metrics()
    for decision in (sealed(), sealed(), sealed(outcome="client_left"), sealed(serve="slow"), sealed(status=502)):
        metrics.observe(decision)
    samples = scrape(metrics)
    same = {"serve": "fast", "endpoint": "/v1/chat/completions"}
    assert value(samples, "stoker_requests_total", **same, status="200", outcome="served") == 2
    assert value(samples, "stoker_requests_total", **same, status="200", outcome="client_left") == 1
    assert value(samples, "stoker_requests_total", **same, status="502", outcome="served") == 1
    assert len(samples["stoker_requests_total"]) == 4


def test_times_go_into_histograms_and_unknown_ones_into_none() -> None:
    metrics = Metrics()
    metrics.observe(sealed(latency=0.3, ttft=0.2, queued=0.0))
    metrics.observe(sealed(latency=0.7))
    metrics.observe(sealed())
    samples = scrape(metrics)
    assert value(samples, "stoker_request_seconds_count", serve="fast") == 2
    assert value(samples, "stoker_request_seconds_sum", serve="fast") == pytest.approx(1.0)
    assert value(samples, "stoker_request_seconds_bucket", serve="fast", le="0.25") == 0
    assert value(samples, "stoker_request_seconds_bucket", serve="fast", le="0.5") == 1
    assert value(samples, "stoker_request_seconds_bucket", serve="fast", le="+Inf") == 2
    assert value(samples, "stoker_ttft_seconds_count", serve="fast") == 1
    assert value(samples, "stoker_queue_seconds_count", serve="fast") == 1
    assert value(samples, "stoker_queue_seconds_bucket", serve="fast", le="0.005") == 1


def test_tokens_are_summed_by_kind_and_unknown_ones_are_not_zero_requests() -> None:
    metrics = Metrics()
    metrics.observe(sealed(input_tokens=100, output_tokens=7, cached_tokens=60))
    metrics.observe(sealed(input_tokens=11))
    samples = scrape(metrics)
    assert value(samples, "stoker_tokens_total", serve="fast", kind="input") == 111
    assert value(samples, "stoker_tokens_total", serve="fast", kind="output") == 7
    assert value(samples, "stoker_tokens_total", serve="fast", kind="cached") == 60


def test_errors_are_counted_by_code_and_success_is_none() -> None:
    metrics = Metrics()
    for reason in ("queue_full", "queue_full", "unknown_model", ""):
        metrics.observe(sealed(reason=reason))
    assert scrape(metrics)["stoker_errors_total"] == {
        frozenset({("code", "queue_full")}): 2,
        frozenset({("code", "unknown_model")}): 1,
    }


STREAMED = {"stream": True, "latency": 3.0, "ttft": 1.0, "output_tokens": 101}


def test_the_token_rate_is_that_of_the_last_reply_after_its_first_token() -> None:
    metrics = Metrics()
    metrics.observe(sealed(**STREAMED))
    assert value(scrape(metrics), "stoker_inference_tokens_per_second", model="fast") == 50
    metrics.observe(sealed(**{**STREAMED, "output_tokens": 21}))
    assert value(scrape(metrics), "stoker_inference_tokens_per_second", model="fast") == 10


@pytest.mark.parametrize(
    "lacks",
    [
        {"stream": False},
        {"output_tokens": None},
        {"output_tokens": 1},
        {"output_tokens": 4},
        {"ttft": None},
        {"latency": None},
        {"ttft": 3.0},
        {"ttft": 2.999},
        {"ttft": 2.96},
        {"outcome": "client_left"},
        {"orchestrated": OrchestratedRecord("pair", "block_by_block", "code-write")},
    ],
)
def test_where_the_token_rate_is_unknown_there_is_none(lacks: dict[str, object]) -> None:
    metrics = Metrics()
    metrics.observe(sealed(**{**STREAMED, **lacks}))
    assert "stoker_inference_tokens_per_second" not in scrape(metrics)
    metrics.observe(sealed(**STREAMED))
    metrics.observe(sealed(**{**STREAMED, "output_tokens": 7, **lacks}))
    rate = value(scrape(metrics), "stoker_inference_tokens_per_second", model="fast")
    assert rate == 50, "and the last known one stays"


# -- labels are bounded -------------------------------------------------------------------------------------------


def test_a_model_name_that_was_only_asked_for_is_no_label() -> None:
    metrics = Metrics()
    metrics.observe(sealed(serve="", model="marker-model", status=404, outcome="refused", reason="unknown_model"))
    text = expose(metrics, {}).decode()
    assert "marker-model" not in text
    assert 'serve="none"' in text


def test_odd_endpoints_statuses_outcomes_and_codes_share_one_series() -> None:
    metrics = Metrics()
    for number in range(300):
        metrics.observe(sealed(endpoint=f"/odd/{number}"))
        metrics.observe(sealed(status=1000 + number))
        metrics.observe(sealed(outcome=f"odd_{number}"))
        metrics.observe(sealed(reason=f"Not a word {number}"))
    samples = scrape(metrics)
    assert len(samples["stoker_requests_total"]) == 4
    assert sum(samples["stoker_requests_total"].values()) == 1200
    assert {dict(found)["endpoint"] for found in samples["stoker_requests_total"]} == {"/v1/chat/completions", "other"}
    assert samples["stoker_errors_total"] == {frozenset({("code", "other")}): 300}
    assert len(metrics.cells) == 4


def test_the_number_of_names_and_codes_has_an_end() -> None:
    metrics = Metrics()
    for number in range(2000):
        metrics.observe(sealed(serve=f"serve{number}", reason=f"code_{number}"))
        metrics.observe_swap(f"serve{number}", f"slot{number}", f"outcome_{number}", {"ready": 1.0})
        metrics.observe_load_failure(f"serve{number}")
    samples = scrape(metrics)
    assert len(samples["stoker_requests_total"]) == 500 + 1
    assert len(samples["stoker_errors_total"]) == 200 + 1
    assert len(samples["stoker_model_load_failures_total"]) == 500 + 1
    assert len(samples["stoker_swaps_total"]) == 500 + 1, "200 outcomes, the other slots, and the rest"
    assert value(samples, "stoker_errors_total", code="other") == 1800


def test_a_label_cannot_break_out_of_its_quotes() -> None:
    metrics = Metrics()
    metrics.observe(sealed(serve='a"} 1\nevil'))
    assert value(scrape(metrics), "stoker_tokens_total", serve='a"} 1\nevil', kind="input") == 0


# -- swaps --------------------------------------------------------------------------------------------------------


def test_a_swap_counts_with_its_duration_and_phases() -> None:
    metrics = Metrics()
    metrics.observe_swap("slow", "gpu0", "done", {"drain": 1.0, "stop": 0.5, "start": 2.0, "ready": 0.25})
    samples = scrape(metrics)
    assert value(samples, "stoker_swaps_total", slot="gpu0", outcome="done") == 1
    assert value(samples, "stoker_model_swap_duration_seconds_sum", serve="slow", temperature="cold") == 3.75
    assert value(samples, "stoker_model_swap_duration_seconds_count", serve="slow", temperature="cold") == 1
    phases = {phase: value(samples, "stoker_model_swap_phase_seconds_sum", phase=phase) for phase in labels.PHASES}
    assert phases == {"drain": 1.0, "check": None, "stop": 0.5, "start": 2.0, "ready": 0.25}


def test_swaps_are_told_apart_by_what_they_were_started_from() -> None:
    metrics = Metrics()
    for temperature in ("warm", "warm", "asleep", "lukewarm"):
        metrics.observe_swap("slow", "gpu0", "ready", {"start": 1.0, "ready": 0.0}, temperature)
    samples = scrape(metrics)
    for temperature, count in {"warm": 2, "asleep": 1, "other": 1, "cold": None}.items():
        found = value(samples, "stoker_model_swap_duration_seconds_count", serve="slow", temperature=temperature)
        assert found == count


def test_the_warm_pool_is_in_bytes_and_its_predictions_are_counted() -> None:
    samples = scrape(Metrics(), STATUS)
    assert value(samples, "stoker_warm_budget_bytes") == 100
    assert value(samples, "stoker_warm_bytes") == 30
    assert value(samples, "stoker_warm_model_bytes", model="slow", how="pages") == 30
    assert value(samples, "stoker_preload_predictions_total", result="hit") == 3
    assert value(samples, "stoker_warm_holder_restarts_total") == 1


def test_a_swap_that_failed_counts_but_is_no_quick_one() -> None:
    metrics = Metrics()
    metrics.observe_swap("slow", "gpu0", "failed", {"drain": 1.0, "stop": 0.5})
    metrics.observe_load_failure("slow")
    samples = scrape(metrics)
    assert value(samples, "stoker_swaps_total", slot="gpu0", outcome="failed") == 1
    assert "stoker_model_swap_duration_seconds_count" not in samples
    assert value(samples, "stoker_model_load_failures_total", model="slow") == 1


# -- what the status document says ----------------------------------------------------------------------------------

STATUS: dict[str, object] = {
    "version": "9.9.9",
    "frontdoor": {"bodies": {"held": 11, "budget": 64, "refused": 2}},
    "serves": [
        {"name": "fast", "state": "ready", "in_flight": 3, "queued": 0, "measured": 77},
        {"name": "slow", "state": "starting", "in_flight": 0, "queued": 2},
    ],
    "decisions": {"kept": 7, "dropped": 4, "unrecorded": 5},
    "routing": {
        "tiers": [{"tier": "cheap", "circuit": "half-open"}, {"tier": "dear", "circuit": "closed"}],
        "contradictions": [{"tier": "cheap", "class": "chat", "why": "the judge contradicts the suite"}],
    },
    "vram_used_bytes": 123,
    "ram_used_bytes": 456,
    "warm": {
        "budget": 100,
        "used": 30,
        "holder_restarts": 1,
        "predictions": {"hit": 3, "miss": 1, "none": 0},
        "models": [{"name": "slow", "how": "pages", "bytes": 30}],
    },
}


def full() -> Metrics:
    """Every series has a sample."""
    metrics = Metrics()
    metrics.observe(sealed(**STREAMED, queued=0.1, input_tokens=1, cached_tokens=1, reason="stalled"))
    metrics.observe(sealed(media=MediaUnits(1.0, 2, 3)))
    metrics.observe_swap("slow", "gpu0", "done", {"drain": 1.0, "stop": 0.5, "start": 2.0, "ready": 0.25})
    metrics.observe_load_failure("slow")
    metrics.observe_legacy("team", "/api/chat", "answered")
    metrics.observe_refusal("wrong_key", "loopback")
    metrics.routed.set_clouds((Cost(3.0, 15.0),))
    metrics.observe(sealed(routed=routed(tried("cheap", "served", cost=0.0, repairs=1, findings=["json"]))))
    metrics.routed.observe_grade("chat", "cheap", "pass")
    metrics.routed.observe_demotion("cheap", "chat")
    metrics.routed.ungraded["queue_full"] += 1
    metrics.routed.classifier["busy"] += 1
    metrics.observe(sealed(orchestrated=OrchestratedRecord("pair", "simple", "chat", failures={"names": 1})))
    metrics.keys.add("alice", "agents", [1.0] * 13)
    metrics.keys.observe_limit("alice")
    return metrics


def test_requests_of_an_older_api_are_counted_by_key_path_and_answer() -> None:
    metrics = Metrics()
    for answer in ("answered", "answered", "refused"):
        metrics.observe_legacy("", "/api/tags", answer)
    samples = scrape(metrics)
    assert value(samples, "stoker_legacy_requests_total", key="none", endpoint="/api/tags", answer="answered") == 2
    assert value(samples, "stoker_legacy_requests_total", key="none", endpoint="/api/tags", answer="refused") == 1


# -- requests that name a task ------------------------------------------------------------------------------------


def test_a_routed_request_counts_by_its_class_and_the_tier_that_answered() -> None:
    metrics = Metrics()
    metrics.observe(sealed(routed=routed(tried("cheap", "served"))))
    metrics.observe(sealed(routed=routed(tried("cheap", "failed_verification"), tried("dear", "served"))))
    metrics.observe(sealed(routed=routed(task="planning"), outcome="refused", status=403))
    metrics.observe(sealed())
    samples = scrape(metrics)
    assert value(samples, "stoker_routed_requests_total", task="chat", tier="cheap", outcome="served") == 1
    assert value(samples, "stoker_routed_requests_total", task="chat", tier="dear", outcome="served") == 1
    assert value(samples, "stoker_routed_requests_total", task="planning", tier="none", outcome="refused") == 1
    assert sum(samples["stoker_routed_requests_total"].values()) == 3, "who names a model is not routed"


def test_a_demotion_counts_by_class_and_tier() -> None:
    metrics = Metrics()
    for tier, task in (("cheap", "chat"), ("cheap", "chat"), ("cheap", "planning")):
        metrics.routed.observe_demotion(tier, task)
    samples = scrape(metrics)
    assert value(samples, "stoker_tier_demotions_total", tier="cheap", task="chat") == 2
    assert value(samples, "stoker_tier_demotions_total", tier="cheap", task="planning") == 1


def test_each_tier_that_was_tried_counts_with_what_came_of_it_what_was_found_and_what_it_cost() -> None:
    metrics = Metrics()
    bad = tried("cheap", "failed_verification", cost=0.25, repairs=1, findings=["json", "empty"])
    metrics.observe(sealed(routed=routed(bad, tried("dear", "served", cost=0.5))))
    metrics.observe(sealed(routed=routed(bad, tried("dear", "unreachable", None, None))))
    samples = scrape(metrics)
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
    metrics = Metrics()
    metrics.routed.set_clouds((Cost(1.0, 1.0), Cost(100.0, 1000.0), Cost(100.0, 500.0)))
    metrics.observe(sealed(routed=routed(tried("cheap", "served", cost=0.05)), input_tokens=1000, output_tokens=100))
    samples = scrape(metrics)
    assert value(samples, "stoker_routed_cost_saved_total") == pytest.approx(0.2 - 0.05)
    assert value(samples, "stoker_routed_cost_overspent_total") == 0


def test_an_answer_that_was_paid_twice_is_overspent_and_the_savings_do_not_go_down() -> None:
    metrics = Metrics()
    metrics.routed.set_clouds((Cost(100.0, 1000.0),))
    metrics.observe(sealed(routed=routed(tried("cheap", "served", cost=0.0)), input_tokens=1000, output_tokens=100))
    metrics.observe(
        sealed(
            routed=routed(tried("cheap", "empty", cost=0.05), tried("dear", "served", cost=0.2)),
            input_tokens=1000,
            output_tokens=100,
        )
    )
    samples = scrape(metrics)
    assert value(samples, "stoker_routed_cost_saved_total") == pytest.approx(0.2)
    assert value(samples, "stoker_routed_cost_overspent_total") == pytest.approx(0.05)


def test_what_is_not_known_is_neither_saved_nor_overspent() -> None:
    metrics = Metrics()
    metrics.observe(sealed(routed=routed(tried("cheap", "served", cost=0.0)), input_tokens=1000, output_tokens=100))
    assert "stoker_routed_cost_saved_total" not in scrape(metrics), "there is no cloud to compare with"
    metrics.routed.set_clouds((Cost(100.0, 1000.0),))
    metrics.observe(sealed(routed=routed(tried("cheap", "served"))))
    metrics.observe(sealed(routed=routed(tried("cheap", "unreachable")), outcome="upstream_failed"))
    assert value(scrape(metrics), "stoker_routed_cost_saved_total") == 0
    assert value(scrape(metrics), "stoker_routed_cost_overspent_total") == 0


def test_an_answer_of_a_tier_that_nobody_measured_saves_nothing() -> None:
    metrics = Metrics()
    metrics.routed.set_clouds((Cost(100.0, 1000.0),))
    route = routed(tried("cheap", "served", cost=0.0))
    route.verdict = "allow-with-verify"
    metrics.observe(sealed(routed=route, input_tokens=1000, output_tokens=100))
    assert value(scrape(metrics), "stoker_routed_cost_saved_total") == 0


def test_no_word_of_a_decision_makes_series_without_bound() -> None:
    metrics = Metrics()
    for number in range(700):
        attempt = tried(f"t{number}", f"Odd code {number}", findings=[f"f{number}"])
        metrics.observe(sealed(outcome=f"o{number}", routed=routed(attempt, task=f"c{number}")))
    samples = scrape(metrics)
    assert len(samples["stoker_routed_requests_total"]) == 501
    assert len(samples["stoker_tier_attempts_total"]) == 501
    assert value(samples, "stoker_tier_attempts_total", tier="t0", outcome="other") == 1
    assert value(samples, "stoker_tier_findings_total", tier="t0", check="other") == 1


def test_the_circuit_of_a_tier_is_in_one_state() -> None:
    samples = scrape(Metrics(), STATUS)
    states = {state: value(samples, "stoker_tier_circuit", tier="cheap", state=state) for state in labels.CIRCUITS}
    assert states == {"closed": 0, "open": 0, "half-open": 1, "rate-limited": 0}
    assert value(samples, "stoker_tier_circuit", tier="dear", state="closed") == 1
    assert "stoker_tier_circuit" not in scrape(Metrics(), {"routing": None})


def test_gauges_come_from_the_status_document() -> None:
    samples = scrape(Metrics(), STATUS)
    assert value(samples, "stoker_in_flight", serve="fast") == 3
    assert value(samples, "stoker_queued", serve="slow") == 2
    assert value(samples, "stoker_tier_contradicted", task="chat", tier="cheap") == 1
    assert value(samples, "stoker_serve_state", serve="slow", state="starting") == 1
    assert value(samples, "stoker_serve_state", serve="slow", state="ready") == 0
    assert sum(samples["stoker_serve_state"].values()) == 2
    assert value(samples, "stoker_decisions_dropped_total") == 4
    assert value(samples, "stoker_build_info", version="9.9.9") == 1
    assert value(samples, "stoker_vram_used_bytes") == 123
    assert value(samples, "stoker_ram_used_bytes") == 456
    assert samples["stoker_serve_memory_bytes"] == {frozenset({("serve", "fast")}): 77}


def test_a_state_directory_that_cannot_be_written_is_seen() -> None:
    for problem, writable in ((None, 1), ("decisions.db cannot be written", 0)):
        samples = scrape(Metrics(), {"decisions": {"dropped": 0, "problem": problem}})
        assert value(samples, "stoker_state_writable") == writable


def test_unknown_is_absent_not_zero() -> None:
    samples = scrape(Metrics(), {"vram_used_bytes": None, "serves": [{"name": "a", "state": "ready", "queued": None}]})
    for name in ("vram_used_bytes", "ram_used_bytes", "queued", "in_flight", "build_info", "decisions_dropped_total"):
        assert f"stoker_{name}" not in samples
    assert "vram_used_bytes" not in samples


@pytest.mark.parametrize(
    "name",
    ["model_swap_duration_seconds_sum", "inference_tokens_per_second", "vram_used_bytes", "ram_used_bytes",
     "model_load_failures_total"],
)  # fmt: skip
def test_the_names_that_dashboards_know_show_the_same_figures(name: str) -> None:
    samples = scrape(full(), STATUS)
    assert samples[name]
    assert samples[name] == samples[f"stoker_{name}"]


def test_no_family_appears_twice() -> None:
    lines = expose(full(), STATUS).decode().splitlines()
    types = [line for line in lines if line.startswith("# TYPE")]
    assert len(types) > 15
    assert len(types) == len(set(types))
    assert len(lines) == len(set(lines)), "and no sample either"


# -- cost ---------------------------------------------------------------------------------------------------------


def test_observing_costs_few_instructions() -> None:
    """Python instructions, since a time depends on the machine; it was 273 on CPython 3.11 when this was written."""
    metrics, decision = Metrics(), sealed(**STREAMED, queued=0.1, input_tokens=1, cached_tokens=1)
    metrics.observe(decision)
    counted = bytecode.count(lambda: metrics.observe(decision))
    assert 0 < sum(counted.values()) < 350


def test_the_prometheus_client_is_not_loaded_before_the_first_scrape() -> None:
    script = (
        "import sys; from stoker.store.metrics import Metrics; m = Metrics(); m.observe_load_failure('a'); "
        "before = 'prometheus_client' in sys.modules; "
        "from stoker.store.exposition import expose; expose(m, {}); print(before, 'prometheus_client' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "True"]


def test_a_value_on_a_bound_belongs_to_that_bucket() -> None:
    histogram = Histogram((1.0, 2.0))
    for seconds in (1.0, 1.5, 2.0, 9.0):
        histogram.observe(seconds)
    assert histogram.buckets() == [("1.0", 1.0), ("2.0", 3.0), ("+Inf", 4.0)]


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
    metrics = Metrics()
    metrics.routed.observe(sealed(), Routed("chat", source, notes))
    assert value(scrape(metrics), "stoker_routed_classes_total", source=said[0], certainty=said[1]) == 1


def test_what_came_of_asking_a_model_for_classes_is_counted() -> None:
    metrics = Metrics()
    assert "stoker_classifier_asked_total" not in scrape(metrics)
    metrics.routed.classifier["timed_out"] += 2
    assert value(scrape(metrics), "stoker_classifier_asked_total", outcome="timed_out") == 2


def test_grades_are_counted_by_class_tier_and_verdict_and_what_was_not_graded_by_reason() -> None:
    metrics = Metrics()
    assert "stoker_shadow_cost_total" not in scrape(metrics), "nothing was ever drawn"
    for word in ("pass", "pass", "fail"):
        metrics.routed.observe_grade("chat", "cheap", word)
    metrics.routed.ungraded["judge_busy"] += 2
    metrics.routed.observe_judging(0.25)
    samples = scrape(metrics)
    assert value(samples, "stoker_shadow_graded_total", task="chat", tier="cheap", verdict="pass") == 2
    assert value(samples, "stoker_shadow_graded_total", task="chat", tier="cheap", verdict="fail") == 1
    assert value(samples, "stoker_shadow_dropped_total", reason="judge_busy") == 2
    assert value(samples, "stoker_shadow_cost_total") == 0.25


# -- requests that name an orchestrator ---------------------------------------------------------------------------


def test_blocks_failures_and_tokens_of_an_orchestrated_request_are_counted_once() -> None:
    metrics = Metrics()
    record = OrchestratedRecord(
        "pair", "block_by_block", "code-write", blocks=5, resumed=2, discarded=1, validator_tokens=40, wasted_tokens=7,
        failures={"structure": 2, "validator": 1, "unreadable": 4},
    )  # fmt: skip
    metrics.observe(sealed(orchestrated=record, input_tokens=100, output_tokens=50))
    samples = scrape(metrics)
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
    metrics = Metrics()
    for number in range(2000):
        record = OrchestratedRecord(f"o{number}", f"policy{number}", "x", failures={f"layer{number}": 1})
        metrics.observe(sealed(orchestrated=record))
    samples = scrape(metrics)
    assert len(samples["stoker_orchestrated_requests_total"]) < 1000
    layers = {dict(labels)["layer"] for labels in samples["stoker_orchestrated_check_failures_total"]}
    assert layers == {"other"}


def test_keys_beyond_a_hundred_share_a_label() -> None:
    metrics = Metrics()
    for index in range(150):
        metrics.keys.add(f"key-{index}", "", [1.0] * 13)
    samples = scrape(metrics)
    assert value(samples, "stoker_key_requests_total", key="key-7", app="") == 1
    assert value(samples, "stoker_key_requests_total", key="other", app="") == 50
