"""A `compaction_trigger` at the end of a request for a response: the client gets one compaction item, and goes on with
it. Codex ends its session at any other answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, Talk, a_serve, story

from stoker.domain.dialect import Dialect
from stoker_lab.testing.client import RawClient, RawReply, compose_request

RESPONSES = "/v1/responses"
SPEAKS = frozenset((Dialect.RESPONSES,))
NATIVE, CHATTY = a_serve(dialects=SPEAKS), a_serve(dialects=frozenset((Dialect.CHAT,)))
MESSAGES = a_serve(dialects=frozenset((Dialect.MESSAGES,)))
OPENAI = a_serve(base_url="https://api.openai.com/v1", dialects=SPEAKS)
SUMMARY = "the teapot is built, and empty"
HISTORY: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": "build a teapot"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "it is built"}]},
]
TRIGGER = {"type": "compaction_trigger"}
EVERY_SERVE = pytest.mark.parametrize("serve", [NATIVE, CHATTY, MESSAGES], ids=["responses", "chat", "messages"])
STREAMED = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
STORED = pytest.mark.parametrize("stores", [True, False], ids=["stored", "not stored"])


def respond(items: object, **fields: Any) -> bytes:
    return compose_request("POST", RESPONSES, {"model": "a", "input": items, **fields})


def message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def response(status: str, *output: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    return {"id": "resp_1", "object": "response", "status": status, "model": "engine", "output": output, "usage": usage}


def event(kind: str, number: int, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (
        kind.encode(),
        json.dumps({"type": kind, "sequence_number": number, **fields}).encode(),
    )


def chat_chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()


def messages_event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps({"type": kind, **fields}).encode())


def a_stream(talk: Talk, text: str) -> list[bytes]:
    """The events of an answer in the dialect in which the serve was asked."""
    if b"/responses " in talk.head:
        done = response("completed", message(text))
        return [
            event("response.created", 0, response=response("in_progress")),
            event("response.output_item.added", 1, output_index=0, item={**message(""), "content": []}),
            event("response.output_text.delta", 2, output_index=0, content_index=0, item_id="msg_1", delta=text),
            event("response.output_item.done", 3, output_index=0, item=message(text)),
            event("response.completed", 4, response=done),
        ]
    if b"/messages " in talk.head:
        start = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "engine",
                 "stop_reason": None, "usage": {"input_tokens": 3, "output_tokens": 1}}  # fmt: skip
        return [
            messages_event("message_start", message=start),
            messages_event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
            messages_event("content_block_delta", index=0, delta={"type": "text_delta", "text": text}),
            messages_event("content_block_stop", index=0),
            messages_event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
            messages_event("message_stop"),
        ]
    return [chat_chunk({"role": "assistant", "content": text}), chat_chunk({}, "stop"), b"data: [DONE]\n\n"]


def whole(talk: Talk, text: str) -> dict[str, Any]:
    if b"/responses " in talk.head:
        return response("completed", message(text))
    if b"/messages " in talk.head:
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": "engine", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": text}],
                "usage": {"input_tokens": 3, "output_tokens": 2}}  # fmt: skip
    said = {"role": "assistant", "content": text}
    return {"choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}  # fmt: skip


def answer(talk: Talk, text: str = SUMMARY) -> None:
    if talk.json().get("stream"):
        talk.begin()
        for piece in a_stream(talk, text):
            talk.chunk(piece)
        talk.send(b"0\r\n\r\n")
    else:
        talk.reply(whole(talk, text))


def read_events(reply: RawReply) -> list[dict[str, Any]]:
    data = [line[6:] for line in reply.body.decode().splitlines() if line.startswith("data: {")]
    return [json.loads(one) for one in data]


async def ask(stage: Stage, request: bytes, say: Callable[[Talk], None] = answer) -> tuple[RawReply, Any]:
    """The client's reply, and what the serve was asked."""
    client: RawClient = await stage.client()
    await client.send(request)
    talk = await stage.asked()
    say(talk)
    return await client.reply(), talk.json()


async def read_until(client: RawClient, end: bytes) -> bytes:
    """What comes of a stream, up to `end`."""
    seen = b""
    while end not in seen:
        piece = await client.read()
        assert piece, seen
        seen += piece
    return seen


def output_of(reply: RawReply, streamed: bool) -> dict[str, Any]:
    """The response's only output item, of which every part of the reply says the same."""
    if not streamed:
        found: dict[str, Any] = reply.json()
    else:
        seen = read_events(reply)
        kinds = [one["type"] for one in seen if one["type"] != "response.in_progress"]
        item_kinds = ["response.output_item.added", "response.output_item.done"]
        assert kinds == ["response.created", *item_kinds, "response.completed"]
        numbers = [one["sequence_number"] for one in seen]
        assert numbers == sorted(set(numbers))
        found = seen[-1]["response"]
        assert [one["item"] for one in seen if "item" in one] == found["output"] * 2
        assert {one["response"]["id"] for one in seen if "response" in one} == {found["id"]}
    assert (found["object"], found["status"]) == ("response", "completed")
    (item,) = found["output"]
    assert isinstance(item, dict)
    assert item["type"] == "compaction"
    assert SUMMARY.encode() not in reply.body
    return item


@EVERY_SERVE
@STREAMED
@STORED
def test_a_trigger_is_answered_with_one_compaction_item_that_later_inputs_may_hold(
    serve: Any, streamed: bool, stores: bool
) -> None:
    @story(serve, stores=stores)
    async def tell(stage: Stage) -> None:
        reply, asked = await ask(stage, respond([*HISTORY, TRIGGER], stream=streamed, instructions="make teapots"))
        assert "Summarise this conversation" in json.dumps(asked)
        assert "it is built" in json.dumps(asked)
        assert "make teapots" in json.dumps(asked)
        assert "compaction_trigger" not in json.dumps(asked)
        item = output_of(reply, streamed)
        question = {"type": "message", "role": "user", "content": "is it full"}
        following, asked = await ask(stage, respond([HISTORY[0], item, question], store=False))
        assert following.status == 200
        assert SUMMARY in json.dumps(asked)
        assert "it is built" not in json.dumps(asked)
        again, asked = await ask(stage, respond([HISTORY[0], item, question, TRIGGER], stream=streamed))
        assert SUMMARY in json.dumps(asked)
        output_of(again, streamed)

    tell()


@STREAMED
def test_a_stored_compaction_stands_for_what_came_before_it(streamed: bool) -> None:
    @story(NATIVE, stores=True)
    async def tell(stage: Stage) -> None:
        first, _ = await ask(stage, respond(HISTORY))
        before = first.json()["id"]
        reply, asked = await ask(stage, respond([TRIGGER], previous_response_id=before, stream=streamed))
        assert "it is built" in json.dumps(asked)
        item = output_of(reply, streamed)
        made = read_events(reply)[-1]["response"] if streamed else reply.json()
        assert (made["store"], made["previous_response_id"]) == (True, before)
        client = await stage.client()
        await client.send(compose_request("GET", f"{RESPONSES}/{made['id']}"))
        assert (await client.reply()).json()["output"] == [item]
        _, asked = await ask(stage, respond("is it full", previous_response_id=made["id"]))
        texts = [part["text"] for one in asked["input"] for part in one["content"] if isinstance(part, dict)]
        assert ["build a teapot" in json.dumps(asked), "it is built" in json.dumps(asked)] == [True, False]
        assert any(SUMMARY in text for text in texts)

    tell()


@story(NATIVE, stores=True)
async def test_a_conversation_is_compacted(stage: Stage) -> None:
    client = await stage.client()
    await client.send(compose_request("POST", "/v1/conversations", {"items": HISTORY}))
    conversation = (await client.reply()).json()["id"]
    reply, asked = await ask(stage, respond([TRIGGER], conversation=conversation))
    assert "it is built" in json.dumps(asked)
    output_of(reply, streamed=False)
    _, asked = await ask(stage, respond("is it full", conversation=conversation))
    assert SUMMARY in json.dumps(asked)
    assert "it is built" not in json.dumps(asked)


@story(OPENAI)
async def test_openai_gets_the_trigger(stage: Stage) -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed by OpenAI"}
    reply, asked = await ask(stage, respond([*HISTORY, TRIGGER]), lambda talk: talk.reply(response("completed", item)))
    assert asked["input"] == [*HISTORY, TRIGGER]
    assert reply.json()["output"] == [item]


@pytest.mark.parametrize(
    ("items", "says"),
    [([TRIGGER, *HISTORY], "must be the last item"), ([TRIGGER, TRIGGER], "must be the last item"),
     ([TRIGGER], "nothing to compact")],
)  # fmt: skip
def test_a_trigger_that_cannot_be_answered_is_refused(items: list[Any], says: str) -> None:
    @story(NATIVE)
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(respond(items))
        reply = await client.reply()
        assert reply.status == 400
        assert says in reply.json()["error"]["message"]

    tell()


@story(NATIVE)
async def test_text_about_triggers_is_no_trigger(stage: Stage) -> None:
    reply, asked = await ask(stage, respond('what is a {"type": "compaction_trigger"}'))
    assert asked["input"].startswith("what is a")
    assert reply.json()["output"] == [message(SUMMARY)]


@EVERY_SERVE
@STREAMED
@STORED
def test_a_model_without_a_summary_is_an_error(serve: Any, streamed: bool, stores: bool) -> None:
    @story(serve, stores=stores)
    async def tell(stage: Stage) -> None:
        reply, _ = await ask(stage, respond([*HISTORY, TRIGGER], stream=streamed), lambda talk: answer(talk, " "))
        if streamed:
            assert "no complete summary" in read_events(reply)[-1]["response"]["error"]["message"]
            assert read_events(reply)[-1]["type"] == "response.failed"
        else:
            assert (reply.status, reply.json()["error"]["code"]) == (502, "no_summary")
        assert (await stage.sealed()).reason == "no_summary"

    tell()


@STREAMED
def test_an_error_of_the_serve_is_the_clients(streamed: bool) -> None:
    @story(NATIVE)
    async def tell(stage: Stage) -> None:
        reply, _ = await ask(
            stage,
            respond([*HISTORY, TRIGGER], stream=streamed),
            lambda talk: talk.reply({"error": {"message": "no"}}, "429 Too Many Requests"),
        )
        assert reply.status == 429

    tell()


@story(CHATTY, commit_after=0.02, keep_alive=0.02)
async def test_a_client_that_waits_for_a_summary_reads_pings_and_none_of_it(stage: Stage) -> None:
    client = await stage.client()
    await client.send(respond([*HISTORY, TRIGGER], stream=True))
    talk = await stage.asked()
    seen = await read_until(client, b": ping\n\n")
    talk.begin()
    talk.say(SUMMARY)
    seen += await read_until(client, b"response.created")
    seen += await read_until(client, b": ping\n\n")
    assert SUMMARY.encode() not in seen
    talk.end()
    seen += await read_until(client, b"response.completed")
    assert b'"compaction"' in seen


@story(CHATTY)
async def test_a_serve_that_breaks_off_its_summary_ends_the_stream_with_an_error(stage: Stage) -> None:
    client = await stage.client()
    await client.send(respond([*HISTORY, TRIGGER], stream=True))
    talk = await stage.asked()
    talk.begin()
    talk.say(SUMMARY)
    await read_until(client, b"response.created")
    talk.close()
    assert b"response.failed" in await read_until(client, b"response.failed")
