"""Answers that are not what they should be: odd JSON, missing embeddings, frames that are cut; each client gets its
dialect, or an error.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, Talk, a_serve, story

from stoker.domain.dialect import Dialect
from stoker_lab.testing.client import RawClient, compose_request

USER = [{"role": "user", "content": "hi"}]
CLIENTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": USER},
    "/v1/messages": {"messages": USER, "max_tokens": 9},
    "/v1/responses": {"input": "hi"},
    "/api/chat": {"messages": USER},
    "/api/generate": {"prompt": "hi"},
}
ALL = a_serve()
CHAT = a_serve(dialects=frozenset((Dialect.CHAT,)))
WHOLE = {
    "/v1/chat/completions": b'{"choices":[{"message":{"content":"%b"},"finish_reason":"stop","x":%b}]}',
    "/v1/completions": b'{"choices":[{"text":"%b","finish_reason":"stop","logprobs":{"token_logprobs":[%b]}}]}',
    "/v1/messages": b'{"content":[{"type":"text","text":"%b"}],"stop_reason":"end_turn","x":%b}',
    "/v1/responses": b'{"status":"completed","output":[{"type":"message","content":[{"text":"%b"}],"x":%b}]}',
    "/v1/embeddings": b'{"model":"%b","data":[{"embedding":[0.1,%b],"index":0}]}',
    "/v1/rerank": b'{"id":"%b","results":[{"index":0,"relevance_score":%b}]}',
}


async def ask(stage: Stage, path: str, **fields: Any) -> tuple[RawClient, Talk]:
    client = await stage.client()
    await client.send(compose_request("POST", path, {"model": "a", **fields}))
    return client, await stage.asked()


@pytest.mark.parametrize("odd", [b"NaN", b"Infinity", b"-Infinity"])
@pytest.mark.parametrize("path", WHOLE)
def test_a_good_answer_with_odd_json_reaches_the_client_as_strict_json(path: str, odd: bytes) -> None:
    @story(ALL)
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, path, input="x", messages=USER, prompt="x", query="x", documents=["x"])
        talk.reply(WHOLE[path] % (rb"\ud83d x", odd))
        reply = await client.reply()
        assert reply.status == 200
        assert "\ufffd x" in json.dumps(json.loads(reply.body, parse_constant=pytest.fail), ensure_ascii=False)

    told()


@pytest.mark.parametrize("path", CLIENTS)
def test_an_emoji_that_the_engine_cuts_in_two_reaches_the_client_whole(path: str) -> None:
    @story(CHAT)
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, path, stream=True, **CLIENTS[path])
        talk.begin()
        for half in (rb"a\ud83d", rb"\ude00b"):
            talk.chunk(b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % half)
        talk.end()
        body = (await client.reply()).body
        if path == "/v1/chat/completions":  # as the engine wrote it: clients join it
            assert rb"\ud83d" in body
        else:
            assert "\ufffd" not in body.decode()
            assert "😀b" in body.decode()

    told()


@pytest.mark.parametrize("path", [path for path in CLIENTS if path != "/v1/chat/completions"])
def test_bytes_that_are_no_text_are_replaced_and_the_answer_goes_on(path: str) -> None:
    @story(CHAT)
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, path, stream=True, **CLIENTS[path])
        talk.begin()
        talk.chunk(b'data: {"choices":[{"index":0,"delta":{"content":"a\xff\xfeb"}}]}\n\n')
        talk.end()
        assert "a\ufffd\ufffdb" in (await client.reply()).body.decode()

    told()


@pytest.mark.parametrize("path", CLIENTS)
def test_a_last_frame_without_its_blank_line_counts(path: str) -> None:
    ends = {"/v1/messages": "message_stop", "/v1/responses": "response.completed", "/v1/chat/completions": "[DONE]\n\n"}

    @story(CHAT)
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, path, stream=True, **CLIENTS[path])
        talk.begin()
        talk.say("x")
        talk.chunk(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]')
        talk.send(b"0\r\n\r\n")
        assert ends.get(path, '"done":true') in (await client.reply()).body.decode()

    told()


@pytest.mark.parametrize("path", [path for path in CLIENTS if path != "/v1/chat/completions"])
def test_so_does_the_frame_with_the_finish(path: str) -> None:
    @story(CHAT)
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, path, stream=True, **CLIENTS[path])
        talk.begin()
        talk.say("x")
        talk.chunk(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
        talk.send(b"0\r\n\r\n")
        assert '"error":{' not in (await client.reply()).body.decode()
        assert (await stage.sealed()).outcome == "served"

    told()


def vectors(*embeddings: object) -> dict[str, Any]:
    return {"data": [{"embedding": one, "index": at} for at, one in enumerate(embeddings)], "usage": {}}


@pytest.mark.parametrize(
    "answer",
    [vectors([0.1]), vectors([0.1], []), vectors([0.1], None), vectors([0.1], ""), vectors(), {"data": None}],
    ids=["too few", "empty", "null", "no bytes", "none", "no list"],
)
@pytest.mark.parametrize("path", ["/v1/embeddings", "/api/embed"])
def test_an_embedding_that_is_missing_is_an_error(path: str, answer: dict[str, Any]) -> None:
    @story(ALL)
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, path, input=["one", "two"])
        talk.reply(answer)
        assert (await client.reply()).status == 502
        assert (await stage.sealed()).reason == "upstream_unusable"

    told()


@pytest.mark.parametrize(
    ("given", "count"),
    [("one", 1), (["one", "two"], 2), ([1, 2, 3], 1), ([[1, 2], [3]], 2)],
    ids=["text", "texts", "tokens", "lists of tokens"],
)
def test_as_many_embeddings_as_inputs_are_enough(given: object, count: int) -> None:
    @story(ALL)
    async def told(stage: Stage) -> None:
        client, talk = await ask(stage, "/v1/embeddings", input=given)
        answer = vectors(*["AAAAPw=="] * count)
        talk.reply(answer)
        assert (await client.reply()).json() == answer

    told()


@story(ALL)
async def test_ollamas_older_path_gets_an_error_too(stage: Stage) -> None:
    client, talk = await ask(stage, "/api/embeddings", prompt="x")
    talk.reply(vectors([]))
    assert (await client.reply()).status == 502


@story(ALL)
async def test_ollamas_embeddings_are_in_the_order_of_the_texts(stage: Stage) -> None:
    client, talk = await ask(stage, "/api/embed", input=["one", "two"])
    talk.reply({"data": [{"embedding": [2.0], "index": 1}, {"embedding": [1.0], "index": 0}]})
    assert (await client.reply()).json()["embeddings"] == [[1.0], [2.0]]


@story(CHAT, commit_after=0.02, keep_alive=0.02)
async def test_a_ping_to_an_ollama_client_names_the_model_and_the_time(stage: Stage) -> None:
    client, talk = await ask(stage, "/api/chat", messages=USER)
    head = await client.head()
    talk.begin()
    talk.say("x")
    talk.end()
    lines = [json.loads(line) for line in (await client.body(head)).splitlines()]
    assert {(line["model"], line["created_at"]) for line in lines[:1]} == {("a", "1970-01-01T00:00:01Z")}
