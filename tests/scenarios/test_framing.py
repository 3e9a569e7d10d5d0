"""Bytes: nothing is changed on the way but what is said; tests/gateway/test_flow_framing.py has what HTTP allows."""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Iterator

import pytest
from tests.scenarios.caller import PATHS, Talk, ask, document, story, words
from tests.scenarios.plane import Plane, running, serve

from stoker_lab.testing.client import RawClient, compose_request


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        serve("a", slot=None, aliases=["org/family/model-7b:q4"], served_name="a"),
        front_door='body_limit = "8MiB"',
        keeps_engines=True,
    ) as plane:
        yield plane


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
    wire = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n%b" % (len(odd), odd)
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
