"""A request that asks for more output than its prompt leaves gets as much as is left, and is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, Talk, a_serve, story

from stoker.domain.dialect import Dialect
from stoker.domain.key import Key
from stoker.domain.serve import Secret
from stoker_lab.testing.client import RawClient, RawReply, compose_request

TURNS = {"messages": [{"role": "user", "content": "say pong"}]}
REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {**TURNS, "max_tokens": 2048},
    "/v1/completions": {"prompt": "say pong", "max_tokens": 2048},
    "/v1/messages": {**TURNS, "max_tokens": 2048, "thinking": {"type": "enabled", "budget_tokens": 1600}},
    "/v1/responses": {"input": "say pong", "max_output_tokens": 2048},
    "/api/chat": {**TURNS, "options": {"num_predict": 2048}, "stream": False},
    "/api/generate": {"prompt": "say pong", "options": {"num_predict": 2048}, "stream": False},
}
COMPLETION = {
    "id": "chatcmpl-1",
    "model": "engine",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "pong"}, "finish_reason": "stop", "text": "x"}
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2},
}
CHAT_ONLY = frozenset((Dialect.CHAT,))
ALL = frozenset((Dialect.CHAT, Dialect.COMPLETIONS, Dialect.MESSAGES, Dialect.RESPONSES))
VLLM = (
    "'max_tokens' or 'max_completion_tokens' is too large: 2048. This model's maximum context length is 1024 tokens "
    "and your request has 24 input tokens (2048 > 1024 - 24)."
)
NAMES = {"/v1/responses": "max_output_tokens", "/api/chat": "num_predict", "/api/generate": "num_predict"}
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
WHOLE = {
    "/v1/messages": {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "pong"}], "usage": {},
                     "stop_reason": "end_turn"},
    "/v1/responses": {"object": "response", "status": "completed", "output": [{"type": "message", "content": [
        {"type": "output_text", "text": "pong"}]}], "usage": {}},
}  # fmt: skip


async def sent(stage: Stage, path: str, **fields: Any) -> RawClient:
    client = await stage.client()
    await client.send(compose_request("POST", path, {"model": "a", **REQUESTS[path], **fields}))
    return client


def limits(talk: Talk) -> list[int]:
    document = talk.json()
    return [document[name] for name in LIMITS if name in document]


def told(reply: RawReply) -> tuple[bool, str | None]:
    return "lowered:" in (reply.header("x-stoker-translation") or ""), reply.header("x-stoker-edits")


@pytest.mark.parametrize("dialects", [ALL, CHAT_ONLY], ids=["own", "translated"])
@pytest.mark.parametrize("path", REQUESTS)
def test_what_is_left_is_asked_for_where_the_context_is_known(path: str, dialects: frozenset[Dialect]) -> None:
    is_counted = path != "/v1/completions" or dialects is CHAT_ONLY  # engines count no plain prompts: see below

    @story(a_serve(context=1024, dialects=dialects))
    async def tell(stage: Stage) -> None:
        client = await sent(stage, path)
        if is_counted:
            (await stage.asked()).reply({"input_tokens": 24})
        else:
            (await stage.asked()).reply({"error": {"message": VLLM, "code": 400}}, "400 Bad Request")
        talk = await stage.asked()
        assert limits(talk) == [1000]
        assert talk.json().get("thinking", {"type": "disabled"}) == {"type": "disabled"}
        talk.reply(WHOLE.get(talk.head.split()[1].decode(), COMPLETION))
        reply = await client.reply()
        assert reply.status == 200, reply.body
        assert told(reply) == (True, f"{NAMES.get(path, 'max_tokens')}=1000")

    tell()


@pytest.mark.parametrize("dialects", [ALL, CHAT_ONLY], ids=["own", "translated"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", REQUESTS)
def test_a_serve_that_refuses_the_limit_is_asked_once_more_for_what_is_left(
    path: str, stream: bool, dialects: frozenset[Dialect]
) -> None:
    @story(a_serve(dialects=dialects))
    async def tell(stage: Stage) -> None:
        client = await sent(stage, path, stream=stream)
        first = await stage.asked()
        assert limits(first) == [2048]
        first.reply({"error": {"message": VLLM, "type": "BadRequestError", "code": 400}}, "400 Bad Request")
        talk = await stage.asked()
        assert limits(talk) == [1000]
        talk.reply({"error": {"message": VLLM, "type": "BadRequestError", "code": 400}}, "400 Bad Request")
        reply = await client.reply()
        assert reply.status == 400
        assert b"maximum context length" not in reply.body
        assert b"too long" not in reply.body
        assert b"1024" in reply.body
        assert (await stage.sealed()).attempts == 2

    tell()


@story(a_serve(dialects=ALL))
async def test_a_refusal_in_the_words_that_clients_know_is_mended_too(stage: Stage) -> None:
    client = await sent(stage, "/v1/chat/completions")
    said = (
        "This model's maximum context length is 1024 tokens. However, you requested 2072 tokens (24 in the messages, "
        "2048 in the completion)."
    )
    error = {"message": said, "type": "invalid_request_error", "code": "context_length_exceeded"}
    (await stage.asked()).reply({"error": error}, "400 Bad Request")
    talk = await stage.asked()
    talk.reply(COMPLETION)
    reply = await client.reply()
    assert (reply.status, *told(reply)) == (200, True, "max_tokens=1000")
    assert not stage.conductor.statistics()["waiting"]


@story(a_serve(dialects=ALL))
async def test_a_prompt_that_does_not_fit_is_refused_as_before(stage: Stage) -> None:
    client = await sent(stage, "/v1/chat/completions")
    said = "This model's maximum context length is 1024 tokens. However, your request has 9000 input tokens."
    (await stage.asked()).reply({"error": {"message": said, "code": 400}}, "400 Bad Request")
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (400, "context_length_exceeded")


@story(a_serve(context=1024))
async def test_a_limit_that_fits_passes_unchanged(stage: Stage) -> None:
    client = await sent(stage, "/v1/chat/completions", max_tokens=1000)
    (await stage.asked()).reply({"input_tokens": 24})
    talk = await stage.asked()
    assert limits(talk) == [1000]
    talk.reply(COMPLETION)
    assert told(await client.reply()) == (False, None)


@pytest.mark.parametrize(("counted", "room"), [({"input_tokens": 24}, 76), ({"error": {"message": "no"}}, None)])
def test_a_keys_own_context_leaves_its_own_room(counted: dict[str, Any], room: int | None) -> None:
    """Where the engine cannot count, a token is taken for four bytes."""

    @story(a_serve(context=1024), keys=(Key("small", Secret("v", "env:K"), context=100),))
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        document = {"model": "a", "max_tokens": 2048, "messages": [{"role": "user", "content": "x" * 78}]}
        await client.send(compose_request("POST", "/v1/chat/completions", document, (("authorization", "Bearer v"),)))
        (await stage.asked()).reply(counted, "200 OK" if "input_tokens" in counted else "500 Broken")
        talk = await stage.asked()
        expected = 100 - len(json.dumps(document)) // 4 if room is None else room
        assert limits(talk) == [expected]
        talk.reply(COMPLETION)
        assert told(await client.reply()) == (True, f"max_tokens={expected}")

    tell()
