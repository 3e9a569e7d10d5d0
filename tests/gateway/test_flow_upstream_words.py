"""What an engine says about its failure reaches the client in its dialect, cleaned, and nobody else."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, Talk, a_serve, delta, story

from stoker.domain.dialect import Dialect
from stoker.domain.serve import Secret, Serve
from stoker.request.decide.names import Names
from stoker.store.metrics import Metrics
from stoker_lab.testing.client import RawClient, compose_request

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
COMPLETIONS = "/v1/completions"
DIALECTS = (CHAT, MESSAGES, RESPONSES)
SECRET = "sk-engine-0123456789"
ANY = a_serve(key=Secret(SECRET, "env:K"))
RESPONSES_ONLY = a_serve(key=Secret(SECRET, "env:K"), dialects=frozenset((Dialect.RESPONSES,)))
RAW = f"no\x1b[31m memory\nfor {SECRET} " + "x" * 5000
BEGINS = "no[31m memory for [redacted] xxx"


def asked(path: str, **fields: Any) -> bytes:
    turn = {"input": "hi"} if path == RESPONSES else {"messages": [{"role": "user", "content": "hi"}]}
    turn = {"prompt": "hi"} if path == COMPLETIONS else turn
    return compose_request("POST", path, {"model": "a", "max_tokens": 9, **turn, **fields})


async def talking(stage: Stage, path: str, **fields: Any) -> tuple[RawClient, Talk]:
    client = await stage.client()
    await client.send(asked(path, **fields))
    return client, await stage.asked()


def sse(payload: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % json.dumps(payload).encode()


STARTS = {
    CHAT: delta("x"),
    MESSAGES: sse({"type": "message_start", "message": {"id": "m", "content": []}})
    + sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}),
    RESPONSES: sse({"type": "response.output_text.delta", "delta": "x", "item_id": "i", "output_index": 0}),
}
ERRORS = {
    CHAT: {"error": {"message": RAW, "code": 500}},
    MESSAGES: {"type": "error", "error": {"type": "api_error", "message": RAW}},
    RESPONSES: {"type": "error", "code": "server_error", "message": RAW},
}
FAILED = {
    "type": "response.failed",
    "response": {"id": "r", "status": "failed", "error": {"code": "server_error", "message": RAW}, "output": []},
}


def is_clean(found: dict[str, Any]) -> None:
    assert found["message"].startswith(BEGINS)
    assert len(found["message"].encode()) <= 2048
    assert found["source"] == "upstream"


def error_in(payload: dict[str, Any]) -> dict[str, Any]:
    """The error of an event, in any dialect."""
    error = payload.get("error") or payload.get("response", {}).get("error") or payload
    assert isinstance(error, dict)
    return error


async def error_after(start: bytes, payload: dict[str, Any], client: RawClient, talk: Talk) -> dict[str, Any]:
    """The client's last event, where the engine fails after `start` has reached the client."""
    talk.begin()
    talk.chunk(start)
    head = await client.head()
    assert head.status == 200
    talk.chunk(sse(payload))
    talk.send(b"0\r\n\r\n")
    return error_in([event.json() async for event in client.events(head)][-1])


@pytest.mark.parametrize("path", DIALECTS)
def test_an_error_event_within_a_stream_is_told_clean(path: str) -> None:
    @story(ANY)
    async def tell(stage: Stage) -> None:
        client, talk = await talking(stage, path, stream=True)
        is_clean(await error_after(STARTS[path], ERRORS[path], client, talk))
        assert (await stage.sealed()).outcome == "upstream_failed"

    tell()


@pytest.mark.parametrize("path", DIALECTS)
def test_a_response_that_fails_within_its_stream_is_told_clean(path: str) -> None:
    """Passed through to a Responses client, translated for the others."""

    @story(RESPONSES_ONLY)
    async def tell(stage: Stage) -> None:
        client, talk = await talking(stage, path, stream=True)
        is_clean(await error_after(STARTS[RESPONSES], FAILED, client, talk))
        assert (await stage.sealed()).outcome == "upstream_failed"

    tell()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", DIALECTS)
def test_a_response_that_fails_first_is_a_real_status(path: str, stream: bool) -> None:
    @story(RESPONSES_ONLY)
    async def tell(stage: Stage) -> None:
        client, talk = await talking(stage, path, stream=stream)
        if stream:
            talk.begin()
            talk.chunk(sse(FAILED))
        else:
            talk.reply(FAILED["response"])
        reply = await client.reply()
        assert reply.status == 502
        is_clean(reply.json()["error"])
        assert (await stage.sealed()).outcome == "upstream_failed"

    tell()


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize("page", [True, False])
def test_a_5xx_in_html_or_plain_text_is_told_clean(path: str, page: bool) -> None:
    @story(ANY)
    async def tell(stage: Stage) -> None:
        client, talk = await talking(stage, path)
        text = f"<html><script>1</script><h1>{RAW}</h1></html>" if page else RAW
        talk.reply(text.encode(), "500 X")
        reply = await client.reply()
        assert reply.status == 502
        is_clean(reply.json()["error"])

    tell()


@pytest.mark.parametrize(
    "payload",
    [{"error": {"message": "key sk-abc", "code": 401}}, {"error": {"message": "no", "code": "invalid_api_key"}},
     {"error": {"message": "no", "type": "authentication_error"}}, {"error": {"message": "no", "code": 403}}],
)  # fmt: skip
@pytest.mark.parametrize("how", ["stream", "whole", "first"])
def test_what_a_serve_says_of_stokers_key_is_told_in_our_words(payload: dict[str, Any], how: str) -> None:
    @story(ANY)
    async def tell(stage: Stage) -> None:
        client, talk = await talking(stage, CHAT, stream=how != "whole")
        if how == "stream":
            error = await error_after(STARTS[CHAT], payload, client, talk)
        else:
            if how == "whole":
                talk.reply(payload)
            else:
                talk.begin()
                talk.chunk(sse(payload))
            reply = await client.reply()
            assert reply.status == 502
            error = reply.json()["error"]
        assert (error["code"], error["source"]) == ("upstream_auth", "stoker")
        assert "check the `key` in its configuration" in error["message"]

    tell()


# -- a 200 without an answer -------------------------------------------------------------------------------------------

NOTHING = [b"{}", b"", b"null", b"[]", b"oops", b"<html><h1>Log in</h1></html>", b'{"choices":[],"content":[]}']


@pytest.mark.parametrize("path", [*DIALECTS, COMPLETIONS])
@pytest.mark.parametrize("body", NOTHING)
@pytest.mark.parametrize("translated", [True, False])
def test_a_200_without_an_answer_is_502(path: str, body: bytes, translated: bool) -> None:
    other = {Dialect.MESSAGES} if path != MESSAGES else {Dialect.CHAT}
    serve = a_serve(dialects=frozenset(other)) if translated else ANY

    @story(serve)
    async def tell(stage: Stage) -> None:
        client, talk = await talking(stage, path)
        talk.reply(body)
        reply = await client.reply()
        error = reply.json()["error"]
        assert (reply.status, error["code"], error["source"]) == (502, "upstream_unusable", "stoker")
        decision = await stage.sealed()
        assert (decision.outcome, decision.reason) == ("upstream_failed", "upstream_unusable")

    tell()


USAGE_ONLY = sse({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 0}}) + b"data: [DONE]\n\n"


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize("frames", [b"", b"data: [DONE]\n\n", USAGE_ONLY])
@pytest.mark.parametrize("to", [None, Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES])
def test_an_empty_stream_is_502(path: str, frames: bytes, to: Dialect | None) -> None:
    @story(ANY if to is None else a_serve(dialects=frozenset((to,))))
    async def tell(stage: Stage) -> None:
        client, talk = await talking(stage, path, stream=True)
        talk.begin()
        if frames:
            talk.chunk(frames)
        talk.send(b"0\r\n\r\n")
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (502, "upstream_empty")
        assert (await stage.sealed()).outcome == "upstream_failed"

    is_of_chat = to is Dialect.CHAT or (to is None and path == CHAT)
    if frames != USAGE_ONLY or is_of_chat:
        tell()


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
LEGAL: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}]}),
    (CHAT, {"choices": [{"message": {"content": None, "tool_calls": [CALL]}, "finish_reason": "tool_calls"}]}),
    (CHAT, {"choices": [{"message": {"content": "", "reasoning_content": "hm"}, "finish_reason": "length"}]}),
    (COMPLETIONS, {"choices": [{"text": "", "finish_reason": "stop"}]}),
    (MESSAGES, {"type": "message", "content": [], "stop_reason": "end_turn"}),
    (RESPONSES, {"object": "response", "status": "completed", "output": []}),
    ("/v1/rerank", {"results": []}),
    ("/v1/messages/count_tokens", {"input_tokens": 0}),
]


@pytest.mark.parametrize(("path", "document"), LEGAL)
def test_an_answer_that_says_nothing_is_an_answer(path: str, document: dict[str, Any]) -> None:
    @story(a_serve(dialects=frozenset(Dialect)))
    async def tell(stage: Stage) -> None:
        client, talk = await talking(stage, path)
        talk.reply(json.dumps(document).encode())
        reply = await client.reply()
        assert reply.status == 200
        assert document.items() <= reply.json().items(), "a response object gets the fields that it lacks"
        assert (await stage.sealed()).outcome == "served"

    tell()


@story()
async def test_a_stream_that_finishes_at_once_is_an_answer(stage: Stage) -> None:
    client, talk = await talking(stage, CHAT, stream=True)
    talk.begin()
    talk.end()
    head = await client.head()
    assert head.status == 200
    assert [event.data async for event in client.events(head)][-1] == "[DONE]"


# -- who hears it ------------------------------------------------------------------------------------------------------

PROMPT = "marker_of_the_prompt"
ECHOES: dict[str, Any] = {"error": {"message": PROMPT, "type": PROMPT, "code": PROMPT}}


def heard_by_nobody_but_the_client(how: str, shows: bool, serve: Serve, start: bytes) -> None:
    heard: list[str] = []
    ear = logging.Handler()
    ear.emit = lambda record: heard.append(record.getMessage() + str(record.exc_info))  # type: ignore[method-assign]

    @story(serve, upstream_errors="show" if shows else "hide")
    async def tell(stage: Stage) -> None:
        client, talk = await talking(stage, CHAT, stream=how == "event")
        if how != "event":
            talk.reply(ECHOES, f"{how} X")
            reply = str(await client.reply())
        else:
            reply = str(await error_after(start, ECHOES, client, talk))
        assert (PROMPT in reply) == (shows or how == "400")  # what the caller has to mend is always told
        decision = await stage.sealed()
        assert PROMPT not in str(decision)
        metrics = Metrics()
        metrics.observe(decision)
        assert PROMPT not in str(metrics.errors)
        assert PROMPT not in str(stage.notes)

    root = logging.getLogger()
    level = root.level
    root.addHandler(ear)
    root.setLevel(logging.DEBUG)
    try:
        tell()
    finally:
        root.setLevel(level)
        root.removeHandler(ear)
    assert not [text for text in heard if PROMPT in text]


@pytest.mark.parametrize("shows", [True, False])
@pytest.mark.parametrize("how", ["500", "400", "event"])
def test_a_prompt_that_an_engine_echoes_reaches_at_most_its_own_client(how: str, shows: bool) -> None:
    heard_by_nobody_but_the_client(how, shows, ANY, STARTS[CHAT])
    heard_by_nobody_but_the_client(how, shows, RESPONSES_ONLY, STARTS[RESPONSES])


@story(ANY)
async def test_new_settings_count_for_the_next_failure_and_old_secrets_stay_secret(stage: Stage) -> None:
    fresh = "sk-fresh-0123456789"
    names = Names((a_serve(key=Secret(fresh, "env:K")),))
    stage.flow.configure(replace(stage.flow.settings, names=names))
    client, talk = await talking(stage, CHAT)
    talk.reply({"error": f"{SECRET} {fresh}"}, "500 X")
    assert (await client.reply()).json()["error"]["message"] == "[redacted] [redacted]"
