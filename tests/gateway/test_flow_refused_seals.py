"""A vendor that refuses past thinking is asked once more without it, in every dialect, and only then."""

from __future__ import annotations

from typing import Any

from tests.gateway.flow_stage import Stage, Talk, a_serve, story

from stoker.domain.dialect import Dialect
from stoker.domain.serve import Translation
from stoker_lab.testing.client import compose_request

CLOUD = Translation(cloud=True)
CLAUDE = a_serve(dialects=frozenset((Dialect.MESSAGES,)), translation=CLOUD)
OPENAI = a_serve(dialects=frozenset((Dialect.RESPONSES,)), translation=CLOUD)
LOCAL = a_serve(dialects=frozenset((Dialect.MESSAGES,)))
SIGNATURE = "messages.1.content.0: Invalid `signature` in `thinking` block"
ENCRYPTED = "The encrypted content gAAAA...cQ== could not be verified."
THOUGHT = {"type": "thinking", "thinking": "plan", "signature": "EqQB-of-another-account"}
TURNS = [
    {"role": "user", "content": "x"},
    {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "y"}]},
    {"role": "user", "content": "z"},
]
ITEMS = [
    {"role": "user", "content": "x"},
    {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA-of-another-account"},
    {"role": "user", "content": "z"},
]

STREAM = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","content":[],"usage":{}}}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


def messages(**fields: Any) -> bytes:
    document = {"model": "a", "max_tokens": 50, "messages": TURNS, **fields}
    return compose_request("POST", "/v1/messages", document)


def responses(**fields: Any) -> bytes:
    return compose_request("POST", "/v1/responses", {"model": "a", "input": ITEMS, **fields})


def refuse(talk: Talk, message: str) -> None:
    error = {"type": "invalid_request_error", "message": message}
    talk.reply({"type": "error", "error": error}, "400 Bad Request")


def answer(talk: Talk) -> None:
    if b"/responses" in talk.head:
        part = {"type": "output_text", "text": "hello", "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
        talk.reply({"id": "r", "object": "response", "status": "completed", "output": [item]})
    else:
        talk.reply({"content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn"})


@story(CLAUDE)
async def test_a_signature_that_anthropic_refuses(stage: Stage) -> None:
    client = await stage.client()
    await client.send(messages())
    first = await stage.asked()
    assert first.json()["messages"] == TURNS
    refuse(first, SIGNATURE)
    second = await stage.asked()
    assert [turn["content"] for turn in second.json()["messages"]] == ["x", [{"type": "text", "text": "y"}], "z"]
    assert second.json()["model"] == "engine"
    answer(second)
    reply = await client.reply()
    assert (reply.status, b"hello" in reply.body) == (200, True)
    assert "dropped:thinking" in (reply.header("x-stoker-translation") or "")
    decision = await stage.sealed()
    assert (decision.attempts, "dropped:thinking" in decision.translation) == (2, True)


@story(OPENAI)
async def test_what_openai_cannot_decrypt(stage: Stage) -> None:
    client = await stage.client()
    await client.send(responses())
    refuse(await stage.asked(), ENCRYPTED)
    second = await stage.asked()
    assert second.json()["input"] == [ITEMS[0], ITEMS[2]]
    answer(second)
    assert (await client.reply()).status == 200


@story(OPENAI)
async def test_a_translated_request(stage: Stage) -> None:
    client = await stage.client()
    turns = [TURNS[0], {"role": "assistant", "content": [{**THOUGHT, "signature": "gAAAA-x"}]}, TURNS[2]]
    await client.send(messages(messages=turns))
    first = await stage.asked()
    assert [item["type"] for item in first.json()["input"]] == ["message", "reasoning", "message"]
    refuse(first, ENCRYPTED)
    second = await stage.asked()
    assert [item["type"] for item in second.json()["input"]] == ["message", "message"]
    answer(second)
    reply = await client.reply()
    assert (reply.status, reply.json()["content"][0]["text"]) == (200, "hello")


@story(CLAUDE)
async def test_it_is_asked_only_once_more(stage: Stage) -> None:
    client = await stage.client()
    await client.send(messages())
    refuse(await stage.asked(), SIGNATURE)
    refuse(await stage.asked(), SIGNATURE)
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["message"]) == (400, SIGNATURE)


@story(CLAUDE)
async def test_a_stream(stage: Stage) -> None:
    client = await stage.client()
    await client.send(messages(stream=True))
    refuse(await stage.asked(), SIGNATURE)
    second = await stage.asked()
    assert len(second.json()["messages"][1]["content"]) == 1
    second.begin()
    second.chunk(STREAM)
    second.send(b"0\r\n\r\n")
    head = await client.head()
    assert head.status == 200
    assert [event.name async for event in client.events(head)] == ["message_start", "message_delta", "message_stop"]


@story(CLAUDE)
async def test_any_other_refusal_is_the_clients(stage: Stage) -> None:
    client = await stage.client()
    for message in ("max_tokens: Field required", "prompt is too long: 9 tokens > 8 maximum"):
        await client.send(messages())
        refuse(await stage.asked(), message)
        assert (await client.reply()).status == 400


@story(CLAUDE)
async def test_without_thinking_there_is_nothing_to_leave_out(stage: Stage) -> None:
    client = await stage.client()
    await client.send(messages(messages=[TURNS[0]]))
    refuse(await stage.asked(), SIGNATURE)
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["message"]) == (400, SIGNATURE)


@story(LOCAL)
async def test_a_serve_of_ones_own_is_not_asked_again(stage: Stage) -> None:
    client = await stage.client()
    await client.send(messages())
    refuse(await stage.asked(), SIGNATURE)
    assert (await client.reply()).status == 400
