"""A stream of the Responses dialect that fails is the failure of the response that it began, to OpenAI's own helper."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from tests.gateway.flow_stage import Stage, Talk, a_serve, delta, story

from stoker.domain.dialect import Dialect
from stoker_lab.testing.client import compose_request

SERVES = {
    "translated": a_serve(dialects=frozenset((Dialect.CHAT,))),
    "passed through": a_serve(dialects=frozenset((Dialect.RESPONSES,))),
}
BARE = {"object": "response", "status": "in_progress", "output": [], "model": "engine", "created_at": 77}
ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}
TEXT = {"type": "output_text", "text": "", "annotations": []}
IDENTITY = ("id", "model", "created_at")
OPENING: list[dict[str, Any]] = [
    {"type": "response.created", "response": {**BARE, "id": "resp_engine"}},
    {"type": "response.output_item.added", "output_index": 0, "item": ITEM},
    {"type": "response.content_part.added", "output_index": 0, "content_index": 0, "item_id": "msg_1", "part": TEXT},
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "msg_1", "delta": "par",
     "logprobs": []},
]  # fmt: skip


def named(*events: dict[str, Any]) -> bytes:
    numbered = [{**event, "sequence_number": at} for at, event in enumerate(events)]
    return b"".join(b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in numbered)


def break_off(stage: Stage, talk: Talk) -> None:
    talk.close()


def report_an_error(stage: Stage, talk: Talk) -> None:
    talk.chunk(b'data: {"error":{"message":"boom"}}\n\n')


def stay_silent(stage: Stage, talk: Talk) -> None:
    """Until `stall_timeout`."""


def be_cancelled(stage: Stage, talk: Talk) -> None:
    stage.flow.cancel(next(iter(stage.flow.active)))


WAYS: dict[Callable[[Stage, Talk], None], str] = {
    break_off: "broke off", report_an_error: "boom", stay_silent: "stall_timeout", be_cancelled: "cancelled",
}  # fmt: skip


async def begin(stage: Stage, kind: str) -> Talk:
    """The serve answers, up to the first text."""
    talk = await stage.asked()
    talk.begin()
    talk.chunk(delta("par") if kind == "translated" else named(*OPENING))
    return talk


def assert_is_one_response(events: list[dict[str, Any]], words: str) -> dict[str, Any]:
    """The failed response; it is the one that was created."""
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    created, failed = events[0]["response"], events[-1]["response"]
    assert [failed[name] for name in IDENTITY] == [created[name] for name in IDENTITY]
    assert (failed["status"], failed["object"]) == ("failed", "response")
    assert words in events[-2]["message"]
    assert words in failed["error"]["message"]
    assert isinstance(failed, dict)
    return failed


def sdk_of(stage: Stage) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{stage.port}/v1", api_key="none", max_retries=0)


KINDS = pytest.mark.parametrize("kind", SERVES)
STORES = pytest.mark.parametrize("stores", [False, True], ids=["", "stored"])
EACH_WAY = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@STORES
@EACH_WAY
@KINDS
def test_however_it_fails_it_is_the_response_that_was_created(
    kind: str, way: Callable[[Stage, Talk], None], stores: bool
) -> None:
    @story(SERVES[kind], stores=stores, stall_timeout=0.5 if way is stay_silent else 60.0, keep_alive=0)
    async def told(stage: Stage) -> None:
        client = await stage.client()
        body = {"model": "a", "input": "hi", "stream": True, "store": stores}
        await client.send(compose_request("POST", "/v1/responses", body))
        talk = await begin(stage, kind)
        events = []
        async for event in client.events(await client.head()):
            events.append(event.json())
            if events[-1]["type"] == "response.output_text.delta":
                way(stage, talk)
        failed = assert_is_one_response(events, WAYS[way])
        assert not (stores and failed["store"])

    told()


@EACH_WAY
@KINDS
def test_openais_stream_helper_raises_the_cause(kind: str, way: Callable[[Stage, Talk], None]) -> None:
    @story(SERVES[kind], stall_timeout=1.0 if way is stay_silent else 60.0, keep_alive=0)
    async def told(stage: Stage) -> None:
        raised: list[openai.APIError] = []
        async with sdk_of(stage) as sdk, asyncio.TaskGroup() as group:
            beginning = group.create_task(begin(stage, kind))
            try:
                async with sdk.responses.stream(model="a", input="hi") as stream:
                    async for event in stream:
                        if event.type == "response.output_text.delta":
                            way(stage, beginning.result())
            except openai.APIError as error:
                raised.append(error)
        assert [WAYS[way] in error.message for error in raised] == [True]

    told()


@STORES
@KINDS
def test_one_that_fails_before_its_first_event_is_created_all_the_same(kind: str, stores: bool) -> None:
    """The client has a 200 and pings: it waited for longer than `commit_after`."""

    @story(SERVES[kind], stores=stores, commit_after=0.02, keep_alive=0.02)
    async def told(stage: Stage) -> None:
        client = await stage.client()
        body = {"model": "a", "input": "hi", "stream": True, "store": stores}
        await client.send(compose_request("POST", "/v1/responses", body))
        head = await client.head()
        (await stage.asked()).close()
        events = [event.json() async for event in client.events(head) if not event.comment]
        assert [event["type"] for event in events] == ["response.created", "error", "response.failed"]
        failed = assert_is_one_response(events, "the serve")
        assert (failed["model"], failed["created_at"]) == ("a", 1)

    told()
