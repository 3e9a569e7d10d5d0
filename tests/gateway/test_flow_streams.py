"""What a serve does wrong reaches the client as a real status or as exactly one error event, never as a normal stop."""

from __future__ import annotations

import asyncio
import socket
import struct
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, ask, delta, story

from stoker.domain.build import IS_COMPILED
from stoker_lab.testing.client import RawClient, SseEvent

ROLE = b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n'
MESSAGES = "/v1/messages"


async def streaming(stage: Stage, path: str = "/v1/chat/completions", **fields: Any) -> tuple[RawClient, Any]:
    """A client that asked for a stream, and the model that was asked."""
    client = await stage.client()
    await client.send(ask(path=path, stream=True, **fields))
    return client, await stage.asked()


async def told(client: RawClient) -> tuple[int, list[SseEvent]]:
    head = await client.head()
    return head.status, [event async for event in client.events(head)]


def errors(events: list[SseEvent]) -> list[Any]:
    return [e.json()["error"] for e in events if e.data not in ("", "[DONE]") and "error" in e.json()]


def is_stopped(events: list[SseEvent]) -> bool:
    return any(event.data == "[DONE]" or "message_stop" in event.data or '"stop"' in event.data for event in events)


async def assert_one_error(stage: Stage, client: RawClient, code: str, source: str = "stoker") -> list[SseEvent]:
    """200, exactly one error event and no normal stop, the connection closes, the decision says it."""
    status, events = await told(client)
    assert status == 200
    (error,) = errors(events)
    assert (error["code"], error["source"]) == (code, source)
    assert not is_stopped(events)
    assert "error" in events[-1].data
    assert await client.read() == b""
    assert (await stage.sealed()).reason == code
    return events


async def assert_refused(stage: Stage, client: RawClient, status: int, code: str) -> None:
    """A real status, not a 200 with an error inside."""
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"], reply.json()["error"]["source"]) == (status, code, "stoker")
    decision = await stage.sealed()
    assert (decision.status, decision.reason) == (status, code)


@pytest.mark.skipif(IS_COMPILED, reason="compiled code has no lines that the allocations could be found by")
@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_while_an_answer_is_streamed_its_request_is_not_held(size: int) -> None:
    @story()
    async def told_so(stage: Stage) -> None:
        tracemalloc.start()
        try:
            client, talk = await streaming(stage, user="x" * size)
            talk.begin()
            talk.chunk(ROLE)
            talk.say("a")
            events = client.events(await client.head())
            assert [(await anext(events)).json()["choices"][0]["delta"] for _ in "12"]
            own = tracemalloc.Filter(True, "*/stoker/*")
            traces = tracemalloc.take_snapshot().filter_traces([own]).traces
            assert [str(trace.traceback) for trace in traces if trace.size >= size] == []
        finally:
            tracemalloc.stop()
        talk.end()
        assert [event.data async for event in events][-1] == "[DONE]"

    told_so()


# -- 30, 32: in the middle -------------------------------------------------------------------------------------------


@story()
async def test_each_event_reaches_the_client_as_it_comes(stage: Stage) -> None:
    client, talk = await streaming(stage)
    talk.begin()
    talk.chunk(ROLE)
    events, delays = None, []
    for text in ("a", "b", "c"):
        began = asyncio.get_running_loop().time()
        talk.say(text)
        if events is None:
            events = client.events(await client.head())
            assert (await anext(events)).json()["choices"][0]["delta"] == {"role": "assistant"}
        event = await anext(events)
        assert event.json()["choices"][0]["delta"]["content"] == text
        delays.append(event.at - began)
    talk.end()
    assert sorted(delays)[1] < 0.02  # the median: a busy machine may hold one of them up
    assert events is not None
    assert [e.data for e in [e async for e in events]][-1] == "[DONE]"
    decision = await stage.sealed()
    assert decision.outcome == "served"
    assert decision.ttft is not None


@pytest.mark.parametrize(("stream", "status"), [(False, "200 OK"), (True, "400 Bad Request")])
def test_what_comes_whole_has_no_first_token(stream: bool, status: str) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(ask(stream=stream))
        talk = await stage.asked()
        talk.reply({"error": {"message": "no"}} if stream else {}, status)
        head = await client.head()
        assert head.status == int(status[:3])
        decision = await stage.sealed()
        assert decision.attempts == 1
        assert decision.latency is not None
        assert decision.ttft is None

    tell()


@pytest.mark.parametrize("how", ["close", "abort", "end", "mid-frame", "not-http", "speaks-of-the-end"])
def test_an_upstream_that_breaks_off_is_one_error_event(how: str) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client, talk = await streaming(stage, stream_options={"include_usage": how == "mid-frame"})
        talk.begin()
        talk.say("x")
        match how:
            case "close":
                talk.close()
            case "abort":
                await asyncio.sleep(0.01)
                talk.transport.abort()
            case "end":
                talk.send(b"0\r\n\r\n")
            case "mid-frame":
                await asyncio.sleep(0.01)
                talk.chunk(b'data: {"choices":[{"delta":{"cont')
                talk.close()
            case "not-http":
                await asyncio.sleep(0.01)
                talk.send(b"zz\r\n")
            case "speaks-of-the-end":
                talk.say("send data: [DONE] then")
                talk.close()
        events = await assert_one_error(stage, client, "upstream_broke")
        assert events[0].json()["choices"][0]["delta"]["content"] == "x"

    tell()


@story()
async def test_an_end_without_its_blank_line_is_an_end(stage: Stage) -> None:
    client, talk = await streaming(stage)
    talk.begin()
    talk.chunk(ROLE + b"data: [DONE]")
    talk.send(b"0\r\n\r\n")
    head = await client.head()
    assert (head.status, await client.body(head)) == (200, ROLE + b"data: [DONE]\n\n")
    assert (await stage.sealed()).outcome == "served"


@story()
async def test_an_upstream_without_length_or_chunks_that_ends_early_is_one_error_event(stage: Stage) -> None:
    client, talk = await streaming(stage)
    talk.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + delta("x"))
    talk.close()
    await assert_one_error(stage, client, "upstream_broke")


@story()
async def test_an_upstream_that_closes_after_its_proper_end_is_no_error(stage: Stage) -> None:
    client, talk = await streaming(stage)
    talk.begin()
    talk.say("x")
    talk.chunk(b"data: [DONE]\n\n")
    talk.close()
    status, events = await told(client)
    assert (status, errors(events), events[-1].data) == (200, [], "[DONE]")
    assert (await stage.sealed()).outcome == "served"


@pytest.mark.parametrize("then", ["end", "close", "stay", "go-on"])
def test_the_serves_own_error_event_is_the_only_one_and_ends_the_stream(then: str) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client, talk = await streaming(stage)
        talk.begin()
        talk.say("x")
        await asyncio.sleep(0.005)
        talk.chunk(b'data: {"error":{"code":500,"message":"slot exploded"}}\n\n')
        match then:
            case "end":
                talk.end()
            case "close":
                talk.close()
            case "go-on":
                talk.say("y")
        status, events = await told(client)
        assert status == 200
        assert [e["message"] for e in errors(events)] == ["slot exploded"]
        assert await client.read() == b""
        assert (await stage.sealed()).outcome == "upstream_failed"
        await talk.gone.wait()

    tell()


# -- 33: before the first byte ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\nConte", b"HTTP/1.1 200", b"\x00\x01", b"HTTP/1.1 100 Continue\r\n\r\n"]
)
def test_an_upstream_that_dies_before_its_head_is_502(said: bytes, stream: bool) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(ask(stream=stream))
        talk = await stage.asked()
        talk.send(said)
        talk.close()
        await assert_refused(stage, client, 502, "upstream_broke")
        assert (await client.ask("GET", "/healthz")).status == 200, "the connection is kept"

    tell()


@pytest.mark.parametrize(
    "said",
    [b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nendless: " + b"y" * 70_000,
     b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"],
)  # fmt: skip
def test_what_is_no_single_reply_is_502(said: bytes) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(ask())
        (await stage.asked()).send(said)
        await assert_refused(stage, client, 502, "upstream_broke")

    tell()


@story()
async def test_a_stream_that_ends_before_its_first_token_is_502(stage: Stage) -> None:
    client, talk = await streaming(stage)
    talk.begin()
    talk.chunk(ROLE)
    talk.send(b"0\r\n\r\n")
    await assert_refused(stage, client, 502, "upstream_empty")


@pytest.mark.parametrize(
    ("frame", "status", "code"),
    [(b'{"error":{"code":400,"message":"too long"}}', 400, "upstream_refused"),
     (b'{"error":{"code":500,"message":"secret path"}}', 502, "upstream_error"),
     (b'{"error":"text"}', 502, "upstream_error")],
)  # fmt: skip
@pytest.mark.parametrize("with_content", [False, True])
def test_an_error_frame_first_is_a_real_status(frame: bytes, status: int, code: str, with_content: bool) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client, talk = await streaming(stage)
        talk.begin()
        talk.chunk(ROLE + (delta("x") if with_content else b"") + b"data: " + frame + b"\n\n")
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (status, code)
        assert reply.json()["error"]["source"] == "upstream"
        await talk.gone.wait()

    tell()


@pytest.mark.parametrize(
    ("status", "expected", "code"),
    [("500 X", 502, "upstream_error"), ("503 X", 503, "upstream_busy"), ("401 X", 502, "upstream_auth"),
     ("403 X", 502, "upstream_auth"), ("529 X", 503, "upstream_busy"), ("999 X", 502, "upstream_error")],
)  # fmt: skip
def test_a_serves_own_failure_is_told_in_its_words(status: str, expected: int, code: str) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client, talk = await streaming(stage, seed=1)
        talk.reply({"error": "internal path /x"}, status, "retry-after: " + "9" * 400)
        reply = await client.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (expected, code)
        shown = (reply.json()["error"]["message"], reply.json()["error"]["source"]) == ("internal path /x", "upstream")
        assert shown == (code != "upstream_auth")
        assert (reply.header("retry-after") == "3600") == (code != "upstream_auth")

    tell()


@story()
async def test_a_callers_own_fault_passes_as_the_serve_said_it(stage: Stage) -> None:
    client, talk = await streaming(stage)
    talk.reply({"error": {"message": "bad grammar"}}, "422 Unprocessable", "x-own: 1")
    reply = await client.reply()
    assert (reply.status, reply.json(), reply.header("x-own")) == (422, {"error": {"message": "bad grammar"}}, "1")
    decision = await stage.sealed()
    assert (decision.outcome, decision.status) == ("refused", 422)


@story()
async def test_nobody_listens_any_more(stage: Stage) -> None:
    client, talk = await streaming(stage)
    talk.begin()
    talk.end()
    await told(client)
    stage.model.close()
    talk.transport.abort()
    await stage.until(lambda: not stage.pool.idle_connections())
    await client.send(ask())
    reply = await client.reply()
    assert (reply.status, reply.json()["error"]["code"]) == (502, "unreachable")


@story()
async def test_a_serve_that_died_just_now_is_started_again_and_the_request_served(stage: Stage) -> None:
    client, talk = await streaming(stage)
    talk.begin()
    talk.end()
    await told(client)
    running = stage.conductor.running["a"]
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, but it does not listen: as good as dead
        gone = replace(running.target, port=nobody.getsockname()[1])
        stage.conductor.running["a"] = replace(running, target=gone)
        stage.conductor.scheduler.serves["a"].ready_since -= 100  # it was up for long: no back-off
        await client.send(ask())
        await stage.until(lambda: stage.flow.active)
        asyncio.get_running_loop().call_later(0.01, stage.fleet.die, "a")
        again = await stage.asked()
    again.reply({})
    assert (await client.reply()).status == 200
    assert stage.fleet.journal[-3:] == ["died a", "start a", "ready a"]
    await stage.until(lambda: len(stage.decisions) == 2)
    assert stage.decisions[-1].attempts == 2


@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_endless_reply_is_not_collected(status: int) -> None:
    @story()
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(ask())
        talk = await stage.asked()
        talk.send(b"HTTP/1.1 %d X\r\ntransfer-encoding: chunked\r\n\r\n" % status)
        for _ in range(90):
            talk.chunk(b"x" * 65536)
        if status == 200:
            assert (await client.head()).status == 200
            client.abort()
        else:
            assert (await client.reply()).status == 502
        await talk.gone.wait()

    tell()


# -- kept connections ------------------------------------------------------------------------------------------------


@story()
async def test_a_connection_is_used_again_and_one_that_the_serve_closed_is_replaced(stage: Stage) -> None:
    client, first = await streaming(stage)
    first.begin()
    first.end()
    await told(client)
    await client.send(ask(seed=2))
    again = await stage.asked()
    assert again is first
    again.close()  # it was kept, and closes before a byte of its reply: the request goes out once more
    second = await stage.asked()
    assert second is not first
    assert second.json()["seed"] == 2
    second.reply({"n": 2})
    assert (await client.reply()).json()["n"] == 2
    assert stage.pool.opened == 2


@story()
async def test_a_client_that_leaves_between_two_attempts_ends_there(stage: Stage) -> None:
    client, first = await streaming(stage)
    first.begin()
    first.end()
    await told(client)
    await client.send(ask())
    again = await stage.asked()
    again.transport.abort()
    client.abort()
    await stage.until(lambda: len(stage.decisions) == 2)
    assert stage.decisions[1].outcome == "client_left"


# -- 38: slow --------------------------------------------------------------------------------------------------------


@story()
async def test_a_slow_reader_pauses_the_upstream_and_gets_every_byte(stage: Stage) -> None:
    slow = await stage.client(receive_buffer=4096, limit=1024)
    await slow.send(ask(stream=True))
    talk = await stage.asked()
    talk.begin()
    talk.say("x")
    head = await slow.head()
    sent = 0
    while talk.writable.is_set():
        talk.say("y" * 50_000)
        sent += 1
        assert sent < 2000, "100 MB were taken from a model whose client reads nothing"
        await asyncio.sleep(0)
    talk.end()
    events = [event async for event in slow.events(head)]
    assert sum(len(e.data) > 50_000 for e in events) == sent
    assert events[-1].data == "[DONE]"
    assert (await stage.sealed()).outcome == "served"


# -- what comes behind a reply, and what breaks off ------------------------------------------------------------------


@story()
async def test_bytes_behind_a_complete_reply_never_become_the_next_ones(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask())
    talk = await stage.asked()
    talk.send(b'HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{"n":2}HTTP/1.1 200 OK\r\ncontent-length: 13\r\nx-a')
    await client.reply()
    await talk.gone.wait()
    await client.send(ask())
    other = await stage.asked()
    assert other is not talk
    other.reply({"n": 3})
    assert (await client.reply()).json()["n"] == 3


@story()
async def test_a_reply_of_unknown_length_that_breaks_off_is_not_taken_for_a_whole_one(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask())
    talk = await stage.asked()
    talk.send(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"choices": [{"mess')
    await stage.until(lambda: next(iter(stage.flow.active.values())).relay.upstream_status == 200, "the head is read")
    sock = talk.transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    talk.transport.abort()
    await assert_refused(stage, client, 502, "upstream_broke")
