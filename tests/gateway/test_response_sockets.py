"""`GET /v1/responses` as a WebSocket: each message is served as a POST would be, and nothing outlives its client."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import os
import socket as plain_socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from tests.gateway.flow_stage import Stage, Talk, a_serve, story
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from stoker.domain.access import ResponseStorage
from stoker.domain.dialect import Dialect
from stoker.domain.key import Key, UsageLimits
from stoker.domain.serve import Secret
from stoker.gateway import response_sockets
from stoker.request.accept import connection as accept_connection
from stoker_lab.testing.client import RawClient, compose_request

RESPONSES = "/v1/responses"
NATIVE = a_serve(dialects=frozenset((Dialect.RESPONSES,)))
CHATTY = a_serve(dialects=frozenset((Dialect.CHAT,)))
KEYS = (Key("user", Secret("k-user-of-stoker", "env:A")),)
EVERY_SERVE = pytest.mark.parametrize("serve", [NATIVE, CHATTY], ids=["responses", "chat"])


@asynccontextmanager
async def socket(stage: Stage, **options: Any) -> AsyncIterator[ClientConnection]:
    async with connect(f"ws://127.0.0.1:{stage.port}{RESPONSES}", max_size=None, **options) as connection:
        yield connection


def create(text: str = "hello", **fields: Any) -> str:
    items = [{"type": "message", "role": "user", "content": text}]
    return json.dumps({"type": "response.create", "model": "a", "input": items, **fields})


def message_item(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def native_event(kind: str, number: int, **fields: Any) -> bytes:
    document = {"type": kind, "sequence_number": number, **fields}
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps(document).encode())


def response(id: str, status: str, *output: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    return {"id": id, "object": "response", "status": status, "model": "engine", "output": output, "usage": usage}


def begin(talk: Talk, text: str, id: str = "resp_1") -> None:
    """The beginning of a stream that says this, in the dialect in which the serve was asked."""
    talk.begin()
    if b"/responses " in talk.head:
        talk.chunk(native_event("response.created", 0, response=response(id, "in_progress")))
        talk.chunk(native_event("response.output_text.delta", 1, delta=text))
    else:
        talk.say(text)


def end(talk: Talk, text: str, id: str = "resp_1") -> None:
    if b"/responses " in talk.head:
        talk.chunk(native_event("response.output_item.done", 2, output_index=0, item=message_item(text)))
        talk.chunk(native_event("response.completed", 3, response=response(id, "completed", message_item(text))))
        talk.send(b"0\r\n\r\n")
    else:
        talk.end()


def answer(talk: Talk, text: str, id: str = "resp_1") -> None:
    begin(talk, text, id)
    end(talk, text, id)


async def events(connection: ClientConnection) -> list[dict[str, Any]]:
    """The messages of one response, or the error in its place."""
    found: list[dict[str, Any]] = []
    ends = ("response.completed", "response.failed", "response.incomplete")
    while not found or (found[-1]["type"] not in ends and "status" not in found[-1]):
        found.append(json.loads(await connection.recv()))
    return found


async def ask(stage: Stage, connection: ClientConnection, message: str, text: str = "hi") -> tuple[Any, Any]:
    """The response, and what the serve was asked."""
    await connection.send(message)
    talk = await stage.asked()
    answer(talk, text, f"resp_{text.replace(chr(32), chr(95))}")
    return (await events(connection))[-1]["response"], talk.json()


# -- a request is what a POST is -------------------------------------------------------------------------------------


@EVERY_SERVE
def test_each_event_is_one_message_as_a_stream_has_it(serve: Any) -> None:
    @story(serve)
    async def tell(stage: Stage) -> None:
        client = await stage.client()
        await client.send(compose_request("POST", RESPONSES, {"model": "a", "input": "hello", "stream": True}))
        answer(await stage.asked(), "hi")
        streamed = [json.loads(line[6:]) for line in (await client.reply()).body.splitlines() if line[:6] == b"data: "]
        async with socket(stage) as connection:
            await connection.send(create())
            talk = await stage.asked()
            assert talk.json()["stream"] is True
            assert "type" not in talk.json()
            answer(talk, "hi")
            seen = await events(connection)
        assert [one["type"] for one in seen] == [one["type"] for one in streamed]
        assert seen[-1]["response"]["output"][0]["content"][0]["text"] == "hi"
        numbers = [one["sequence_number"] for one in seen]
        assert numbers == sorted(set(numbers))
        first, second = stage.decisions
        assert (second.endpoint, second.model, second.serve, second.stream) == (RESPONSES, "a", "a", True)
        assert (second.outcome, second.status, second.output_tokens) == ("served", 200, first.output_tokens)
        assert first.id != second.id

    tell()


@EVERY_SERVE
def test_the_openai_sdk_reads_typed_events(serve: Any) -> None:
    @story(serve)
    async def tell(stage: Stage) -> None:
        url = f"127.0.0.1:{stage.port}/v1"
        client = openai.AsyncOpenAI(api_key="none", base_url=f"http://{url}", websocket_base_url=f"ws://{url}")
        async with client, client.responses.connect() as connection:
            await connection.response.create(model="a", input="hello", store=False)
            answer(await stage.asked(), "hi")
            async for event in connection:
                if event.type == "response.completed":
                    break
            assert event.type == "response.completed"
            assert event.response.output_text == "hi"
            await connection.response.create(model="missing", input="hello")
            async for event in connection:
                assert event.type == "error"
                break

    tell()


@story(CHATTY)
async def test_a_response_that_comes_whole_has_the_events_of_its_stream(stage: Stage) -> None:
    async with socket(stage) as connection:
        await connection.send(create())
        said = {"role": "assistant", "content": "hi"}
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        (await stage.asked()).reply({"choices": [{"message": said, "finish_reason": "stop"}], "usage": usage})
        seen = await events(connection)
        done = next(one for one in seen if one["type"] == "response.output_item.done")
        assert done["item"]["content"][0]["text"] == "hi"
        assert seen[-1]["response"]["usage"]["total_tokens"] == 5


@story(NATIVE)
async def test_requests_on_one_connection_are_served_in_their_order(stage: Stage) -> None:
    async with socket(stage) as connection:
        await connection.send(create("first"))
        await connection.send(create("second"))
        talk = await stage.asked()
        assert "first" in talk.body.decode()
        begin(talk, "one")
        assert json.loads(await connection.recv())["type"] == "response.created"
        assert stage.talks.empty(), "one response at a time"
        end(talk, "one")
        await events(connection)
        talk = await stage.asked()
        assert "second" in talk.body.decode()
        answer(talk, "two")
        assert (await events(connection))[-1]["response"]["output"][0]["content"][0]["text"] == "two"


@story(NATIVE, keys=KEYS)
async def test_the_key_of_the_handshake_is_asked_for_each_request(stage: Stage) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with socket(stage):
            pass
    assert refused.value.response.status_code == 401
    async with socket(stage, additional_headers={"authorization": "Bearer k-user-of-stoker"}) as connection:
        await ask(stage, connection, create())
        stage.door.keyring.configure((Key("other", Secret("k-other-of-stoker", "env:B")),), ())
        await connection.send(create())
        (error,) = await events(connection)
        assert (error["type"], error["status"]) == ("error", 401)
    assert [decision.key for decision in stage.decisions] == ["user"]


@story(NATIVE, keys=KEYS)
async def test_a_browser_sends_its_key_as_a_subprotocol(stage: Stage) -> None:
    offered: Any = ["realtime", "openai-insecure-api-key.k-user-of-stoker"]
    async with socket(stage, subprotocols=offered) as connection:
        assert connection.subprotocol == "realtime"
        await ask(stage, connection, create())


@story(NATIVE, keys=(Key("user", Secret("k-user-of-stoker", "env:A"), limits=UsageLimits(requests_per_minute=1)),))
async def test_the_limits_of_the_key_count_each_request(stage: Stage) -> None:
    async with socket(stage, additional_headers={"authorization": "Bearer k-user-of-stoker"}) as connection:
        await ask(stage, connection, create())
        await connection.send(create())
        (error,) = await events(connection)
        assert error["status"] == 429
        assert "retry-after" in error["headers"]


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        ("{", 400, "bad_json"),
        ("[]", 400, "bad_json"),
        ('{"type": "session.update"}', 400, "unknown_event"),
        ("{}", 400, "unknown_event"),
        (create(model="missing"), 404, "unknown_model"),
        (create(stream_id="s1"), 400, "unsupported"),
        (create(background=True), 400, "stateful"),
        (create(previous_response_id="resp_unknown"), 400, "previous_response_not_found"),
        (json.dumps({"type": "response.create", "input": "no model"}), 400, None),
    ],
)
def test_a_refusal_is_a_message_and_the_connection_goes_on(message: str, status: int, code: str | None) -> None:
    @story(NATIVE)
    async def tell(stage: Stage) -> None:
        async with socket(stage) as connection:
            await connection.send(message)
            (error,) = await events(connection)
            assert (error["type"], error["status"]) == ("error", status)
            assert code in (None, error["error"]["code"])
            assert error["error"]["message"]
            await ask(stage, connection, create())

    tell()


@story(NATIVE)
async def test_an_error_of_the_serve_is_a_message(stage: Stage) -> None:
    async with socket(stage) as connection:
        await connection.send(create())
        talk = await stage.asked()
        talk.reply({"error": {"message": "too long", "code": "context_length_exceeded"}}, "400 Bad Request")
        (error,) = await events(connection)
        assert (error["status"], error["error"]["code"]) == (400, "context_length_exceeded")
        await connection.send(create())
        talk = await stage.asked()
        begin(talk, "hi")
        talk.close()
        seen = await events(connection)
        assert seen[-1]["type"] == "response.failed"
        await ask(stage, connection, create())


@story(NATIVE)
async def test_what_codex_tells_of_a_response_is_not_answered(stage: Stage) -> None:
    async with socket(stage) as connection:
        await connection.send('{"type": "response.processed", "response_id": "resp_1"}')
        made, _ = await ask(stage, connection, create())
        assert made["id"] == "resp_hi"


# -- going on from the last response ---------------------------------------------------------------------------------


@EVERY_SERVE
def test_the_next_request_goes_on_from_the_last_response_although_nothing_is_stored(serve: Any) -> None:
    @story(serve)
    async def tell(stage: Stage) -> None:
        async with socket(stage) as connection:
            first, _ = await ask(stage, connection, create("one", store=False), "two")
            second, asked = await ask(stage, connection, create("three", previous_response_id=first["id"]), "four")
            assert second["previous_response_id"] == first["id"]
            words = json.dumps(asked)
            assert [word in words for word in ("one", "two", "three")] == [True] * 3
            assert "previous_response_id" not in asked
            third, asked = await ask(stage, connection, create("five", previous_response_id=second["id"]), "six")
            assert [word in json.dumps(asked) for word in ("one", "two", "three", "four", "five")] == [True] * 5
            await connection.send(create("seven", previous_response_id=first["id"]))
            (error,) = await events(connection)
            assert error["error"]["code"] == "previous_response_not_found", "only the last one is remembered"
            async with socket(stage) as other:
                await other.send(create("eight", previous_response_id=third["id"]))
                (error,) = await events(other)
                assert error["error"]["code"] == "previous_response_not_found", "another connection's"

    tell()


@EVERY_SERVE
def test_the_output_of_a_call_that_was_never_made_does_not_continue_a_response(serve: Any) -> None:
    @story(serve)
    async def tell(stage: Stage) -> None:
        async with socket(stage) as connection:
            first, _ = await ask(stage, connection, create("one"))
            output = {"type": "function_call_output", "call_id": "call_of_nobody", "output": "x"}
            items = json.dumps({"type": "response.create", "model": "a", "input": [output],
                                "previous_response_id": first["id"]})  # fmt: skip
            await connection.send(items)
            (error,) = await events(connection)
            assert (error["status"], error["error"]["param"]) == (400, "input")
            assert "call_of_nobody" in error["error"]["message"]
            await connection.send(create("two", previous_response_id=first["id"]))
            (error,) = await events(connection)
            assert error["error"]["code"] == "previous_response_not_found"

    tell()


@story(NATIVE)
async def test_a_call_of_the_last_response_is_answered(stage: Stage) -> None:
    async with socket(stage) as connection:
        await connection.send(create("one"))
        call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}
        talk = await stage.asked()
        talk.begin()
        talk.chunk(native_event("response.output_item.done", 0, output_index=0, item=call))
        talk.chunk(native_event("response.completed", 1, response=response("resp_1", "completed", call)))
        talk.send(b"0\r\n\r\n")
        await events(connection)
        output = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
        fields = {"model": "a", "input": [output], "previous_response_id": "resp_1"}
        _, asked = await ask(stage, connection, json.dumps({"type": "response.create", **fields}))
        assert [item.get("call_id") for item in asked["input"]] == [None, "call_1", "call_1"]


@story(NATIVE)
async def test_a_response_that_could_not_be_continued_is_forgotten(stage: Stage) -> None:
    async with socket(stage) as connection:
        first, _ = await ask(stage, connection, create("one"))
        await connection.send(create("two", previous_response_id=first["id"]))
        (await stage.asked()).reply({"error": {"message": "no"}}, "400 Bad Request")
        await events(connection)
        await connection.send(create("two", previous_response_id=first["id"]))
        (error,) = await events(connection)
        assert error["error"]["code"] == "previous_response_not_found"


@EVERY_SERVE
def test_a_warm_up_asks_no_model_and_the_next_request_goes_on_from_it(serve: Any) -> None:
    @story(serve)
    async def tell(stage: Stage) -> None:
        async with socket(stage) as connection:
            await connection.send(create("one", generate=False))
            seen = await events(connection)
            kinds = ["response.created", "response.in_progress", "response.completed"]
            assert [one["type"] for one in seen] == kinds
            warm = seen[-1]["response"]
            assert (warm["output"], warm["usage"]["total_tokens"]) == ([], 0)
            more = json.dumps({"type": "response.create", "model": "a", "input": [], "generate": True,
                               "previous_response_id": warm["id"]})  # fmt: skip
            _, asked = await ask(stage, connection, more)
            assert "one" in json.dumps(asked)
            assert "generate" not in asked
            await connection.send(create("one", generate=False, model="missing"))
            assert (await events(connection))[-1]["status"] == 404

    tell()


@story(NATIVE, stores=True)
async def test_what_is_stored_is_continued_from_any_connection(stage: Stage) -> None:
    async with socket(stage) as connection:
        first, _ = await ask(stage, connection, create("one"))
    async with socket(stage) as connection:
        second, asked = await ask(stage, connection, create("two", previous_response_id=first["id"], store=False))
        assert "one" in json.dumps(asked)
        _, asked = await ask(stage, connection, create("three", previous_response_id=second["id"]), "x")
        assert [word in json.dumps(asked) for word in ("one", "two", "three")] == [True] * 3


@EVERY_SERVE
def test_a_compaction_is_remembered_as_the_last_response(serve: Any) -> None:
    @story(serve)
    async def tell(stage: Stage) -> None:
        async with socket(stage) as connection:
            first, _ = await ask(stage, connection, create("one"), "a long answer")
            trigger = json.dumps({"type": "response.create", "model": "a", "input": [{"type": "compaction_trigger"}],
                                  "previous_response_id": first["id"]})  # fmt: skip
            compacted, _ = await ask(stage, connection, trigger, "the summary")
            assert [item["type"] for item in compacted["output"]] == ["compaction"]
            _, asked = await ask(stage, connection, create("two", previous_response_id=compacted["id"]))
            found = [word in json.dumps(asked) for word in ("one", "a long answer", "the summary", "two")]
            assert found == [True, False, True, True]

    tell()


@story(NATIVE, body_limit=4096)
async def test_a_conversation_that_outgrows_the_limit_is_refused(stage: Stage) -> None:
    async with socket(stage) as connection:
        first, _ = await ask(stage, connection, create("x" * 3000))
        await connection.send(create("y" * 3000, previous_response_id=first["id"]))
        (error,) = await events(connection)
        assert error["status"] == 413


# -- whatever ends it, nothing is left: see `Stage.left` ---------------------------------------------------------------


@pytest.mark.parametrize("moment", ["waiting", "begun", "flowing"])
@pytest.mark.parametrize("way", ["close", "abort"])
@EVERY_SERVE
def test_a_client_that_leaves_ends_its_request(serve: Any, moment: str, way: str) -> None:
    @story(serve)
    async def tell(stage: Stage) -> None:
        async with socket(stage) as connection:
            await connection.send(create())
            talk = await stage.asked()
            if moment != "waiting":
                begin(talk, "hi")
                await connection.recv()
            if moment == "flowing":
                talk.say("more") if b"/chat" in talk.head else None
            if way == "close":
                await connection.close()
            else:
                connection.transport.abort()
            async with asyncio.timeout(3):
                await talk.gone.wait()
        assert (await stage.sealed()).outcome == "client_left"

    tell()


def test_a_client_that_leaves_during_its_handshake_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    @story(NATIVE)
    async def tell(stage: Stage) -> None:
        loading = threading.Event()
        monkeypatch.delitem(sys.modules, "websockets.protocol")  # as before the first one
        monkeypatch.setattr(importlib, "import_module", lambda name: loading.wait(3))
        _, writer = await asyncio.open_connection("127.0.0.1", stage.port)
        writer.write(handshake(KEY, VERSION))
        await stage.until(lambda: stage.state.tasks, "the handshake")
        writer.transport.abort()
        await stage.until(lambda: not stage.state.connections, "it is gone")
        loading.set()

    tell()


@story(a_serve(dialects=frozenset((Dialect.RESPONSES,)), max_active=1))
async def test_a_client_that_leaves_the_queue_gives_up_its_position(stage: Stage) -> None:
    async with socket(stage) as first:
        await first.send(create())
        talk = await stage.asked()
        async with socket(stage) as second:
            await second.send(create())
            await stage.until(lambda: len(stage.flow.active) == 2, "two requests")
        await stage.until(lambda: len(stage.flow.active) == 1, "the second is gone")
        answer(talk, "hi")
        await events(first)


@story(NATIVE)
async def test_an_operator_cancels_a_request_and_not_the_connection(stage: Stage) -> None:
    async with socket(stage) as connection:
        await connection.send(create())
        await stage.asked()
        (id,) = stage.flow.active
        assert stage.flow.cancel(id)
        (error,) = await events(connection)
        assert (error["status"], error["error"]["code"]) == (503, "cut")
        await ask(stage, connection, create())


@story(NATIVE)
async def test_a_client_that_does_not_read_pauses_the_serve(stage: Stage) -> None:
    async with socket(stage) as connection:
        await connection.send(create())
        talk = await stage.asked()
        begin(talk, "hi")
        await connection.recv()
        connection.transport.pause_reading()
        sent, text = 0, "x" * 60_000
        while talk.writable.is_set() and sent < 400:
            talk.chunk(native_event("response.output_text.delta", 2, delta=text))
            sent += 1
            await asyncio.sleep(0)
        assert sent < 400, "everything was taken"
        connection.transport.resume_reading()
        end(talk, "hi")
        assert (await events(connection))[-1]["type"] == "response.completed"


@pytest.mark.parametrize("way", ["shutdown", "announce_end", "move"])
def test_a_connection_ends_with_its_process_after_the_response_under_way(way: str) -> None:
    @story(NATIVE)
    async def tell(stage: Stage) -> None:
        async with socket(stage) as idle, socket(stage) as busy:
            await busy.send(create())
            talk = await stage.asked()
            for connection in tuple(stage.state.connections):
                if way == "move":
                    assert not connection.move(lambda handle: None)
                else:
                    getattr(connection, way)()
            with pytest.raises(ConnectionClosed):
                await idle.recv()
            assert idle.close_code == 1001
            answer(talk, "hi")
            assert (await events(busy))[-1]["type"] == "response.completed"
            with pytest.raises(ConnectionClosed):
                await busy.recv()

    tell()


@pytest.mark.parametrize("moment", ["waiting", "flowing"])
@EVERY_SERVE
def test_a_second_signal_cuts_the_request_and_its_connection(serve: Any, moment: str) -> None:
    @story(serve)
    async def tell(stage: Stage) -> None:
        async with socket(stage) as connection:
            await connection.send(create())
            talk = await stage.asked()
            if moment == "flowing":
                begin(talk, "hi")
                await connection.recv()
            for task in tuple(stage.state.tasks):
                task.cancel()
            seen = await events(connection)
            code = seen[-1].get("error") or seen[-1]["response"]["error"]
            assert "shutting down" in code["message"]
            with pytest.raises(ConnectionClosed):
                await connection.recv()
        assert (await stage.sealed()).outcome == "cut"

    tell()


def test_an_idle_connection_is_kept_longer_than_one_of_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accept_connection, "KEEP_ALIVE", 0.05)

    @story(NATIVE)
    async def tell(stage: Stage) -> None:
        async with socket(stage) as connection:
            http = await stage.client()
            assert await http.read() == b"", "closed"
            await ask(stage, connection, create())

    tell()


# -- limits ------------------------------------------------------------------------------------------------------------


@story(NATIVE, body_limit=100_000)
async def test_a_message_is_bounded_as_a_body_is(stage: Stage) -> None:
    async with socket(stage) as connection:
        await connection.send(create("x" * 120_000))
        (error,) = await events(connection)
        assert error["status"] == 413
        await connection.send(create("x" * 400_000))
        with pytest.raises(ConnectionClosed):
            await connection.recv()
        assert connection.close_code == 1009


@story(NATIVE)
async def test_messages_in_fragments_arrive_whole(stage: Stage) -> None:
    text = create("fragments" * 30_000)

    async def pieces() -> AsyncIterator[str]:
        for at in range(0, len(text), 7000):
            yield text[at : at + 7000]

    async with socket(stage) as connection:
        await connection.send(pieces())
        talk = await stage.asked()
        assert talk.json()["input"][0]["content"].count("fragments") == 30_000
        answer(talk, "hi")
        await events(connection)


@story(NATIVE)
async def test_a_binary_message_ends_the_connection(stage: Stage) -> None:
    async with socket(stage) as connection:
        await connection.send(b"{}")
        with pytest.raises(ConnectionClosed):
            await connection.recv()
        assert connection.close_code == 1003


@story(NATIVE)
async def test_pings_are_answered(stage: Stage) -> None:
    async with socket(stage) as connection:
        async with asyncio.timeout(3):
            await (await connection.ping())


@story(NATIVE)
async def test_a_client_that_pings_and_does_not_read_is_not_read_either(stage: Stage) -> None:
    ping = (b"\x89\xfd" + bytes(4) + bytes(125)) * 1000
    with plain_socket.create_connection(("127.0.0.1", stage.port)) as client:
        client.setblocking(False)
        client.send(handshake(KEY, VERSION))
        await stage.until(lambda: stage.state.connections, "the connection")
        (connection,) = stage.state.connections
        sent, refused = 0, 0
        while refused < 20 and sent < 100 * 2**20:
            try:
                sent += client.send(ping[sent % len(ping) :])
                refused = 0
            except BlockingIOError:
                refused += 1
                await asyncio.sleep(0.01)
        assert refused, "everything was taken"
        assert connection.transport.get_write_buffer_size() < 2**20


@story(NATIVE, commit_after=0.02, keep_alive=0.02)
async def test_a_request_that_waits_sends_pings_and_no_messages(stage: Stage) -> None:
    reader, writer = await handshaken(stage)
    writer.write(masked_text(create()))
    talk = await stage.asked()
    async with asyncio.timeout(3):
        frame = await reader.readexactly(2)
    assert frame == b"\x89\x00"
    answer(talk, "hi")
    writer.close()


def test_an_old_connection_takes_no_more_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_sockets, "LIFETIME", 0.0)

    @story(NATIVE)
    async def tell(stage: Stage) -> None:
        async with socket(stage) as connection:
            await connection.send(create())
            (error,) = await events(connection)
            assert error["error"]["code"] == "websocket_connection_limit_reached"
            with pytest.raises(ConnectionClosed):
                await connection.recv()

    tell()


@pytest.mark.parametrize("sends", [b"", b"\x81\xfe\x10\x00mask"], ids=["silent", "a slow message"])
def test_a_client_that_is_not_there_any_more_is_given_up(sends: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_sockets, "PING_EVERY", 0.02)
    monkeypatch.setattr(response_sockets, "DEAD_AFTER", 0.06)

    @story(NATIVE)
    async def tell(stage: Stage) -> None:
        reader, writer = await handshaken(stage)
        writer.write(sends)
        async with asyncio.timeout(3):
            seen = await reader.read()
        assert (b"slow_upload" in seen) is bool(sends)
        writer.close()

    tell()


# -- where there is none -----------------------------------------------------------------------------------------------


def handshake(*headers: tuple[str, str], version: str = "1.1", offers: bool = True) -> bytes:
    offer = (("connection", "Upgrade"), ("upgrade", "websocket")) if offers else ()
    given = [("host", "127.0.0.1"), *offer, *headers]
    lines = "".join(f"{name}: {value}\r\n" for name, value in given)
    return f"GET {RESPONSES} HTTP/{version}\r\n{lines}\r\n".encode()


KEY = ("sec-websocket-key", base64.b64encode(os.urandom(16)).decode())
VERSION = ("sec-websocket-version", "13")


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (handshake(KEY, VERSION, version="1.0"), 426),
        (handshake(KEY, ("sec-websocket-version", "8")), 426),
        (handshake(KEY), 426),
        (handshake(offers=False), 405),
    ],
)
def test_what_cannot_be_a_websocket_is_refused_at_once(request_head: bytes, status: int) -> None:
    @story(NATIVE)
    async def tell(stage: Stage) -> None:
        client: RawClient = await stage.client()
        await client.send(request_head)
        reply = await client.reply()
        assert reply.status == status
        assert reply.header("upgrade") == ("websocket" if status == 426 else None)

    tell()


@story(NATIVE)
async def test_it_can_be_turned_off(stage: Stage) -> None:
    stage.responses.configure(ResponseStorage(websocket=False))
    with pytest.raises(InvalidStatus) as refused:
        async with socket(stage):
            pass
    assert refused.value.response.status_code == 426


@story(NATIVE)
async def test_a_draining_stoker_opens_none(stage: Stage) -> None:
    stage.flow.set_draining(True)
    with pytest.raises(InvalidStatus) as refused:
        async with socket(stage):
            pass
    assert refused.value.response.status_code == 503


async def handshaken(stage: Stage) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.port)
    writer.write(handshake(KEY, VERSION))
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in head.split(b"\r\n", 1)[0]
    return reader, writer


def masked_text(text: str) -> bytes:
    """A text frame of a client, with a mask that changes nothing."""
    data = text.encode()
    return b"\x81\xfe" + len(data).to_bytes(2, "big") + bytes(4) + data
