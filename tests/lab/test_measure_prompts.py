"""Prompts of an exact length, for tokenizers of many kinds, and for the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from stoker.domain.lease import Target
from stoker_lab.load.prompts import (
    BenchmarkPrompt,
    PromptSharing,
    PromptTooShort,
    calibrate_replay,
    make_prompt,
    word_row,
)
from stoker_lab.requests.client import ModelClient
from stoker_lab.requests.endpoint import MeasuredEndpoint, PromptCounter
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

TEMPLATE = 9


def words(text: str) -> int:
    return TEMPLATE + len(text.split())


def letters(text: str) -> int:
    return TEMPLATE + len(text)


def pieces(text: str) -> int:
    """Words of up to three letters are one token, longer ones two; a sign is one."""
    return TEMPLATE + sum(1 if len(word) <= 3 else 2 for word in text.split()) + sum(text.count(s) for s in ".!,\n")


def coarse(text: str) -> int:
    """Nothing is ever a single token more."""
    return TEMPLATE + 4 * len(text.split())


def made(target: int, count: Callable[[str], int]) -> tuple[BenchmarkPrompt, int]:
    asked = 0

    async def counting(text: str) -> int:
        nonlocal asked
        asked += 1
        return count(text)

    return asyncio.run(make_prompt(target, counting)), asked


@pytest.mark.parametrize("target", [10, 13, 57, 256, 1000, 16_384])
@pytest.mark.parametrize("count", [words, pieces])
def test_the_length_is_exact_and_any_order_of_the_words_has_it(count: Callable[[str], int], target: int) -> None:
    prompt, asked = made(target, count)
    assert prompt.tokens == target
    assert asked < 60
    assert {count(prompt.text(seed, mode)) for seed in range(5) for mode in PromptSharing} == {target}


def test_letters_can_be_exact_too() -> None:
    assert made(500, letters)[0].tokens == 500


def test_what_cannot_be_exact_says_so_and_stays_below() -> None:
    prompt, _ = made(100, coarse)
    assert (prompt.tokens, prompt.target) == (97, 100)


def test_a_prompt_shorter_than_its_template_is_refused_with_the_number() -> None:
    with pytest.raises(PromptTooShort, match="10 tokens"):
        made(5, words)


def test_equal_ids_are_equal_pieces_of_text_and_lengths_are_right() -> None:
    async def count(text: str) -> int:
        return pieces(text)

    blocks = asyncio.run(calibrate_replay(count))
    one = blocks.text(1400, (7, 8, 9), seed=1)
    two = blocks.text(1100, (7, 8, 5), seed=2)
    assert abs(pieces(one) - 1400) < 28
    assert abs(pieces(two) - 1100) < 22
    same = [a == b for a, b in zip(one.split(), two.split(), strict=False)]
    assert all(same[:600])
    assert not all(same[:800])
    assert blocks.text(400, (), 1).split()[:8] != blocks.text(400, (), 2).split()[:8]


def test_rows_are_as_long_as_they_should_be() -> None:
    assert [len(word_row(n)) for n in (0, 1, 500)] == [0, 1, 500]


# -- who counts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "how"),
    [("llama.cpp", "the engine's own count"), ("vllm", "the engine's own count")],
)
def test_the_server_counts_in_whichever_way_it_can(engine: str, how: str) -> None:
    async def run() -> tuple[int, str]:
        async with ScriptedServer(Script(engine=engine)) as server:
            counter = PromptCounter(MeasuredEndpoint("public", Target("127.0.0.1", server.port, "", "scripted")))
            try:
                return await counter("one two three"), counter.counted_by
            finally:
                counter.close()

    assert asyncio.run(run()) == (3, how)


# -- the real one --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine() -> Iterator[Target]:
    """The embedded llama.cpp with a tiny model, behind a Stoker."""
    from tests.scenarios.plane import llama, running

    with running(llama("spark")) as plane:
        assert plane.admin("switch", serve="spark")[0] == 200
        yield Target("127.0.0.1", plane.port, "", "spark")


@pytest.mark.llama
@pytest.mark.parametrize("target", [64, 255, 256, 700])
def test_the_embedded_llama_counts_what_was_asked_for(engine: Target, target: int) -> None:
    pytest.importorskip("xllamacpp")

    async def run() -> list[int | None]:
        own = Target(engine.host, engine.port, "/upstream/spark", "spark")
        counter = PromptCounter(MeasuredEndpoint("front-door", engine, own))
        client = ModelClient(engine)
        try:
            prompt = await make_prompt(target, counter)
            assert counter.counted_by == "the engine's own count"
            assert prompt.tokens == target
            asked = [
                await client.ask({"messages": [{"role": "user", "content": prompt.text(seed, mode)}], "max_tokens": 1})
                for seed, mode in enumerate(
                    (PromptSharing.WARM, PromptSharing.WARM, PromptSharing.HALF_SHARED, PromptSharing.PREFIX_CACHED)
                )
            ]
            return [reply.timing.tokens.input for reply in asked]
        finally:
            counter.close()
            client.close()

    assert asyncio.run(run()) == [target] * 4


@pytest.mark.parametrize("mode", list(PromptSharing))
def test_two_runs_share_no_beginning_and_one_run_can_be_had_again(mode: PromptSharing) -> None:
    prompt, _ = made(256, words)
    runs = [[prompt.text(seed, mode, nonce) for seed in range(20)] for nonce in (1, 2, 1)]
    assert runs[0] == runs[2]
    first, second = ({" ".join(text.split()[:4]) for text in texts} for texts in runs[:2])
    assert not first & second
    assert {words(text) for texts in runs for text in texts} == {256}


def test_a_trace_that_is_replayed_again_shares_its_blocks_within_the_run_only() -> None:
    async def count(text: str) -> int:
        return pieces(text)

    blocks = asyncio.run(calibrate_replay(count))
    one, again, other = (blocks.text(1100, (7, 8, 9), 1, nonce) for nonce in (1, 1, 2))
    assert one == again
    assert one.split()[:4] != other.split()[:4]
