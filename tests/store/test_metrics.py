"""What a scrape shows of the requests and swaps that were."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from bench.cost_guard import bytecode
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from stoker.domain.decision import Decision, OrchestratedRecord
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


def samples_of(families: Iterable[Metric]) -> dict[str, dict[Labels, float]]:
    """The families of an extension, as a client reads them: sample name to labels to value."""
    return _read(expose(Metrics(), {}, families))


def scrape(metrics: Metrics, status: Mapping[str, object] | None = None) -> dict[str, dict[Labels, float]]:
    """Sample name to labels to value."""
    return _read(expose(metrics, status or {}))


def _read(text: bytes) -> dict[str, dict[Labels, float]]:
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text.decode()):
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
    "slots": [{"name": "gpu0", "paused": "rendering"}, {"name": "gpu1", "paused": None}],
    "serves": [
        {"name": "fast", "state": "ready", "in_flight": 3, "queued": 0, "measured": 77},
        {"name": "slow", "state": "starting", "in_flight": 0, "queued": 2},
    ],
    "decisions": {"kept": 7, "dropped": 4, "unrecorded": 5},
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


def test_gauges_come_from_the_status_document() -> None:
    samples = scrape(Metrics(), STATUS)
    assert value(samples, "stoker_in_flight", serve="fast") == 3
    assert value(samples, "stoker_queued", serve="slow") == 2
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


def test_keys_beyond_a_hundred_share_a_label() -> None:
    metrics = Metrics()
    for index in range(150):
        metrics.keys.add(f"key-{index}", "", [1.0] * 13)
    samples = scrape(metrics)
    assert value(samples, "stoker_key_requests_total", key="key-7", app="") == 1
    assert value(samples, "stoker_key_requests_total", key="other", app="") == 50
