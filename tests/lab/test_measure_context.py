"""The context search: which candidate comes next, and what proves one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stoker.domain.lease import Target
from stoker_lab.artifacts.fingerprint import EngineReport
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer
from stoker_lab.trials import context_search
from stoker_lab.trials.context_search import ContextSearch, EngineNotStarted, StartedEngine

VLLM = """GPU KV cache size: 30,720 tokens
Maximum concurrency for 2,048 tokens per request: 15.00x
Maximum concurrency for 4,096 tokens per request: 7.50x
"""


@pytest.mark.parametrize("largest", [0, 300, 1024, 5000, 8191, 8192, 9999, 40_000])
@pytest.mark.parametrize("low", [256, 2048, 30_000])
def test_the_search_ends_at_the_largest_that_works(largest: int, low: int) -> None:
    search, tried = ContextSearch(low, 32_768), []
    while (candidate := search.next()) is not None:
        tried.append(candidate)
        search.record(candidate, candidate <= largest)
    assert search.largest_working == min(largest // 256 * 256, 32_768)
    assert len(tried) == len(set(tried)) <= 20


def test_what_engines_report() -> None:
    props = {"total_slots": 4, "default_generation_settings": {"n_ctx": 2048}}
    assert context_search.reported_capacity(None, VLLM, 4096) == (30_720, 7.5)
    assert context_search.reported_capacity(None, "max_total_num_tokens=8192, x", 4096) == (8192, 2.0)
    assert context_search.reported_capacity(props, "", 2048) == (8192, 4.0)
    assert context_search.reported_capacity(props, "", 4096) == (8192, 0.0)
    assert context_search.reported_capacity(None, "", 4096) == (None, None)


def searched(
    low: int, high: int, concurrency: float, most: int, **script: Any
) -> tuple[list[context_search.ContextTrial], int, int]:
    """Scripted engines that come up with at most `most` tokens: (trials, started, stopped)."""
    counts = [0, 0]

    async def start(length: int) -> StartedEngine:
        if length > most:
            raise EngineNotStarted("out of memory")
        counts[0] += 1
        server = ScriptedServer(Script(context=length, **script))
        await server.start()

        async def stop() -> None:
            counts[1] += 1
            await server.close()

        props = {"total_slots": 4, "default_generation_settings": {"n_ctx": length}}
        return StartedEngine(Target("127.0.0.1", server.port, "", "scripted"), EngineReport(props), "", stop)

    trials = asyncio.run(context_search.search_context(low, high, concurrency, start))
    return trials, counts[0], counts[1]


def test_each_candidate_is_an_engine_of_its_own_and_a_request_near_the_limit_proves_it() -> None:
    trials, started, stopped = searched(512, 4096, 2, most=1500)
    assert [(trial.context, trial.is_working) for trial in trials] == [(512, True), (1024, True), (2048, False),
                                                                  (1536, False), (1280, True)]  # fmt: skip
    assert started == stopped == 3
    assert all(
        trial.prompt_tokens and trial.prompt_tokens > 0.9 * trial.context for trial in trials if trial.is_working
    )
    assert trials[2].outcome == "did not start: out of memory"
    assert context_search.numbers(trials) == {"context": 1280, "kv_tokens": 5120, "concurrency": 4.0}
    assert [finding.numbers["context"] for finding in context_search.findings(trials)] == [512, 1024, 1280, 1536, 2048]


def test_too_few_at_once_is_not_enough() -> None:
    trials, started, stopped = searched(512, 512, 5, most=4096)
    assert trials[0].outcome == "room for 4 requests of this length, 5 required"
    assert [trial.context for trial in trials] == [512, 256]
    assert started == stopped == 2
    assert context_search.numbers(trials) == {"context": None}


def test_an_engine_that_cuts_what_it_is_sent_proves_nothing() -> None:
    trials, _, stopped = searched(512, 512, 1, most=4096, prompt_tokens=60)
    assert trials[0].outcome == "a short request failed (no usage)"
    assert stopped == 2
    trials, _, _ = searched(512, 512, 1, most=4096, error_status=500)
    assert "http_500" in trials[0].outcome


def test_a_limit_that_the_engine_lowered_is_said() -> None:
    async def start(length: int) -> StartedEngine:
        async def stop() -> None:
            return None

        props = {"total_slots": 1, "default_generation_settings": {"n_ctx": 2048}}
        return StartedEngine(Target("127.0.0.1", 1, "", "x"), EngineReport(props), "", stop)

    trial = asyncio.run(context_search.try_context(4096, 1, start))
    assert trial.outcome == "the engine set its limit to 2048 tokens instead"
