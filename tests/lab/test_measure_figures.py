"""From requests to numbers; and the ten traps that tools of this kind fell into, each by its number."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stoker.domain.answer import Tokens
from stoker.domain.lease import Target
from stoker_lab.load.figures import StepSample, counts, figures, summary
from stoker_lab.load.generator import is_punctual
from stoker_lab.load.prompts import BenchmarkPrompt, PromptSharing, word_row
from stoker_lab.requests.client import ModelClient
from stoker_lab.requests.timing import RequestTiming, Slo, Window, is_good
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

TEN = Window(0.0, 10.0)


def timed(
    t0: float = 0.0, ttft: float = 0.1, tpot: float = 0.01, n: int | None = 11, chunks: int | None = None, **more: Any
) -> RequestTiming:
    """A request that went well: its first token, then one every `tpot`."""
    many = (n or 11) if chunks is None else chunks
    last = t0 + ttft + tpot * ((n or 11) - 1)
    gaps = [(last - t0 - ttft) / (many - 1)] * (many - 1) if many > 1 else []
    given = {"scheduled": t0, "ended": last + 0.001, "first_token_at": t0 + ttft,
             "first_output_at": t0 + ttft, "last_token_at": last}  # fmt: skip
    return RequestTiming(**{"t0": t0, "gaps": gaps, "chunks": many, "tokens": Tokens(20, 0, None, n), **given, **more})


def failed(t0: float = 0.0, word: str = "http_503") -> RequestTiming:
    return RequestTiming(t0, t0, t0 + 0.01, failure=word)


def one(*requests: RequestTiming, window: Window = TEN, **more: Any) -> dict[str, Any]:
    return figures([StepSample(list(requests), window)], **more)


def heard(script: Script, **fields: Any) -> RequestTiming:
    async def run() -> RequestTiming:
        async with ScriptedServer(script) as server:
            client = ModelClient(Target("127.0.0.1", server.port, "", script.id))
            try:
                asked = {"messages": [{"role": "user", "content": "hi"}], "stream": True, **fields}
                return (await client.ask({**asked, "stream_options": {"include_usage": True}})).timing
            finally:
                client.close()

    return asyncio.run(run())


# -- the traps -----------------------------------------------------------------------------------------------------


def test_trap_1_a_role_only_chunk_is_no_token() -> None:
    found = one(heard(Script(role_first=True, first_event_after=0.15)))
    assert found["ttft_p50"] >= 150


def test_trap_2_thinking_and_calls_are_tokens_and_ttfo_is_the_first_that_is_seen() -> None:
    thought = [{"blocks": [{"type": "thinking", "text": "well well"}, {"type": "call", "name": "f", "arguments": {}}]}]
    alone = one(heard(Script(answers=thought, gap=0.02)))
    assert alone["ttft_p50"] is not None
    assert alone["ttfo_p50"] > alone["ttft_p50"]


def test_trap_3_tokens_come_from_usage_never_from_chunks() -> None:
    found = one(timed(n=40, chunks=10), window=Window(0.0, 1.0))
    assert (found["output_tokens"], found["tokens_per_chunk"]) == (40, 4.0)
    assert found["icl_p50"] is not None
    assert "itl_p50" not in found
    assert "itl_p50" in one(timed(n=11))
    none = one(timed(n=None))  # behaviour 52: no usage, no rates of tokens
    assert [none[name] for name in ("output_rate", "tpot_p50", "output_tokens", "decode_rate")] == [None] * 4
    assert none["requests_ok"] == 1


def test_trap_4_an_error_frame_after_the_200_is_a_failure() -> None:
    found = one(heard(Script(error_event_after=3)))
    assert (found["requests_ok"], found["requests_failed"]) == (0, 1)
    assert found["ttft_p50"] is None


def test_trap_5_a_single_token_is_judged_on_ttft_and_e2e_only_and_counted() -> None:
    single = timed(n=1)
    assert is_good(single, Slo(ttft=0.2, tpot=0.0001))
    found = one(single, timed(), slo=Slo(tpot=0.02))
    assert (found["n_single_token"], found["goodput_share"]) == (1, 1.0)


def test_trap_6_failures_stay_among_all() -> None:
    found = one(*(timed() for _ in range(7)), failed(), slo=Slo(ttft=1.0))
    assert found["goodput_share"] == pytest.approx(7 / 8)
    assert summary(found) == "7 ok, 1 failed (http_503 1)"  # behaviour 53


def test_trap_7_the_last_token_ends_a_request_not_the_usage_nor_done() -> None:
    late = timed(ttft=0.1, tpot=0.1, n=11, ended=30.0)
    found = one(late)
    assert (found["e2e_p50"], found["tpot_p50"]) == (1100.0, 100.0)


def test_trap_8_steady_and_whole_throughput_are_both_given() -> None:
    slow = timed(t0=0.5, ttft=2.0, n=10)
    found = one(timed(n=10), slow, window=Window(0.0, 1.0))
    assert found["output_rate_steady"] == pytest.approx(10 / 1.0)
    assert found["output_rate"] == pytest.approx(20 / slow.ended, rel=1e-3)


def test_trap_9_an_open_loop_counts_from_when_a_request_should_have_been_sent() -> None:
    late = timed(t0=1.0, ttft=0.1, scheduled=0.5)
    assert one(late, from_schedule=True)["ttft_p50"] == pytest.approx(600)
    assert one(late)["ttft_p50"] == pytest.approx(100)
    assert not is_punctual([late], rate=1.0)
    assert is_punctual([timed(t0=1.0, scheduled=0.95)], rate=1.0)


def test_trap_10_no_two_prompts_begin_alike_unless_that_is_what_is_measured() -> None:
    prompt = BenchmarkPrompt(word_row(200), " a", 210, 210)
    texts = [prompt.text(seed) for seed in range(50)]
    assert len({" ".join(text.split()[:8]) for text in texts}) == 50
    assert {tuple(sorted(text.split())) for text in texts} == {tuple(sorted(texts[0].split()))}
    shared = [prompt.text(seed, PromptSharing.HALF_SHARED) for seed in (1, 2)]
    assert shared[0].split()[:100] == shared[1].split()[:100]
    assert shared[0] != shared[1]
    assert prompt.text(1, PromptSharing.PREFIX_CACHED) == prompt.text(2, PromptSharing.PREFIX_CACHED)
    cached = timed(tokens=Tokens(100, 75, None, 11))
    assert one(cached)["cached_share"] == 0.75


# -- the rest ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "p95", "p99"), [(59, False, False), (60, True, False), (299, True, False), (300, True, True)]
)
def test_a_percentile_needs_samples_enough_the_maximum_does_not(n: int, p95: bool, p99: bool) -> None:
    found = one(*(timed(ttft=0.1 + k / 1000) for k in range(n)))
    assert ((found["ttft_p95"] is not None), (found["ttft_p99"] is not None)) == (p95, p99)
    assert found["ttft_max"] == pytest.approx(100 + n - 1)


def test_repeats_give_a_median_and_a_spread_percentiles_are_over_all() -> None:
    window = Window(0.0, 1.0)
    samples = [StepSample([timed(ttft=ttft, tpot=0.0, n=10, ended=1.0)], window) for ttft in (0.1, 0.2, 0.4)]
    found = figures(samples)
    assert [found[f"ttft_p50{what}"] for what in ("", ".low", ".high")] == [200.0, 100.0, 400.0]
    assert (found["requests_ok"], found["ttft_max"], found["output_rate"]) == (3, 400.0, 10.0)


def test_nothing_at_all_gives_no_zeroes() -> None:
    found = figures([StepSample([], Window(0.0, 0.0))], slo=Slo(ttft=1.0))
    assert (found["requests_ok"], found["requests_failed"]) == (0, 0)
    names = ("ttft_p50", "output_rate", "tpot_p50", "goodput_share", "cached_share", "stall_max", "request_rate")
    assert {found[name] for name in names} == {None}


def test_failures_are_counted_by_word() -> None:
    found = counts([failed(word="broke_off"), failed(), failed(), timed()])
    assert summary(found) == "1 ok, 3 failed (broke_off 1, http_503 2)"
