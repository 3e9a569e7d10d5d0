"""Compressed replies: the client gets what it asked for, all of it counts, and what cannot be read is a clear error."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest
from tests.gateway.flow_stage import CHAT, Stage, a_serve, ask, delta, story

from stoker.domain.dialect import Dialect
from stoker_lab.testing.client import compose_request

ANSWER = {
    "choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 11, "completion_tokens": 2},
}
PACKED = {"gzip": gzip.compress, "deflate": zlib.compress}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("accepted", "asked"), [("gzip, deflate, br, zstd", "gzip, deflate"), ("br", "identity"), (None, None)]
)
def test_a_serve_is_asked_only_for_what_is_read(accepted: str | None, asked: str | None, stream: bool) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        headers = (("accept-encoding", accepted),) if accepted else ()
        await client.send(ask(headers=headers, stream=stream))
        talk = await stage.asked()
        assert talk.header("accept-encoding") == (None if stream else asked)
        talk.reply(ANSWER)
        await client.reply()

    tell()


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("is_asked", [True, False])
def test_a_whole_answer_comes_as_the_client_asked_and_counts(coding: str, is_asked: bool) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(ask(headers=(("accept-encoding", f"{coding}, br"),) if is_asked else ()))
        packed = PACKED[coding](json.dumps(ANSWER).encode())
        (await stage.asked()).reply(packed, "200 OK", f"content-encoding: {coding}", "set-cookie: a=b")
        reply = await client.reply()
        assert reply.header("content-encoding") == (coding if is_asked else None)
        assert reply.header("set-cookie") is None
        assert reply.body == packed if is_asked else reply.json() == ANSWER
        decision = await stage.sealed()
        assert (decision.input_tokens, decision.output_tokens) == (11, 2)

    tell()


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/api/chat"])
def test_a_compressed_stream_comes_plain_and_counts(path: str, coding: str) -> None:
    """Also one that is translated; pings and errors of Stoker's own fit between its events."""

    @story(a_serve(dialects=frozenset((Dialect.CHAT,))))
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        document = {"model": "a", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        await client.send(compose_request("POST", path, document, (("accept-encoding", coding),)))
        talk = await stage.asked()
        packer = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
        talk.begin(f"content-encoding: {coding}")
        usage = {"choices": [], "usage": ANSWER["usage"]}
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        last = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in (end, usage)) + b"data: [DONE]\n\n"
        for piece in (delta("hel"), delta("lo"), last):
            talk.chunk(packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH))
        talk.chunk(packer.flush())
        talk.send(b"0\r\n\r\n")
        reply = await client.reply()
        assert reply.header("content-encoding") is None
        assert b"hel" in reply.body
        decision = await stage.sealed()
        assert (decision.outcome, decision.input_tokens, decision.output_tokens) == ("served", 11, 2)

    tell()


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "gzip"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/embeddings", "/api/embed"])
def test_what_cannot_be_read_is_a_clear_error(path: str, stream: bool, coding: str) -> None:
    @story(a_serve(dialects=frozenset((Dialect.CHAT, Dialect.EMBEDDINGS))))
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        document: dict[str, Any] = {"model": "a", "messages": [{"role": "user", "content": "hi"}], "input": "hi"}
        await client.send(compose_request("POST", path, {**document, "max_tokens": 9, "stream": stream}))
        talk = await stage.asked()
        if stream and "embed" not in path:
            talk.begin(f"content-encoding: {coding}")
            talk.chunk(b"compressed")
        else:
            talk.reply(b"compressed", "200 OK", f"content-encoding: {coding}")
        reply = await client.reply()
        assert reply.status == 502
        assert coding.encode() in reply.body
        assert (await stage.sealed()).reason == "upstream_unusable"

    tell()


@pytest.mark.parametrize(("coding", "said"), [("gzip", True), ("br", False)])
def test_a_refusal_keeps_its_status_and_its_words_if_they_can_be_read(coding: str, said: bool) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(ask())
        packed = gzip.compress(b'{"error": {"message": "no such tool"}}')
        (await stage.asked()).reply(packed, "400 Bad Request", f"content-encoding: {coding}")
        reply = await client.reply()
        assert reply.status == 400
        assert ("no such tool" in reply.json()["error"]["message"]) is said
        assert reply.header("content-encoding") is None

    tell()


@pytest.mark.parametrize("coding", ["gzip", "br"])
def test_an_engines_own_path_is_passed_on(coding: str) -> None:
    """Stoker reads nothing there: what it cannot decode, and what was asked for, passes as it came."""

    @story(a_serve(engine="llama.cpp"))
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(compose_request("POST", "/upstream/a/completion", {"prompt": "p"}))
        packed = gzip.compress(b'{"content": "x"}')
        (await stage.asked()).reply(packed, "200 OK", f"content-encoding: {coding}")
        reply = await client.reply()
        assert reply.body == (packed if coding == "br" else b'{"content": "x"}')
        assert reply.header("content-encoding") == ("br" if coding == "br" else None)

    tell()
