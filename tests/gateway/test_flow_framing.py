"""Framing, through a real server: what HTTP allows is served, what two readers could understand differently is not."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.gateway.flow_stage import CHAT, Stage, a_serve, ask, delta, story

from stoker.domain.serve import Serve
from stoker_lab.testing.client import FramingError, RawClient, RawReply, compose_request

OK = {"ok": True}
ANSWER = {"choices": [{"message": {"role": "assistant", "content": "x"}}]}
BODY = b'{"model":"a","messages":[]}'


async def served(stage: Stage, request: bytes) -> RawReply:
    client = await stage.client()
    await client.send(request)
    (await stage.asked()).reply(OK)
    return await client.reply()


def post(path: str = CHAT, body: bytes = BODY, *headers: str, version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "host: localhost", "content-type: application/json", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def sized(path: str = CHAT, body: bytes = BODY, *headers: str, version: str = "1.1") -> bytes:
    return post(path, body, f"content-length: {len(body)}", *headers, version=version)


async def is_closed(client: RawClient) -> bool:
    """Whether the peer ended the connection; nothing may come before that."""
    try:
        return await client.read() == b""
    except ConnectionError:
        return True


# -- 34: served ------------------------------------------------------------------------------------------------------


@story()
async def test_a_chunked_body_is_served(stage: Stage) -> None:
    client = await stage.client()
    chunks = (
        b"5;ext=1\r\n" + BODY[:5] + b"\r\n" + b"%x\r\n%b\r\n" % (len(BODY) - 5, BODY[5:]) + b"0\r\nx-trailer: 1\r\n\r\n"
    )
    head = post(CHAT, b"", "transfer-encoding: chunked")
    for piece in (head, chunks[:3], chunks[3:20], chunks[20:]):
        await client.send(piece)
        await asyncio.sleep(0)
    talk = await stage.asked()
    assert json.loads(talk.body) == {"model": "engine", "messages": []}
    assert talk.header("content-length") == str(len(talk.body))
    assert talk.header("transfer-encoding") is None
    talk.reply(OK)
    assert (await client.reply()).status == 200


@story()
async def test_expect_100_continue_is_answered_before_the_body_is_sent(stage: Stage) -> None:
    client = await stage.client()
    await client.send(post(CHAT, b"", "expect: 100-continue", f"content-length: {len(BODY)}"))
    assert (await client.head()).status == 100
    await client.send(BODY)
    talk = await stage.asked()
    assert talk.header("expect") is None
    talk.reply(OK)
    assert (await client.reply()).status == 200


@story(body_limit=10)
async def test_expect_100_continue_for_too_large_a_body_is_413_at_once(stage: Stage) -> None:
    client = await stage.client()
    await client.send(post(CHAT, b"", "expect: 100-continue", "content-length: 11"))
    assert (await client.head()).status == 413


@story(a_serve(aliases=("org/some.model",)), prefixes=("/llm",))
async def test_odd_spellings_of_a_path_and_ids_with_slashes_are_served(stage: Stage) -> None:
    for path in (CHAT + "/", "/v1/chat/%63ompletions", "/llm/v1/chat/completions", CHAT + "?x=1"):
        assert (await served(stage, sized(path))).status == 200
    body = b'{"model":"org/some.model"}'
    assert (await served(stage, sized(CHAT, body))).status == 200
    client = await stage.client()
    assert (await client.ask("GET", "/v1/models/org%2Fsome.model")).json() == {"id": "org/some.model"}
    assert (await client.ask("GET", "/llm/v1/models")).json()["data"][-1] == {"id": "org/some.model"}


@story()
async def test_an_http_1_0_client_is_served_and_the_connection_ends(stage: Stage) -> None:
    client = await stage.client()
    await client.send(sized(version="1.0"))
    (await stage.asked()).reply(OK)
    reply = await client.reply()
    assert (reply.status, reply.header("connection")) == (200, "close")
    assert await is_closed(client)


@story()
async def test_an_http_1_0_client_gets_its_stream_without_chunks(stage: Stage) -> None:
    client = await stage.client()
    await client.send(sized(CHAT, b'{"model":"a","stream":true}', version="1.0"))
    talk = await stage.asked()
    talk.begin()
    talk.say("x")
    talk.end()
    head = await client.head()
    assert head.header("transfer-encoding") is None
    body = await client.body(head)
    assert body.startswith(delta("x"))
    assert body.endswith(b"data: [DONE]\n\n")


@story()
async def test_a_connection_is_kept_and_pipelined_requests_are_answered_in_order(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(seed=1) + ask(seed=2) + compose_request("GET", "/healthz"))
    first = await stage.asked()
    assert first.json()["seed"] == 1
    first.reply({"n": 1})
    second = await stage.asked()
    second.reply({"n": 2})
    assert [(await client.reply()).json() for _ in range(3)] == [ANSWER | {"n": 1}, ANSWER | {"n": 2}, {"status": "ok"}]


@story()
async def test_an_upgrade_that_is_not_spoken_is_passed_over(stage: Stage) -> None:
    """Java's client offers h2c with every request."""
    request = sized(CHAT, BODY, "connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABk")
    client = await stage.client()
    await client.send(request)
    talk = await stage.asked()
    assert talk.header("upgrade") is None
    talk.reply(OK)
    assert (await client.reply()).status == 200


@story()
async def test_five_megabytes_arrive_identical(stage: Stage) -> None:
    image = "data:image/png;base64," + "iVBORw0KGgo" * 460_000
    client = await stage.client()
    sending = asyncio.get_running_loop().create_task(client.send(ask("engine", image=image)))
    talk = await stage.asked()
    await sending
    assert talk.body == ask("engine", image=image).partition(b"\r\n\r\n")[2]
    talk.reply(OK)
    assert (await client.reply()).status == 200


@story()
async def test_head_has_the_head_of_get_and_no_body(stage: Stage) -> None:
    client = await stage.client()
    full = await client.ask("GET", "/v1/models")
    await client.send(compose_request("HEAD", "/v1/models"))
    head = await client.head()
    assert head.header("content-length") == full.header("content-length")
    assert (await client.ask("GET", "/healthz")).json() == {"status": "ok"}, "no byte of a body came before"


# -- 35, 36: refused -------------------------------------------------------------------------------------------------

SMUGGLED = [
    post(CHAT, BODY, f"content-length: {len(BODY)}", "content-length: 3"),
    post(CHAT, b"0\r\n\r\n", "transfer-encoding: chunked", "content-length: 5"),
    post(CHAT, BODY, f"content-length: +{len(BODY)}"),
    post(CHAT, BODY, f"content-length: {len(BODY)}, {len(BODY)}"),
    post(CHAT, BODY, "content-length: 0x1b"),
    post(CHAT, BODY, "content-length: -1"),
    post(CHAT, BODY, "content-length: " + "9" * 40),
    post(CHAT, BODY, "transfer-encoding: xchunked"),
    post(CHAT, BODY, "transfer-encoding: chunked, identity"),
    post(CHAT, b"zz\r\n" + BODY, "transfer-encoding: chunked"),
    b"GARBAGE\r\n\r\n",
    post(CHAT, BODY, "content-length : 27"),
    post(CHAT, BODY, *[f"content-length: {len(BODY)}"] * 2),
    post(CHAT, BODY, "content-length: "),
    post(CHAT, BODY, f"content-length: {len(BODY)}\n"),
    post(CHAT, b"0\r\n\r\n", "transfer-encoding : chunked"),
]


@pytest.mark.parametrize("request_bytes", SMUGGLED)
def test_a_length_that_two_could_read_differently_is_400_and_the_connection_closes(request_bytes: bytes) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(request_bytes)
        reply = await client.reply()
        assert (reply.status, reply.header("connection")) == (400, "close")
        assert await is_closed(client)
        assert stage.lines == []

    tell()


@story(body_limit=1000)
async def test_too_large_a_body_is_413_before_it_is_read(stage: Stage) -> None:
    client = await stage.client()
    await client.send(post(CHAT, b"", "content-length: 1001"))
    reply = await client.reply()
    assert reply.status == 413
    assert reply.json()["error"]["code"] == "body_too_large"
    assert await is_closed(client)
    assert (await stage.sealed()).outcome == "refused"


@story(body_limit=1000)
async def test_too_large_a_chunked_body_is_413_as_soon_as_it_is_too_large(stage: Stage) -> None:
    client = await stage.client()
    await client.send(post("/v1/messages", b"3e9\r\n" + b"x" * 1001, "transfer-encoding: chunked"))
    reply = await client.reply()
    assert reply.status == 413
    assert reply.json()["error"]["type"] == "request_too_large"
    assert await is_closed(client)


@story()
async def test_a_get_with_a_body_is_answered_and_its_body_is_not_the_next_request(stage: Stage) -> None:
    client = await stage.client()
    inner = compose_request("GET", "/status")
    await client.send(b"GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%b" % (len(inner), inner))
    assert (await client.reply()).json() == {"status": "ok"}
    assert await is_closed(client)


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"{", "bad_json"), (b'{"model":"a","model":"a"}', "duplicate_field"), (b'{"model":7}', "bad_model"),
     (b'{"model":"zz"}', "unknown_model"), (b'{"model":"a","x":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "too_deep")],
)  # fmt: skip
def test_a_wrong_body_is_refused_in_the_callers_dialect(body: bytes, code: str) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(sized("/v1/messages", body))
        reply = await client.reply()
        assert reply.json()["type"] == "error"
        assert (reply.json()["error"]["code"], reply.json()["error"]["source"]) == (code, "stoker")
        assert reply.status == (404 if code == "unknown_model" else 400)
        assert stage.lines == []

    tell()


@story(a_serve(dialects=frozenset()))
async def test_a_serve_that_does_not_speak_the_dialect_is_never_asked(stage: Stage) -> None:
    client = await stage.client()
    reply = await client.ask("POST", CHAT, {"model": "a"})
    assert (reply.status, reply.json()["error"]["code"]) == (400, "dialect_not_spoken")
    decision = await stage.sealed()
    assert [(c.serve, c.dropped) for c in decision.candidates] == [("a", "dialect_not_spoken")]


# -- replies ---------------------------------------------------------------------------------------------------------


@story(Serve("a", max_active=8))
async def test_a_reply_of_many_megabytes_flows(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask("a"))
    (await stage.asked()).reply(b"x" * 6_000_000)
    reply = await client.reply()
    assert len(reply.body) == 6_000_000
    assert reply.header("transfer-encoding") == "chunked"
    assert (await stage.sealed()).outcome == "served"


@story()
async def test_a_large_reply_that_breaks_off_has_no_proper_end(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask(stream=True))
    talk = await stage.asked()
    talk.send(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9000000\r\n\r\n" + b"x" * 6_000_000
    )
    head = await client.head()
    assert head.status == 200
    talk.close()
    with pytest.raises(FramingError, match="ended within a chunk"):
        await client.body(head)
    assert (await stage.sealed()).outcome == "upstream_failed"
