"""What is missing is unknown, names change, and no text is too odd or too long to read."""

from __future__ import annotations

import math
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engines import signals
from stoker.engines.registry import ENGINES
from stoker.engines.signals import Signals, read

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="big"} 3.0
vllm:num_requests_waiting{engine="0",model_name="big"} 9.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="big",reason="capacity"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="big",reason="deferred"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="big"} 0.25
vllm:prompt_tokens_total{engine="0",model_name="big"} 1.5e+03
vllm:generation_tokens_total{engine="0",model_name="big"} 700
vllm:num_preemptions_total{engine="0",model_name="big"} 0
vllm:prefix_cache_queries_total{engine="0",model_name="big"} 100
vllm:prefix_cache_hits_total{engine="0",model_name="big"} 60
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5",model_name="big"} 12
"""
SGLANG = """\
sglang:num_running_reqs{engine_type="unified",model_name="big",tp_rank="0"} 4.0
sglang:num_queue_reqs{engine_type="unified",model_name="big",tp_rank="0"} 1.0
sglang:token_usage{engine_type="unified",model_name="big",tp_rank="0"} 0.5
sglang:cache_hit_rate{engine_type="unified",model_name="big",tp_rank="0"} 0.75
sglang:prompt_tokens_total{model_name="big"} 10
sglang:generation_tokens_total{model_name="big"} 20
sglang:cached_tokens_total{cache_source="device",model_name="big"} 5
sglang:cached_tokens_total{cache_source="host",model_name="big"} 2
"""
LLAMA = """\
llamacpp:requests_processing 1
llamacpp:requests_deferred 2
llamacpp:prompt_tokens_total 3
llamacpp:tokens_predicted_total 4
llamacpp:n_decode_total 5
llamacpp:prompt_tokens_seconds 99
"""


def test_each_engines_text_is_read_into_the_same_shape() -> None:
    assert read("vllm", VLLM) == Signals(
        queued=2, running=3, kv_use=0.25, prompt_tokens=1500, generated_tokens=700, preemptions=0, prefix_queries=100,
        prefix_hits=60,
    )  # fmt: skip
    assert read("sglang", SGLANG) == Signals(
        queued=1, running=4, kv_use=0.5, prompt_tokens=10, generated_tokens=20, prefix_hits=7, prefix_hit_share=0.75
    )
    assert read("llama.cpp", LLAMA) == Signals(queued=2, running=1, prompt_tokens=3, generated_tokens=4, steps=5)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "openai", "?"])
def test_what_is_missing_is_unknown_and_never_zero(engine: str) -> None:
    assert set(astuple(read(engine, ""))) == {None}
    assert set(astuple(read(engine, "something_else 3\n"))) == {None}


def test_an_engine_that_is_not_named_is_known_by_its_metrics() -> None:
    for engine, text in (("vllm", VLLM), ("sglang", SGLANG), ("llama.cpp", LLAMA)):
        assert read("openai", text) == read(engine, text)
    assert read("vllm", SGLANG) == Signals()


@pytest.mark.parametrize(
    ("text", "signal", "value"),
    [
        ("vllm:gpu_cache_usage_perc 0.5\n", "kv_use", 0.5),
        ("vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.25\n", "kv_use", 0.25),
        ('vllm:num_requests_waiting{engine="0"} 4\n', "queued", 4),
        ('vllm:num_requests_waiting_by_reason{reason="deferred"} 4\nvllm:num_requests_waiting 9\n', "queued", 9),
        ("vllm_prompt_tokens_total 4\n", "prompt_tokens", 4),
        ("vllm:prompt_tokens 4\n", "prompt_tokens", 4),
    ],
    ids=["old name", "the newest wins", "no reasons", "only other reasons", "gateway's name", "without total"],
)
def test_names_change(text: str, signal: str, value: float) -> None:
    assert getattr(read("vllm", text), signal) == value


def test_counts_of_several_engines_are_summed_and_the_fullest_cache_counts() -> None:
    text = "".join(
        f'vllm:num_requests_running{{engine="{engine}"}} {running}\n'
        f'vllm:kv_cache_usage_perc{{engine="{engine}"}} {use}\n'
        for engine, running, use in ((0, 3, 0.2), (1, 4, 0.9))
    )
    found = read("vllm", text)
    assert (found.running, found.kv_use) == (7, 0.9)


def test_what_several_processes_report_of_the_same_thing_counts_once() -> None:
    text = "".join(
        f'sglang:num_running_reqs{{dp_rank="{dp}",tp_rank="{tp}",pid="{10 * dp + tp}"}} {running}\n'
        for dp, tp, running in ((0, 0, 3), (0, 1, 3), (1, 0, 5), (1, 1, 4))
    )
    assert read("sglang", text).running == 8


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('llamacpp:n_decode_total{a="x } # \\" y",b="\\\\"} 7', 7),
        ("llamacpp:n_decode_total 7 1700000000000", 7),
        ('llamacpp:n_decode_total{a="1"} 7 # {trace_id="3"} 1.0', 7),
        ("llamacpp:n_decode_total NaN", None),
        ("llamacpp:n_decode_total +Inf", None),
        ("llamacpp:n_decode_total soon", None),
        ("# llamacpp:n_decode_total 7", None),
        ('llamacpp:n_decode_total{a="never closed 7', None),
    ],
)
def test_a_line_is_read_as_prometheus_means_it_or_not_at_all(line: str, value: float | None) -> None:
    assert read("llama.cpp", f"{line}\n").steps == value


def test_a_line_that_was_cut_short_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read("llama.cpp", "llamacpp:n_decode_total 12").steps is None, "it may have been 123"
    monkeypatch.setattr(signals, "LIMIT", 40)
    assert read("llama.cpp", "# " + "x" * 50 + "\nllamacpp:n_decode_total 12\n").steps is None


@given(st.text(max_size=400), st.sampled_from(["vllm", "sglang", "llama.cpp", "openai"]))
def test_no_text_is_too_odd(text: str, engine: str) -> None:
    known = [value for value in astuple(read(engine, text)) if value is not None]
    assert all(math.isfinite(value) for value in known)


_NAMES = sorted({name.metric for engine in ENGINES.values() for row in engine.signals.values() for name in row.names})
_LINES = st.builds(
    "{}{}{} {}".format,
    st.sampled_from(_NAMES),
    st.sampled_from(["", "{", "}", '{a="', '{a="1"}', '{a="\\', '{reason="capacity"}']),
    st.text(alphabet='"}\\{=,a', max_size=8),
    st.one_of(st.floats().map(str), st.text(max_size=5)),
)


@given(st.lists(_LINES, max_size=20).map("\n".join))
def test_no_sample_is_too_odd(text: str) -> None:
    known = [value for value in astuple(read("openai", text + "\n")) if value is not None]
    assert all(math.isfinite(value) for value in known)


def test_reading_takes_steps_in_proportion_to_the_text() -> None:
    """Counted, not timed: the pattern has no way to try anything twice, so every repetition in it is possessive."""
    for text in (signals.SAMPLE.pattern, signals.LABEL.pattern):
        repeats = [at for at, sign in enumerate(text) if sign in "*+?" and not _is_in_a_set(text, at)]
        assert repeats
        for at in repeats:
            assert text[at + 1 : at + 2] == "+" or text[at - 1] in "*+?(", text[: at + 2]


def _is_in_a_set(pattern: str, at: int) -> bool:
    before = pattern[:at]
    return before.rfind("[") > before.rfind("]")
