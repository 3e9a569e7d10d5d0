"""Stored responses on their way: what the serve is asked, what its answer has to be, and what is stored of it."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, a_serve, story

from stoker.domain.dialect import Dialect
from stoker.gateway.response_turns import compacts_itself
from stoker_lab.testing.client import RawReply, compose_request

RESPONSES, COMPACT = "/v1/responses", "/v1/responses/compact"
SPEAKS = frozenset((Dialect.RESPONSES,))
OPENAI = a_serve(base_url="https://api.openai.com/v1", dialects=SPEAKS)
NATIVE = a_serve(dialects=SPEAKS)
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
           "content": [{"type": "output_text", "text": "an answer", "annotations": []}]}  # fmt: skip
ANSWER = {
    "id": "resp_upstream", "object": "response", "status": "completed", "model": "engine", "output": [MESSAGE],
    "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
}  # fmt: skip


def respond(path: str = RESPONSES, *headers: tuple[str, str], **fields: Any) -> bytes:
    return compose_request("POST", path, {"model": "a", "input": "a question", **fields}, headers)


def read(id: str) -> bytes:
    return compose_request("GET", f"{RESPONSES}/{id}")


def events(*payloads: dict[str, Any]) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in payloads)


async def ask(stage: Stage, request: bytes, *answers: object) -> RawReply:
    client = await stage.client()
    await client.send(request)
    for answer in answers:
        (await stage.asked()).reply(answer)
    return await client.reply()


# -- OpenAI's own compaction -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "dialects", "expected"),
    [
        ("https://api.openai.com/v1", SPEAKS, True),
        ("https://eu.api.openai.com/v1", SPEAKS, True),
        ("https://us.openai.azure.com/openai/v1", SPEAKS, True),
        ("https://api.openai.com/v1", frozenset((Dialect.CHAT,)), False),
        ("https://api.openai.com.example.com/v1", SPEAKS, False),
        ("https://notapi.openai.com/v1", SPEAKS, False),
        ("http://127.0.0.1:8080/v1", SPEAKS, False),
        (None, SPEAKS, False),
    ],
)
def test_only_openai_compacts_by_itself(address: str | None, dialects: frozenset[Dialect], expected: bool) -> None:
    assert compacts_itself(a_serve(base_url=address, dialects=dialects)) is expected


@story(OPENAI)
async def test_openai_gets_a_request_to_compact_as_it_is(stage: Stage) -> None:
    client = await stage.client()
    await client.send(respond(COMPACT, previous_response_id="resp_of_openai"))
    talk = await stage.asked()
    assert talk.head.startswith(b"POST /v1/responses/compact ")
    assert talk.json() == {"model": "engine", "input": "a question", "previous_response_id": "resp_of_openai"}
    answer = {"id": "resp_2", "object": "response.compaction", "output": [{"type": "compaction"}], "usage": None}
    talk.reply(answer)
    reply = await client.reply()
    assert (reply.status, reply.json()) == (200, answer)


@story(OPENAI, stores=True)
async def test_openai_gets_what_stoker_has_stored(stage: Stage) -> None:
    first = (await ask(stage, respond(), ANSWER)).json()
    client = await stage.client()
    await client.send(respond(COMPACT, input="go on", previous_response_id=first["id"], instructions="be brief"))
    talk = await stage.asked()
    asked = talk.json()
    assert sorted(asked) == ["input", "instructions", "model"]
    assert [item["role"] for item in asked["input"]] == ["user", "assistant", "user"]
    talk.reply({"id": "resp_2", "object": "response.compaction", "output": [{"type": "compaction"}]})
    assert (await client.reply()).status == 200


# -- what has to be read, comes uncompressed -------------------------------------------------------------------------


@pytest.mark.parametrize("stores", [True, False])
def test_only_an_answer_that_is_stored_is_asked_for_uncompressed(stores: bool) -> None:
    @story(NATIVE, stores=stores)
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(respond(RESPONSES, ("accept-encoding", "gzip")))
        talk = await stage.asked()
        assert talk.header("accept-encoding") == (None if stores else "gzip")
        if stores:
            talk.reply(ANSWER)
            reply = await client.reply()
            stored = await ask(stage, read(reply.json()["id"]))
            assert stored.json()["output"] == [MESSAGE]
        else:
            talk.reply(gzip.compress(json.dumps(ANSWER).encode()), "200 OK", "content-encoding: gzip")
            assert ANSWER.items() <= (await client.reply()).json().items(), "decoded, since fields may be missing"

    tell()


@story(NATIVE)
async def test_a_summary_is_asked_for_uncompressed(stage: Stage) -> None:
    client = await stage.client()
    await client.send(respond(COMPACT, ("accept-encoding", "gzip")))
    talk = await stage.asked()
    assert talk.header("accept-encoding") is None
    talk.reply(ANSWER)
    assert (await client.reply()).json()["object"] == "response.compaction"
