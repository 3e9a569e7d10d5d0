"""A serve that takes the request and never answers: it is left in time, and the place is free again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.gateway.flow_stage import CHAT, Stage, a_serve, story

from stoker.domain.dialect import Dialect
from stoker.domain.serve import AlsoServed, FallbackCause, Serve, replicas_of
from stoker_lab.testing.client import compose_request

SOON = 0.05
QUICK = a_serve(first_byte_timeout=SOON, max_active=1)
MEDIA = Serve("a", served_name="m", dialects=frozenset((Dialect.SPEECH, Dialect.IMAGE)), first_byte_timeout=SOON)
TEXT = "/v1/completions", "/v1/messages", "/v1/responses", "/api/chat", "/api/generate", CHAT
OTHERS = "/v1/embeddings", "/api/embed", "/v1/rerank"


def request(path: str, stream: bool) -> bytes:
    given = {"model": "a", "messages": [{"role": "user", "content": "hi"}], "prompt": "hi", "input": "hi", "query": "q",
             "documents": ["a"], "max_tokens": 5, "stream": stream}  # fmt: skip
    return compose_request("POST", path, given)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", TEXT)
def test_no_answer_in_time_is_504_in_every_dialect(path: str, stream: bool) -> None:
    @story(QUICK)
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(request(path, stream))
        talk = await stage.asked()
        reply = await client.reply()
        assert reply.status == 504
        assert "began no answer within" in str(reply.json()["error"])
        await talk.gone.wait()
        decision = await stage.sealed()
        assert (decision.outcome, decision.reason) == ("upstream_failed", "first_byte_timeout")

    tell()


@pytest.mark.parametrize("path", OTHERS)
def test_no_answer_in_time_is_504_of_whatever_is_asked(path: str) -> None:
    @story(QUICK)
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(request(path, False))
        await stage.asked()
        assert (await client.reply()).status == 504

    tell()


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/images/generations"])
def test_no_answer_in_time_is_504_of_audio_and_images(path: str) -> None:
    @story(MEDIA)
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(compose_request("POST", path, {"model": "a", "input": "x", "prompt": "x", "voice": "v"}))
        await stage.asked()
        assert (await client.reply()).json()["error"]["code"] == "first_byte_timeout"

    tell()


@story(QUICK)
async def test_no_answer_in_time_is_504_of_a_request_that_passes_through(stage: Stage) -> None:
    client = await stage.client()
    await client.send(compose_request("POST", "/upstream/a/completion", {"prompt": "p"}))
    await stage.asked()
    assert (await client.reply()).json()["error"]["code"] == "first_byte_timeout"


@story(QUICK, commit_after=0.02, keep_alive=0.01)
async def test_a_client_that_has_its_200_and_pings_gets_one_error_event(stage: Stage) -> None:
    client = await stage.client()
    await client.send(request(CHAT, True))
    await stage.asked()
    head = await client.head()
    assert head.status == 200
    *_, last = [event async for event in client.events(head)]
    assert last.json()["error"]["code"] == "first_byte_timeout"


@story(QUICK)
async def test_the_place_is_free_for_the_next_request(stage: Stage) -> None:
    first, second = await stage.client(), await stage.client()
    await first.send(request(CHAT, False))
    await stage.asked()
    await second.send(request(CHAT, False))
    assert (await first.reply()).status == 504
    (await stage.asked()).reply({"ok": 1})
    assert (await second.reply()).status == 200


BESIDE = a_serve(first_byte_timeout=SOON, fallback="b", fallback_on=(FallbackCause.UNAVAILABLE,)), a_serve("b")


@pytest.mark.parametrize("stream", [True, False])
def test_its_fallback_answers(stream: bool) -> None:
    @story(*BESIDE)
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(request(CHAT, stream))
        await stage.asked()
        talk = await stage.asked()
        if stream:
            talk.begin()
            talk.say("fine")
            talk.end()
        else:
            talk.reply({"ok": 1})
        reply = await client.reply()
        assert (reply.status, reply.header("x-stoker-serve")) == (200, "b")
        assert reply.header("x-stoker-fallback") == "a: first_byte_timeout"

    tell()


@story(QUICK)
async def test_an_engine_that_works_on_the_prompt_is_waited_for(stage: Stage) -> None:
    stage.is_working = True
    client = await stage.client()
    await client.send(request(CHAT, True))
    talk = await stage.asked()
    await stage.until(lambda: len(stage.looks) > 2, "it is asked again and again")
    talk.begin()
    talk.say("read at last")
    talk.end()
    assert (await client.reply()).status == 200


@story(QUICK)
async def test_a_serve_that_pings_is_alive(stage: Stage) -> None:
    client = await stage.client()
    await client.send(request(CHAT, True))
    talk = await stage.asked()
    talk.begin()
    for _ in range(15):
        talk.chunk(b": loading\n\n")
        await asyncio.sleep(SOON / 5)
    talk.say("loaded at last")
    talk.end()
    assert (await client.reply()).status == 200
    assert not stage.looks


@story(QUICK)
async def test_once_an_answer_has_begun_it_has_its_time(stage: Stage) -> None:
    client = await stage.client()
    await client.send(request(CHAT, True))
    talk = await stage.asked()
    talk.begin()
    talk.say("slowly")
    await asyncio.sleep(3 * SOON)
    talk.end()
    assert (await client.reply()).status == 200


@story(QUICK, stall_timeout=0.1)
async def test_an_answer_in_one_piece_that_comes_to_a_halt_is_ended_as_a_stream_is(stage: Stage) -> None:
    client = await stage.client()
    await client.send(request(CHAT, False))
    talk = await stage.asked()
    talk.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{")
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (504, "stalled")


@story(QUICK, stall_timeout=0.1)
async def test_an_answer_in_one_piece_that_keeps_coming_is_waited_for(stage: Stage) -> None:
    body = b'{"choices": [{"message": {"role": "assistant", "content": "slowly, and well"}}]}'
    client = await stage.client()
    await client.send(request(CHAT, False))
    talk = await stage.asked()
    talk.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body))
    for start in range(0, len(body), 8):
        talk.send(body[start : start + 8])
        await asyncio.sleep(SOON)
    assert (await client.reply()).status == 200


@story(a_serve(first_byte_timeout=0.0))
async def test_zero_is_no_limit(stage: Stage) -> None:
    client = await stage.client()
    await client.send(request(CHAT, False))
    talk = await stage.asked()
    await asyncio.sleep(0.2)
    talk.reply({"ok": 1})
    assert (await client.reply()).status == 200


@story(a_serve())
async def test_the_serves_own_times_are_known_after_a_few_answers(stage: Stage) -> None:
    client = await stage.client()
    for _ in range(5):
        await client.send(request(CHAT, False))
        (await stage.asked()).reply({"ok": 1})
        assert (await client.reply()).status == 200
    await stage.quiet()
    assert stage.upstream_client.first_bytes.usual("a", True) is None
    assert 0 < (stage.upstream_client.first_bytes.usual("a", False) or 0) < 3


def test_an_endpoint_elsewhere_has_the_time_of_its_serve() -> None:
    _, elsewhere = replicas_of(replace(QUICK, also=(AlsoServed("http://127.0.0.1:1/v1", "there"),)))
    assert (elsewhere.name, elsewhere.first_byte_timeout) == ("a@there", SOON)
