"""Bytes: what HTTP allows, what it does not, and that nothing is changed on the way."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Iterator

import pytest
from tests.scenarios.caller import PATHS, Talk, ask, document, story, words
from tests.scenarios.plane import Plane, running, serve

from stoker_lab.testing.client import RawClient, compose_request

BODY = json.dumps(document("a")).encode()
CHUNKED = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (10, BODY[:10], len(BODY) - 10, BODY[10:])


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        serve("a", slot=None, aliases=["org/family/model-7b:q4"], served_name="a"),
        front_door='prefixes = ["/llm"]\nbody_limit = "8MiB"',
        keeps_engines=True,
    ) as plane:
        yield plane


def head(line: str, *headers: str) -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", "host: 127.0.0.1", *headers, "", ""]).encode()


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (head("POST /v1/chat/completions", "transfer-encoding: chunked") + CHUNKED, "a chunked body"),
        (head("POST /v1/chat/completions/", f"content-length: {len(BODY)}") + BODY, "a trailing slash"),
        (head("POST /v1/ch%61t/completion%73", f"content-length: {len(BODY)}") + BODY, "a percent-encoded path"),
        (head("POST /llm/v1/chat/completions", f"content-length: {len(BODY)}") + BODY, "a prefix"),
        (head("POST /v1/chat/completions", f"CONTENT-LENGTH: {len(BODY)}") + BODY, "shouted headers"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
@story
async def test_unusual_but_right_requests_are_served(plane: Plane, sent: bytes, what: str) -> None:
    """Behaviour 34."""
    async with RawClient(plane.port, timeout=30) as client:
        await client.send(sent)
        reply = await client.reply()
        assert reply.status == 200, (what, reply)
        assert reply.json()["choices"][0]["message"]["content"] == words(20)
        await client.send(compose_request("GET", "/healthz"))
        assert (await client.reply()).status == 200, "the connection is out of step"


@story
async def test_expect_100_continue_is_answered_before_the_body_is_sent(plane: Plane) -> None:
    """Behaviour 34."""
    async with RawClient(plane.port, timeout=30) as client:
        await client.send(head("POST /v1/chat/completions", f"content-length: {len(BODY)}", "expect: 100-continue"))
        assert (await client.head()).status == 100
        await client.send(BODY)
        assert (await client.reply()).status == 200


@story
async def test_a_model_id_with_slashes_is_served_and_listed(plane: Plane) -> None:
    """Behaviour 34."""
    name = "org/family/model-7b:q4"
    reply = await ask(plane, name)
    assert reply.status == 200
    assert "model" in (reply.header("x-stoker-translation") or "")
    async with RawClient(plane.port, timeout=30) as client:
        for path in (f"/v1/models/{name}", f"/v1/models/{name.replace('/', '%2F')}", f"/llm/v1/models/{name}"):
            assert (await client.ask("GET", path)).json()["id"] == name
        assert name in [model["id"] for model in (await client.ask("GET", "/v1/models")).json()["data"]]


@story
async def test_a_body_in_single_bytes_and_two_requests_in_one_write_are_served(plane: Plane) -> None:
    """The neighbours of behaviour 34."""
    wire = compose_request("POST", PATHS["chat"], document("a"))
    async with RawClient(plane.port, timeout=30) as client:
        for at in range(0, len(wire), 3):
            await client.send(wire[at : at + 3])
        assert (await client.reply()).status == 200
        await client.send(wire + compose_request("GET", "/v1/models"))
        assert (await client.reply()).json()["object"] == "chat.completion"
        assert (await client.reply()).json()["object"] == "list"


@pytest.mark.parametrize(
    "headers",
    [
        [f"content-length: {len(BODY)}", f"content-length: {len(BODY) + 1}"],
        [f"content-length: {len(BODY)}", f"content-length: {len(BODY)}"],
        [f"content-length: {len(BODY)}", "transfer-encoding: chunked"],
        ["transfer-encoding: chunked", f"content-length: {len(BODY)}"],
        ["content-length: +5"],
        ["content-length: -5"],
        ["content-length: 0x5"],
        ["content-length: 5, 5"],
        ["content-length: "],
        ["transfer-encoding: xchunked"],
        ["transfer-encoding: chunked, identity"],
        ["transfer-encoding : chunked"],
        ["content-length: 5\n"],
    ],
    ids=lambda headers: ", ".join(headers).replace("content-length", "CL").replace("transfer-encoding", "TE"),
)
@story
async def test_a_frame_that_two_readers_could_see_differently_is_400_and_the_connection_closes(
    plane: Plane, headers: list[str]
) -> None:
    """Behaviour 35."""
    before = sum(decision["attempts"] for decision in plane.decisions())
    async with RawClient(plane.port, timeout=30) as client:
        await client.send(head("POST /v1/chat/completions", *headers) + BODY + compose_request("GET", "/healthz"))
        answer = b""
        while piece := await client.read():
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert answer.count(b"HTTP/1.1 ") == 1, "what followed was taken for a request"
    assert sum(decision["attempts"] for decision in plane.decisions()) == before, "it got as far as a serve"


@pytest.mark.parametrize("dialect", sorted(PATHS))
@story
async def test_a_body_above_the_limit_is_413_before_it_is_read(plane: Plane, dialect: str) -> None:
    """Behaviour 36."""
    size = 8 * 2**20 + 1
    async with RawClient(plane.port, timeout=30) as client:
        await client.send(head(f"POST {PATHS[dialect]}", f"content-length: {size}"))  # and not a byte of it
        reply = await client.reply()
        assert reply.status == 413
        assert (reply.json()["error"]["code"], reply.json()["error"]["source"]) == ("body_too_large", "stoker")
        assert (reply.json().get("type") == "error") == (dialect == "messages")
        assert await client.read() == b"", "an unread body, and the connection is still open"
    async with RawClient(plane.port, timeout=30) as client:  # the length is not declared
        await client.send(head(f"POST {PATHS[dialect]}", "transfer-encoding: chunked"))
        piece = b"%x\r\n%b\r\n" % (2**20, b" " * 2**20)
        sent = 0
        try:
            while sent < 64:
                await client.send(piece)
                sent += 1
        except ConnectionError:
            assert sent >= 8
        assert sent < 64, "64 MiB were taken"


@story
async def test_a_get_with_a_body_is_not_taken_for_two_requests(plane: Plane) -> None:
    """The neighbour of behaviour 35."""
    async with RawClient(plane.port, timeout=30) as client:
        inner = compose_request("GET", "/status")
        await client.send(head("GET /v1/models", f"content-length: {len(inner)}") + inner)
        assert (await client.reply()).json()["object"] == "list"
        assert await client.read() == b""


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
@story
async def test_five_megabytes_of_image_arrive_identical(plane: Plane, dialect: str) -> None:
    """Byte for byte; only the model's name would be changed, and here it is the serve's own. (No vision model can run
    here: that the bytes are the same is what can be shown.)"""
    image = base64.b64encode(random.Random(5).randbytes(5 * 10**6)).decode()
    parts = {
        "chat": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
        "messages": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}},
        "responses": {"type": "input_image", "image_url": f"data:image/png;base64,{image}"},
    }
    text = {"type": "input_text" if dialect == "responses" else "text", "text": "what is it?  \u00e9 \ud83d\ude00"}
    turns = [{"role": "user", "content": [text, parts[dialect]]}]
    asked = document("a", dialect=dialect) | ({"input": turns} if dialect == "responses" else {"messages": turns})
    wire = compose_request("POST", PATHS[dialect], asked)
    body = wire.partition(b"\r\n\r\n")[2]
    assert len(body) > 6 * 10**6
    async with RawClient(plane.port, timeout=30) as client:
        await client.send(wire)
        reply = await client.reply()
    assert reply.status == 200
    assert reply.header("x-stoker-translation") is None
    assert reply.header("x-body-sha256") == hashlib.sha256(body).hexdigest()


@story
async def test_only_the_listed_edits_are_made_and_each_is_named(plane: Plane) -> None:
    """Row R1: odd spacing, order and unknown fields survive; what is dropped is said."""
    odd = (
        b'{ "zeta":1.50, "messages" :[{"role":"user","content":"caf\\u00e9"}],"id_slot":3,\n "model":'
        b'"org/family/model-7b:q4", "x":{"model":"inner"} }'
    )
    wire = head("POST /v1/chat/completions", f"content-length: {len(odd)}") + odd
    async with RawClient(plane.port, timeout=30) as client:
        await client.send(wire)
        reply = await client.reply()
    assert reply.status == 200
    assert sorted((reply.header("x-stoker-translation") or "").replace(" ", "").split(",")) == [
        "dropped:id_slot",
        "model",
    ]
    got = plane.received("a", PATHS["chat"])[-1]
    assert '"zeta":1.50, "messages" :[{"role":"user","content":"caf\\u00e9"}]' in got["body"]
    assert '"x":{"model":"inner"} }' in got["body"]
    assert '"model":"a"' in got["body"]
    assert "id_slot" not in got["body"]


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
@story
async def test_every_framing_of_the_serve_comes_out_as_a_proper_reply(plane: Plane, framing: str) -> None:
    """Also cut into odd pieces, and over a connection that the serve closes each time."""
    for script in (f"framing={framing} split=1,3,7 gap=0.001", f"framing={framing} close_each=yes"):
        async with Talk(plane, "a", f"script: {script}", stream=True) as stream:
            assert await stream.text() == words(20)
        reply = await ask(plane, "a", f"script: {script}")
        assert reply.json()["choices"][0]["message"]["content"] == words(20)
