"""Each fault of the scripted model server shows itself to a client, and in the books."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stoker_lab.testing.client import FramingError, RawClient, RawHead, SseEvent, compose_request
from stoker_lab.testing.clock import FakeClock
from stoker_lab.testing.scripted import Script, ScriptedServer

CHAT = "/v1/chat/completions"
TEXT = " ".join(f"tok{at}" for at in range(20))


def asking(text: str = "hello", **fields: Any) -> dict[str, Any]:
    return {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": text}], **fields}


@asynccontextmanager
async def scripted(**fields: Any) -> AsyncIterator[tuple[ScriptedServer, RawClient]]:
    async with ScriptedServer(Script(**fields)) as server, RawClient(server.port) as client:
        yield server, client


async def streamed(client: RawClient, **fields: Any) -> tuple[RawHead, list[SseEvent]]:
    await client.send(compose_request("POST", CHAT, asking(**fields)))
    head = await client.head()
    return head, [event async for event in client.events(head)]


def told(events: list[SseEvent]) -> str:
    """The text in the chunks of a stream."""
    found = ""
    for event in events:
        if event.data != "[DONE]" and "choices" in event.json():
            found += event.json()["choices"][0]["delta"].get("content", "")
    return found


async def read_until_it_breaks(client: RawClient, error: type[Exception], **fields: Any) -> list[SseEvent]:
    """What came before `error`, which must come."""
    await client.send(compose_request("POST", CHAT, asking(**fields)))
    seen: list[SseEvent] = []

    async def read() -> None:
        async for event in client.events(await client.head()):
            seen.append(event)

    with pytest.raises(error):
        await read()
    return seen


def books(server: ScriptedServer) -> tuple[int, int, int, int]:
    counters = server.counters
    assert counters.started == counters.finished + counters.disconnected + counters.broken + counters.in_flight
    return counters.finished, counters.disconnected, counters.broken, counters.in_flight


async def test_a_plain_stream_is_whole_and_the_connection_is_kept() -> None:
    async with scripted() as (server, client):
        for _ in range(2):
            head, events = await streamed(client)
            assert head.header("transfer-encoding") == "chunked"
            assert told(events) == TEXT
            assert events[-1].data == "[DONE]"
        assert books(server) == (2, 0, 0, 0)
        assert server.counters.connections == 1


@pytest.mark.parametrize("how", ["close", "reset", "end"])
@pytest.mark.parametrize("after", [0, 3, 20, 21])
async def test_a_stream_dies_after_so_many_steps(how: str, after: int) -> None:
    error = {"close": FramingError, "reset": ConnectionError}.get(how)
    async with scripted(die_after=after, die_how=how, gap=0.002) as (server, client):
        if error is None:
            events = (await streamed(client))[1]
        else:
            events = await read_until_it_breaks(client, error)
        if how != "reset":  # a reset may overtake what was sent before it
            assert told(events) == TEXT[: len(" ".join(TEXT.split()[:after]))]
            assert len(events) == 1 + after
        assert "[DONE]" not in [event.data for event in events]
        assert books(server) == (0, 0, 1, 0)


async def test_death_before_the_first_byte() -> None:
    async with scripted(die_after=-1) as (server, client):
        await client.send(compose_request("POST", CHAT, asking()))
        assert await client.read() == b""
        assert books(server) == (0, 0, 1, 0)


async def test_a_whole_reply_dies_in_its_middle() -> None:
    async with scripted(die_after=9) as (server, client):
        await client.send(compose_request("POST", CHAT, asking(stream=False)))
        with pytest.raises(FramingError, match="before its content-length"):
            await client.reply()
        assert books(server) == (0, 0, 1, 0)


@pytest.mark.parametrize(("after", "events"), [(0, 1), (5, 6)])
async def test_a_stream_stalls_for_ever_and_the_client_leaves(after: int, events: int) -> None:
    async with scripted(stall_after=after) as (server, client):
        await client.send(compose_request("POST", CHAT, asking()))
        stream = client.events(await client.head())
        for _ in range(events):
            await anext(stream)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.02)
        assert books(server) == (0, 0, 0, 1)
        await client.close()
        await server.until(lambda counters: counters.disconnected == 1)


async def test_a_stall_before_the_first_byte() -> None:
    async with scripted(stall_after=-1) as (server, client):
        await client.send(compose_request("POST", CHAT, asking()))
        await server.until(lambda counters: counters.in_flight == 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.read(), 0.02)


@pytest.mark.parametrize("leave", ["close", "abort", "half_close"])
@pytest.mark.parametrize("ask", [asking(), asking(stream=False)])
async def test_a_client_that_leaves_is_noticed_and_counted(leave: str, ask: dict[str, Any]) -> None:
    async with scripted(first_event_after=60.0) as (server, client):
        await client.send(compose_request("POST", CHAT, ask))
        await server.until(lambda counters: counters.in_flight == 1)
        going = getattr(client, leave)()
        if going is not None:
            await going
        await server.until(lambda counters: counters.disconnected == 1)
        assert books(server) == (0, 1, 0, 0)


async def test_a_client_that_leaves_mid_stream_is_noticed() -> None:
    async with scripted(gap=60.0) as (server, client):
        await client.send(compose_request("POST", CHAT, asking()))
        assert (await anext(client.events(await client.head()))).data
        client.abort()
        await server.until(lambda counters: counters.disconnected == 1 and counters.connections == 0)


async def test_an_error_status_with_retry_after_and_own_body() -> None:
    async with scripted(error_status=503, retry_after="3", error_body="no") as (server, client):
        reply = await client.ask("POST", CHAT, asking())
        assert (reply.status, reply.header("retry-after"), reply.body) == (503, "3", b"no")
        server.script = Script(error_status=404)
        reply = await client.ask("POST", CHAT, asking())
        assert reply.json()["error"]["type"] == "not_found_error"
        assert books(server) == (2, 0, 0, 0)


async def test_only_so_many_requests_fail_and_a_new_script_counts_anew() -> None:
    async with scripted(error_status=500, error_times=2) as (_, client):
        assert [(await client.ask("POST", CHAT, asking())).status for _ in range(3)] == [500, 500, 200]
        await client.ask("POST", "/control", {"error_times": 1})
        assert [(await client.ask("POST", CHAT, asking())).status for _ in range(2)] == [500, 200]


async def test_an_error_event_ends_the_stream() -> None:
    async with scripted(error_event_after=3) as (_, client):
        _, events = await streamed(client)
        assert told(events) == "tok0 tok1 tok2"
        assert events[-1].json()["error"]["message"] == "scripted failure"
        assert len(events) == 1 + 3 + 1


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
async def test_an_error_event_has_the_form_of_its_dialect(path: str) -> None:
    async with scripted(error_event_after=3) as (_, client):
        await client.send(compose_request("POST", path, asking(max_tokens=50)))
        events = [event async for event in client.events(await client.head())]
    assert events[-1].name == events[-1].json()["type"] == "error"
    numbers = [event.json()["sequence_number"] for event in events if "sequence_number" in event.json()]
    assert numbers == sorted(set(numbers))


async def test_events_keep_their_pace() -> None:
    async with scripted(tokens=4, first_event_after=0.05, gap=0.03) as (_, client):
        start = asyncio.get_running_loop().time()
        _, events = await streamed(client)
    times = [event.at - start for event in events]
    assert times[0] >= 0.05
    assert times[4] >= 0.05 + 3 * 0.03
    assert times[5] - times[4] < 0.03, "what closes the stream follows at once"


async def test_the_role_may_come_long_before_the_first_token() -> None:
    async with scripted(role_first=True, first_event_after=60.0) as (_, client):
        await client.send(compose_request("POST", CHAT, asking()))
        stream = client.events(await client.head())
        assert (await anext(stream)).json()["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.02)


@pytest.mark.parametrize("early", [True, False])
async def test_the_head_may_come_long_before_the_first_event(early: bool) -> None:
    async with scripted(early_head=early, first_event_after=60.0) as (_, client):
        await client.send(compose_request("POST", CHAT, asking()))
        if early:
            assert (await client.head()).status == 200
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.read(), 0.02)


async def test_gzip_is_flushed_at_each_event() -> None:
    async with scripted(gzip=True, stall_after=2) as (_, client):
        await client.send(compose_request("POST", CHAT, asking()))
        head = await client.head()
        assert head.header("content-encoding") == "gzip"
        unzip, plain = zlib.decompressobj(wbits=31), b""
        async for piece in client.pieces(head):
            plain += unzip.decompress(piece)
            if b"tok1" in plain:
                break
    assert plain.endswith(b"\n\n")


@pytest.mark.parametrize("framing", ["auto", "length", "chunked", "close"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("zipped", [True, False])
async def test_every_frame_holds_the_same_reply(framing: str, stream: bool, zipped: bool) -> None:
    async with scripted(framing=framing, gzip=zipped) as (server, client):
        reply = await client.ask("POST", CHAT, asking(stream=stream))
        body = gzip.decompress(reply.body) if zipped else reply.body
        assert b"tok19" in body
        assert body.endswith(b"[DONE]\n\n" if stream else b"}")
        chunked = framing == "chunked" or (framing == "auto" and stream)
        assert (reply.header("transfer-encoding") == "chunked") is chunked
        assert (reply.header("content-length") is not None) is (framing != "close" and not chunked)
        assert (reply.header("connection") == "close") is (framing == "close")
        assert books(server) == (1, 0, 0, 0)


async def test_an_error_event_fits_into_a_content_length() -> None:
    async with scripted(framing="length", error_event_after=2) as (_, client):
        assert told((await streamed(client))[1]) == "tok0 tok1"


async def test_writes_are_cut_at_the_given_sizes() -> None:
    async with scripted(tokens=2, split=(1, 2, 50), split_gap=0.002) as (_, client):
        await client.send(compose_request("POST", CHAT, asking()))
        first = [await client.read() for _ in range(3)]
        assert [len(part) for part in first] == [1, 2, 50]
    async with scripted(tokens=2, split=(1, 7)) as (_, client):
        assert told((await streamed(client))[1]) == "tok0 tok1"


async def test_chunks_are_cut_at_the_given_size() -> None:
    async with scripted(tokens=2, chunk_bytes=11) as (_, client):
        await client.send(compose_request("POST", CHAT, asking()))
        pieces = [piece async for piece in client.pieces(await client.head())]
    assert max(map(len, pieces)) == 11
    assert b"tok1" in b"".join(pieces)


@pytest.mark.parametrize(("per_write", "chunks"), [(1, 10), (4, 3), (100, 1)])
async def test_several_events_go_into_one_write(per_write: int, chunks: int) -> None:
    async with scripted(tokens=10, events_per_write=per_write) as (_, client):
        await client.send(compose_request("POST", CHAT, asking()))
        pieces = [piece async for piece in client.pieces(await client.head())]
    assert sum(b"tok" in piece for piece in pieces) == chunks
    assert [int(number) for number in re.findall(rb"tok(\d+)", b"".join(pieces))] == list(range(10))


async def test_several_events_never_go_past_a_fault() -> None:
    async with scripted(tokens=10, events_per_write=4, error_event_after=6) as (_, client):
        assert told((await streamed(client))[1]) == "tok0 tok1 tok2 tok3 tok4 tok5"


async def test_the_connection_closes_after_each_reply_if_told_so() -> None:
    async with scripted(close_each=True) as (_, client):
        assert (await client.ask("POST", CHAT, asking())).header("connection") == "close"
        assert await client.read() == b""


async def test_an_oversized_header() -> None:
    async with ScriptedServer(Script(header_bytes=200_000)) as server, RawClient(server.port, limit=2**20) as client:
        reply = await client.ask("POST", CHAT, asking())
    assert len(reply.header("x-filler") or "") == 200_000


@pytest.mark.parametrize("stream", [True, False])
async def test_an_endless_reply_waits_for_its_reader(stream: bool) -> None:
    async with (
        ScriptedServer(Script(endless_mb=8)) as server,
        RawClient(server.port, receive_buffer=4096, limit=4096) as client,
    ):
        await client.send(compose_request("POST", CHAT, asking(stream=stream)))
        await server.until(lambda counters: counters.paused == 1)
        for _ in range(500):  # turns of the loop: more than the whole reply would take
            await asyncio.sleep(0)
        assert books(server) == (0, 0, 0, 1)
        size = 0
        async for piece in client.pieces(await client.head()):
            size += len(piece)
        assert 8 * 2**20 < size < 8.2 * 2**20
        assert books(server) == (1, 0, 0, 0)
        assert server.counters.paused == 0


@pytest.mark.parametrize("leave", ["abort", "half_close"])
async def test_a_client_that_does_not_read_is_seen_to_leave(leave: str) -> None:
    async with (
        ScriptedServer(Script(endless_mb=8)) as server,
        RawClient(server.port, receive_buffer=4096, limit=4096) as client,
    ):
        await client.send(compose_request("POST", CHAT, asking()))
        await server.until(lambda counters: counters.paused == 1)
        getattr(client, leave)()
        await server.until(lambda counters: counters.disconnected == 1)
        client.abort()
        await server.until(lambda counters: counters.paused == 0 and counters.connections == 0)


@pytest.mark.parametrize("header", [{}, {"authorization": "Bearer wrong"}, {"x-api-key": "wrong"}])
async def test_a_wrong_key_is_refused_and_recorded(header: dict[str, str]) -> None:
    async with scripted(api_key="right") as (server, client):
        for path in (CHAT, "/v1/models", "/nowhere"):
            await client.send(compose_request("POST", path, asking(), header.items()))
            assert (await client.reply()).status == 401
        assert [request.header("x-api-key") for request in server.requests] == [header.get("x-api-key")] * 3
        assert (await client.ask("GET", "/health")).status == 200
        assert (await client.ask("POST", CHAT, asking(), authorization="Bearer right")).status == 200
        assert (await client.ask("GET", "/v1/models", x_api_key="right")).status == 200
        assert b"right" not in (await client.ask("GET", "/control")).body
        assert server.counters.started == 1


async def test_a_loading_server_says_so_on_every_path() -> None:
    clock = FakeClock()
    async with ScriptedServer(Script(ready_after=5.0), now=clock.now) as server, RawClient(server.port) as client:
        assert (await client.ask("GET", "/health")).json()["error"]["message"] == "Loading model"
        for path in (CHAT, "/v1/models", "/props"):
            assert (await client.ask("POST", path, asking())).status == 503
        clock.advance(4.9)
        assert (await client.ask("GET", "/health")).status == 503
        clock.advance(0.1)
        assert (await client.ask("GET", "/health")).status == 200
        assert (await client.ask("POST", CHAT, asking())).status == 200
        assert server.counters.probes == 3
        assert server.counters.started == 1


async def test_a_server_may_never_be_ready_until_it_is_told() -> None:
    async with scripted(never_ready=True) as (_, client):
        assert (await client.ask("GET", "/health")).status == 503
        assert (await client.ask("POST", "/control", {"never_ready": False})).status == 200
        assert (await client.ask("GET", "/health")).status == 200


async def test_health_with_another_id() -> None:
    async with scripted(id="a", shown_id="b") as (_, client):
        assert (await client.ask("GET", "/health")).status == 200
        assert [model["id"] for model in (await client.ask("GET", "/v1/models")).json()["data"]] == ["b"]


async def test_one_request_may_ask_for_its_own_fault() -> None:
    async with scripted(tokens=3) as (_, client):
        reply = await client.ask("POST", CHAT, asking("hello\nscript: error_status=418 error-body='a b'"))
        assert (reply.status, reply.body) == (418, b"a b")
        assert told((await streamed(client, text="hello"))[1]) == "tok0 tok1 tok2"
        reply = await client.ask("POST", CHAT, asking("script: nonsense=1"))
        assert reply.status == 400
        assert "no such field of the script: 'nonsense'" in reply.json()["error"]["message"]


async def test_the_script_changes_while_it_runs() -> None:
    async with scripted() as (server, client):
        reply = await client.ask("POST", "/control", {"tokens": 2, "text": "w"})
        assert reply.json()["script"]["tokens"] == 2
        assert told((await streamed(client))[1]) == "w0 w1"
        for wrong in ({"nonsense": 1}, [1]):
            assert (await client.ask("POST", "/control", wrong)).status == 400
        assert server.script == Script(tokens=2, text="w")
        assert (await client.ask("GET", "/control")).json()["finished"] == 1


async def test_counters_hold_over_concurrent_streams() -> None:
    async with ScriptedServer(Script(tokens=3, gap=0.01)) as server:

        async def one() -> str:
            async with RawClient(server.port) as client:
                return told((await streamed(client))[1])

        assert await asyncio.gather(*(one() for _ in range(50))) == ["tok0 tok1 tok2"] * 50
        assert server.counters.peak == 50
        assert books(server) == (50, 0, 0, 0)


async def test_what_came_in_is_recorded_and_hashed() -> None:
    image = bytes(range(256)) * 20_000
    async with scripted(hash_body=True) as (server, client):
        body = b'{"messages":[],"x":"' + image.hex().encode() + b'"}'
        await client.send(
            f"POST {CHAT}?a=b HTTP/1.1\r\nX-Mine: 1\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
        )
        assert (await client.reply()).header("x-body-sha256") == hashlib.sha256(body).hexdigest()
        (request,) = server.requests
        assert (request.method, request.path, request.header("X-Mine")) == ("POST", f"{CHAT}?a=b", "1")
        assert request.body == body
        (shown,) = (await client.ask("GET", "/control/requests")).json()
        assert (shown["sha256"], shown["length"], shown["body"]) == (hashlib.sha256(body).hexdigest(), len(body), None)
        server.script = Script(hash_body=False, record=2)
        for _ in range(3):
            assert (await client.ask("POST", CHAT, asking())).header("x-body-sha256") is None
        assert [request.json()["stream"] for request in server.requests] == [True, True]


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with scripted(tokens=1) as (server, client):
        await client.send(
            compose_request("POST", CHAT, asking())
            + compose_request("GET", "/v1/models")
            + compose_request("HEAD", "/")
            + compose_request("GET", "/")
        )
        assert b"[DONE]" in (await client.reply()).body
        assert (await client.reply()).json()["object"] == "list"
        assert (await client.head()).status == 200
        assert (await client.reply()).body == b"scripted model server\n"
        assert [request.method for request in server.requests] == ["POST", "GET", "HEAD", "GET"]


async def test_a_body_is_waited_for_with_100_continue() -> None:
    async with scripted() as (_, client):
        whole = compose_request("POST", CHAT, asking(), [("expect", "100-continue")])
        head, _, body = whole.partition(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n")
        assert (await client.head()).status == 100
        await client.send(body)
        assert (await client.reply()).status == 200


@pytest.mark.parametrize("body", [b"{", b"[1]", b""])
async def test_a_body_that_is_no_object_is_a_client_error(body: bytes) -> None:
    async with scripted() as (server, client):
        await client.send(f"POST {CHAT} HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        assert (await client.reply()).status == 400
        assert server.counters.started == 0


async def test_what_is_not_http_is_a_400_and_the_connection_closes() -> None:
    async with scripted() as (_, client):
        await client.send(b"\x16\x03\x01 hello\r\n\r\n")
        assert (await client.reply()).status == 400
        assert await client.read() == b""


async def test_the_engine_paths() -> None:
    async with scripted(context=512, slots=2, tokens=3, prompt_tokens=7) as (_, client):
        await streamed(client)
        assert (await client.ask("GET", "/props")).json()["default_generation_settings"]["n_ctx"] == 512
        assert (await client.ask("GET", "/props")).json()["total_slots"] == 2
        metrics = (await client.ask("GET", "/metrics")).body.decode()
        assert "llamacpp:prompt_tokens_total 7\n" in metrics
        assert "llamacpp:tokens_predicted_total 3\n" in metrics
        assert (await client.ask("POST", "/tokenize", {"content": "a b c"})).json() == {"tokens": [0, 1, 2]}
        for path in (f"{CHAT}/input_tokens", "/v1/responses/input_tokens", "/v1/messages/count_tokens"):
            assert (await client.ask("POST", path, asking("a b"))).json()["input_tokens"] == 7
        assert (await client.ask("GET", "/nowhere")).status == 404
        assert (await client.ask("GET", CHAT)).status == 404


async def test_rerank_puts_the_best_first() -> None:
    async with scripted() as (_, client):
        ask = {"model": "m", "query": "red fox", "documents": ["a dog", "the red fox", "red"], "top_n": 2}
        results = (await client.ask("POST", "/v1/rerank", ask)).json()["results"]
    assert results == [{"index": 1, "relevance_score": 1.0}, {"index": 2, "relevance_score": 0.5}]


async def test_a_server_without_usage_reports_none() -> None:
    async with scripted(usage=False) as (_, client):
        assert "usage" not in (await client.ask("POST", CHAT, asking(stream=False))).json()
        _, events = await streamed(client, stream_options={"include_usage": True})
        assert [event.data for event in events if '"choices":[]' in event.data] == []


async def test_closing_cuts_what_is_under_way() -> None:
    async with ScriptedServer(Script(stall_after=0)) as server, RawClient(server.port) as client:
        await client.send(compose_request("POST", CHAT, asking()))
        await server.until(lambda counters: counters.in_flight == 1)
        await server.close()
        assert books(server) == (0, 0, 1, 0)
        with pytest.raises(OSError):
            await RawClient(server.port).connect()


async def test_waiting_for_a_count_ends_with_the_counters() -> None:
    async with scripted() as (server, _):
        with pytest.raises(TimeoutError, match="started=0"):
            await server.until(lambda counters: counters.started == 1, timeout=0.01)
