"""Why an answer ended, as every client hears it: an engine that gave up is a failure, whole and streamed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, Talk, a_serve, story

from stoker.domain.dialect import Dialect
from stoker.domain.serve import FallbackCause, Serve
from stoker_lab.testing.client import RawClient, compose_request

USER = [{"role": "user", "content": "hi"}]
CLIENTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": USER},
    "/v1/completions": {"prompt": "hi"},
    "/v1/messages": {"messages": USER, "max_tokens": 9},
    "/v1/responses": {"input": "hi"},
    "/api/chat": {"messages": USER},
    "/api/generate": {"prompt": "hi"},
}
TEXT = [{"type": "text", "text": "half"}]
OUTPUT = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "half"}]}]
DELTA = {"type": "response.output_text.delta", "delta": "half", "item_id": "m", "output_index": 0, "content_index": 0}
START = {"type": "message_start", "message": {"id": "m", "model": "m", "content": [], "usage": {"input_tokens": 1}}}
PIECE = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}}


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def whole(dialect: Dialect, word: str) -> dict[str, Any]:
    match dialect:
        case Dialect.CHAT:
            return {"id": "c", "choices": [{"index": 0, "message": {"content": "half"}, "finish_reason": word}]}
        case Dialect.MESSAGES:
            return {"id": "m", "type": "message", "content": TEXT, "stop_reason": word}
    return {"id": "r", "object": "response", "output": OUTPUT, "status": word}


def stream(dialect: Dialect, word: str) -> list[dict[str, Any]]:
    match dialect:
        case Dialect.CHAT:
            return [chunk(content="half"), chunk(word)]
        case Dialect.MESSAGES:
            return [START, PIECE, {"type": "message_delta", "delta": {"stop_reason": word}}, {"type": "message_stop"}]
    response = {"id": "r", "object": "response", "output": OUTPUT, "status": word}
    return [DELTA, {"type": "response.completed", "response": response}]


def a_speaker(dialect: Dialect) -> Serve:
    return a_serve(dialects=frozenset((dialect,)))


CHAT_TEXT = a_serve(dialects=frozenset((Dialect.CHAT, Dialect.COMPLETIONS)))


async def ask(stage: Stage, path: str, streams: bool, model: str = "a") -> tuple[RawClient, Talk]:
    client = await stage.client()
    await client.send(compose_request("POST", path, {"model": model, "stream": streams, **CLIENTS[path]}))
    return client, await stage.asked()


async def tell(stage: Stage, talk: Talk, *events: dict[str, Any], spaced: bool = False) -> None:
    """The events of a stream up to the one with text, then the others, and its end."""
    separators = (", ", ": ") if spaced else (",", ":")
    talk.begin()
    for event in events:
        name = b"event: %b\n" % event["type"].encode() if "type" in event and "object" not in event else b""
        talk.chunk(name + b"data: %b\n\n" % json.dumps(event, separators=separators).encode())
        if "half" in json.dumps(event) and "response" not in event:
            await stage.until(lambda: stage.flow.load_of("a")[1] > 0)
    talk.send(b"0\r\n\r\n")


FAILURES = [
    (Dialect.CHAT, "abort"),
    (Dialect.CHAT, "error"),
    (Dialect.MESSAGES, "error"),
    (Dialect.RESPONSES, "cancelled"),
]
EACH_FAILURE = pytest.mark.parametrize(("dialect", "word"), FAILURES)
EACH_CLIENT = pytest.mark.parametrize("path", CLIENTS)


@EACH_FAILURE
@EACH_CLIENT
def test_a_whole_answer_that_the_engine_gave_up_is_502(path: str, dialect: Dialect, word: str) -> None:
    @story(a_speaker(dialect))
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, path, streams=False)
        talk.reply(whole(dialect, word))
        reply = await client.reply()
        assert (reply.status, (await stage.sealed()).outcome) == (502, "upstream_failed")
        assert word in reply.body.decode()

    told()


@pytest.mark.parametrize("spaced", [False, True], ids=["compact", "spaced"])
@EACH_FAILURE
@EACH_CLIENT
def test_a_stream_that_the_engine_gave_up_ends_with_one_error(
    path: str, dialect: Dialect, word: str, spaced: bool
) -> None:
    @story(a_speaker(dialect))
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, path, streams=True)
        await tell(stage, talk, *stream(dialect, word), spaced=spaced)
        body = (await client.reply()).body.decode()
        assert "half" in body
        assert body.count('"error":') >= 1
        for end in (
            "[DONE]",
            "message_stop",
            "response.completed",
            '"done":true',
            f'reason":"{word}"',
            f'reason": "{word}"',
        ):
            assert end not in body
        assert (await stage.sealed()).outcome == "upstream_failed"

    told()


@pytest.mark.parametrize("word", ["queued", "in_progress"])
@EACH_CLIENT
def test_a_response_that_is_not_finished_is_no_answer(path: str, word: str) -> None:
    @story(a_speaker(Dialect.RESPONSES))
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, path, streams=False)
        talk.reply(whole(Dialect.RESPONSES, word))
        assert (await client.reply()).status == 502

    told()


@pytest.mark.parametrize("path", [path for path in CLIENTS if path != "/v1/chat/completions"])
def test_a_reason_that_nobody_knows_is_no_complete_answer_in_another_dialect(path: str) -> None:
    @story(a_speaker(Dialect.CHAT))
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, path, streams=False)
        talk.reply(whole(Dialect.CHAT, "sudden_rain"))
        assert (await client.reply()).status == 502

    told()


@story(CHAT_TEXT)
async def test_in_the_engines_own_dialect_the_client_reads_it_itself(stage: Stage) -> None:
    client, talk = await ask(stage, "/v1/chat/completions", streams=False)
    talk.reply(whole(Dialect.CHAT, "sudden_rain"))
    reply = await client.reply()
    assert (reply.status, reply.json()["choices"][0]["finish_reason"]) == (200, "sudden_rain")


WITH_FALLBACK = [
    replace(a_speaker(dialect), fallback="b", fallback_on=(FallbackCause.UNAVAILABLE, FallbackCause.BUSY))
    for dialect in (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES)
]
ERRORS: list[dict[str, Any]] = [
    {"error": {"message": "rate", "code": 429}},
    {"error": {"message": "rate", "code": "429"}},
    {"error": {"message": "no credit", "code": 402}},
    {"error": {"message": "overloaded", "code": 503}},
    {"error": {"message": "boom"}},
    {"object": "error", "message": "boom", "type": "InternalServerError", "code": 500},
]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("error", ERRORS, ids=json.dumps)
@pytest.mark.parametrize("serve", WITH_FALLBACK, ids=lambda serve: next(iter(serve.dialects)))
def test_an_error_in_place_of_an_answer_goes_to_the_fallback(
    serve: Serve, error: dict[str, Any], streams: bool
) -> None:
    @story(serve, a_serve("b"))
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, "/v1/chat/completions", streams)
        if streams:
            talk.begin()
            talk.chunk(b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(error).encode())
        else:
            talk.reply(error)
        other = await stage.asked()
        other.reply(whole(Dialect.CHAT, "stop")) if not streams else (other.begin(), other.say("x"), other.end())
        reply = await client.reply()
        assert (reply.status, reply.header("x-stoker-serve")) == (200, "b")

    told()


@pytest.mark.parametrize("status", ["402 Payment Required", "404 Not Found", "408 Request Timeout"])
def test_a_status_that_says_that_the_serve_answers_nobody_goes_to_the_fallback(status: str) -> None:
    @story(WITH_FALLBACK[0], a_serve("b"))
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, "/v1/chat/completions", streams=False)
        talk.reply({"error": {"message": "no"}}, status)
        (await stage.asked()).reply(whole(Dialect.CHAT, "stop"))
        assert (await client.reply()).header("x-stoker-serve") == "b"

    told()


@pytest.mark.parametrize(
    ("code", "status", "retry"), [(429, 429, "true"), (402, 402, "false"), (503, 503, "true"), (400, 400, "false")]
)
@EACH_CLIENT
def test_the_number_in_an_error_frame_is_the_status_where_nothing_else_came(
    path: str, code: int, status: int, retry: str
) -> None:
    @story(a_speaker(Dialect.CHAT))
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, path, streams=True)
        talk.begin()
        talk.chunk(b"data: %b\n\n" % json.dumps({"error": {"message": "why", "code": code}}).encode())
        reply = await client.reply()
        assert (reply.status, reply.header("x-should-retry")) == (status, retry)
        assert "why" in reply.body.decode()

    told()


@EACH_CLIENT
def test_an_error_of_vllm_after_text_is_one_error_and_no_end(path: str) -> None:
    @story(a_speaker(Dialect.CHAT))
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, path, streams=True)
        await tell(stage, talk, chunk(content="half"), {"object": "error", "message": "boom", "type": "x", "code": 500})
        body = (await client.reply()).body.decode()
        assert "boom" in body
        assert "[DONE]" not in body

    told()
