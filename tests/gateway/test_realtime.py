"""`/v1/realtime`: a WebSocket session passes both ways, holds a lease, and ends with whoever ends first."""

from __future__ import annotations

import asyncio
import http
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.flow_stage import Stage, a_serve, ask
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import OP_BINARY, OP_TEXT, Frame
from websockets.http11 import Request, Response

from stoker.domain.key import Key
from stoker.domain.serve import Secret, Slot, SwapPolicy
from stoker.request.codec.websocket import FrameBoundary, close_frame
from stoker.request.relay.tunnel import Tunnel
from stoker_lab.testing.client import compose_request
from stoker_lab.testing.fleet import FakeFleet

SLOTS = (Slot("gpu", swap=SwapPolicy(drain_timeout=0.05)),)
SERVES = (a_serve("voice", slot="gpu", served_name="engine-name"), a_serve("other", slot="gpu"))
KEYS = (Key("user", Secret("k-user-of-stoker", "env:A")),)

Handler = Callable[[ServerConnection], Awaitable[None]]
Story = Callable[["Session"], Coroutine[Any, Any, None]]


async def echo(connection: ServerConnection) -> None:
    with suppress(ConnectionClosed):
        async for message in connection:
            await connection.send(message)


class Session(Stage):
    """A stage whose serve `voice` is a WebSocket server."""

    engine_requests: list[Request]
    refuses: http.HTTPStatus | None = None

    def look(self, connection: ServerConnection, request: Request) -> Response | None:
        self.engine_requests.append(request)
        return connection.respond(self.refuses, "no\nnever\n") if self.refuses else None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/realtime?model=voice"

    @asynccontextmanager
    async def session(self, **options: Any) -> AsyncIterator[ClientConnection]:
        async with connect(self.url, max_size=None, **options) as client:
            yield client

    @property
    def leases(self) -> int:
        return self.conductor.statistics()["leases"]


def session_story(handler: Handler = echo, **front: Any) -> Callable[[Story], Callable[[], None]]:
    def decorate(tell: Story) -> Callable[[], None]:
        async def played() -> None:
            fleet = FakeFleet()
            stage = Session(front, SERVES, SLOTS, fleet)
            stage.engine_requests = []
            async with serve(handler, "127.0.0.1", 0, process_request=stage.look, max_size=None) as engine:
                fleet.ports["voice"] = next(iter(engine.sockets)).getsockname()[1]
                async with stage, asyncio.timeout(40):
                    await tell(stage)

        def run() -> None:
            asyncio.run(played())

        run.__name__, run.__doc__ = tell.__name__, tell.__doc__
        return run

    return decorate


@session_story()
async def test_the_openai_sdk_talks_both_ways(stage: Session) -> None:
    url = f"127.0.0.1:{stage.port}/v1"
    client = openai.AsyncOpenAI(api_key="none", base_url=f"http://{url}", websocket_base_url=f"ws://{url}")
    async with client, client.realtime.connect(model="voice") as connection:
        await connection.send({"type": "response.create", "event_id": "e1"})
        event = await connection.recv_bytes()
        assert b'"response.create"' in event
    (request,) = stage.engine_requests
    assert request.path == "/v1/realtime?model=engine-name"


@session_story()
async def test_large_messages_arrive_whole_in_both_directions(stage: Session) -> None:
    async with stage.session() as client:
        for message in (b"\x00\xff" * 600_000, "é" * 700_000, b"", b"x" * 125, b"x" * 126, b"x" * 65_536):
            await client.send(message)
            assert await client.recv() == message


@session_story()
async def test_it_holds_a_lease_until_the_client_closes(stage: Session) -> None:
    async with stage.session() as client:
        await client.send("a")
        await client.recv()
        assert stage.leases == 1
    await stage.until(lambda: stage.leases == 0)
    (decision,) = stage.decisions
    assert (decision.model, decision.serve, decision.outcome) == ("voice", "voice", "served")


@session_story()
async def test_a_client_that_vanishes_frees_its_lease_and_its_engine(stage: Session) -> None:
    async with connect(stage.url) as client:
        await client.send("a")
        await client.recv()
        client.transport.abort()
        await stage.until(lambda: stage.leases == 0)
    assert (await (await stage.client()).ask("GET", "/healthz")).status == 200


async def hang_up(connection: ServerConnection) -> None:
    await connection.recv()
    await connection.close(1000, "done")


@session_story(hang_up)
async def test_an_engine_that_closes_ends_the_session_as_it_said(stage: Session) -> None:
    async with stage.session() as client:
        await client.send("a")
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1000, "done")
    await stage.until(lambda: stage.leases == 0)
    assert stage.decisions[0].outcome == "served"


async def die(connection: ServerConnection) -> None:
    await connection.recv()
    connection.transport.abort()


@session_story(die)
async def test_an_engine_that_dies_is_no_proper_end(stage: Session) -> None:
    async with stage.session() as client:
        await client.send("a")
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1011
    await stage.until(lambda: stage.leases == 0)
    assert stage.decisions[0].outcome == "upstream_failed"


@session_story()
async def test_a_session_ended_in_the_moment_of_its_handshake_gives_its_lease_back(stage: Session) -> None:
    shake_hands = Tunnel.handshake

    async def shake_hands_and_end(tunnel: Tunnel, head: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
        reply = await shake_hands(tunnel, head)
        (request_id,) = stage.flow.active
        asyncio.get_running_loop().call_soon(stage.flow.cancel, request_id)  # when the step is done, but not yet seen
        return reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tunnel, "handshake", shake_hands_and_end)
        with pytest.raises(InvalidStatus):
            await connect(stage.url)
    await stage.until(lambda: stage.leases == 0)
    assert stage.decisions[0].outcome == "cut"


@session_story()
async def test_a_swap_that_cuts_it_closes_it_with_1001(stage: Session) -> None:
    async with stage.session() as client:
        await client.send("a")
        await client.recv()
        await stage.conductor.switch("other", drain_timeout=0)
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
    assert stage.decisions[0].outcome == "cut"


@session_story()
async def test_another_model_waits_while_a_session_is_open(stage: Session) -> None:
    async with stage.session() as client:
        await client.send("a")
        await client.recv()
        waiting = await stage.client()
        await waiting.send(ask("other"))
        await stage.until(lambda: stage.conductor.statistics()["waiting"] == 1)
        assert stage.conductor.residency.phase("voice") == "ready"
        waiting.abort()


@session_story(stall_timeout=0.3)
async def test_silence_on_both_sides_ends_it(stage: Session) -> None:
    async with connect(stage.url, ping_interval=None) as client:
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
    assert stage.decisions[0].outcome == "stalled"


@session_story()
async def test_an_engine_that_refuses_is_quoted_and_the_lease_is_free(stage: Session) -> None:
    """What it says of Stoker's own key, or of itself, is not the client's fault."""
    for stage.refuses, status in (
        (http.HTTPStatus.FORBIDDEN, 502), (http.HTTPStatus.SERVICE_UNAVAILABLE, 502), (http.HTTPStatus.NOT_FOUND, 404),
    ):  # fmt: skip
        with pytest.raises(InvalidStatus) as refused:
            await connect(stage.url)
        assert refused.value.response.status_code == status
        assert f"HTTP {stage.refuses.value}: no never" in (refused.value.response.body or b"").decode()
        await stage.until(lambda: stage.leases == 0)


@session_story()
async def test_the_headers_of_the_handshake_are_passed_on_as_those_of_any_request(stage: Session) -> None:
    sent = {"openai-beta": "realtime=v1", "cookie": "a=b", "x-forwarded-for": "10.0.0.1"}
    async with stage.session(additional_headers=sent) as client:
        await client.send("a")
        assert await client.recv() == "a"
    headers = stage.engine_requests[0].headers
    assert headers["openai-beta"] == "realtime=v1"
    assert "cookie" not in headers
    assert "x-forwarded-for" not in headers
    assert len(headers.get_all("sec-websocket-key")) == 1


@session_story()
async def test_an_engine_without_websockets_answers_as_it_does(stage: Session) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(answer_plainly(stage))
        with pytest.raises(InvalidStatus) as refused:
            await connect(stage.url.replace("voice", "other"))
    assert refused.value.response.status_code == 404
    assert b"Not Found" in (refused.value.response.body or b"")


async def answer_plainly(stage: Session) -> None:
    (await stage.asked()).reply({"detail": "Not Found"}, "404 Not Found")


@session_story(keys=KEYS)
async def test_a_browsers_key_comes_as_a_subprotocol_and_goes_no_further(stage: Session) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await connect(stage.url)
    assert refused.value.response.status_code == 401
    protocols = ["realtime", "openai-insecure-api-key.k-user-of-stoker"]
    async with stage.session(subprotocols=protocols) as client:
        await client.send("a")
        assert await client.recv() == "a"
    assert stage.engine_requests[0].headers["sec-websocket-protocol"] == "realtime"
    async with stage.session(additional_headers={"authorization": "Bearer k-user-of-stoker"}) as client:
        await client.send("a")
        assert await client.recv() == "a"
    sent = [value for request in stage.engine_requests for value in request.headers.raw_items()]
    assert not [pair for pair in sent if "k-user-of-stoker" in pair[1]]


@session_story()
async def test_wrong_requests_are_refused_in_words(stage: Session) -> None:
    plain = await stage.client()
    reply = await plain.ask("GET", "/v1/realtime?model=voice")
    assert (reply.status, reply.json()["error"]["code"]) == (426, "upgrade_required")
    assert reply.header("upgrade") == "websocket"
    for url, status in ((stage.url.replace("voice", "nobody"), 404), (stage.url.partition("?")[0], 400)):
        with pytest.raises(InvalidStatus) as refused:
            await connect(url)
        assert refused.value.response.status_code == status
    with pytest.raises(InvalidStatus) as refused:
        await connect(stage.url, additional_headers={"sec-fetch-site": "cross-site"}, origin="https://evil.example")
    assert refused.value.response.status_code == 403
    assert stage.leases == 0


@session_story()
async def test_a_client_need_not_wait_for_the_101(stage: Session) -> None:
    client = await stage.client()
    headers = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13"),
               ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")]  # fmt: skip
    frame = Frame(OP_TEXT, b"early").serialize(mask=True)
    await client.send(compose_request("GET", "/v1/realtime?model=voice", None, headers) + frame)
    head = await client.head()
    assert head.status == 101
    assert head.header("sec-websocket-accept") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert await client.read(7) == b"\x81\x05early"
    client.abort()
    await stage.until(lambda: stage.leases == 0)
    assert stage.decisions[0].outcome == "client_left"


@session_story()
async def test_a_client_that_sends_much_before_the_101_is_read_on_after_it(stage: Session) -> None:
    client = await stage.client()
    headers = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13"),
               ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")]  # fmt: skip
    message = b"x" * 300_000
    frame = Frame(OP_BINARY, message).serialize(mask=True)
    await client.send(compose_request("GET", "/v1/realtime?model=voice", None, headers) + frame)
    assert (await client.head()).status == 101
    echoed = b""
    while len(echoed) < 10 + len(message):
        echoed += await client.read() or pytest.fail("the connection was closed")
    assert echoed[10:] == message
    client.abort()
    await stage.until(lambda: stage.leases == 0)


async def flood(connection: ServerConnection) -> None:
    with suppress(ConnectionClosed):
        for _ in range(200):
            await connection.send(b"x" * 1_000_000)


@session_story(flood)
async def test_an_engine_is_not_read_while_its_client_does_not_read(stage: Session) -> None:
    async with connect(stage.url, max_size=None, max_queue=1) as client:
        await stage.until(lambda: stage.leases == 1)
        await asyncio.sleep(0.5)
        client.transport.abort()
        await stage.until(lambda: stage.leases == 0)
    assert 0 < stage.upstream_client.received("voice") < 50_000_000


# -- where frames end --------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0, 1, 125, 126, 65_535, 65_536]), st.booleans())), st.integers(1, 70_000))
def test_frames_are_followed_however_the_bytes_are_cut(frames: list[tuple[int, bool]], piece: int) -> None:
    boundary, position, ends = FrameBoundary(), 0, {0}
    data = b""
    for size, is_masked in frames:
        data += Frame(OP_BINARY, bytes(size)).serialize(mask=is_masked)
        ends.add(len(data))
    for at in range(0, len(data), piece):
        boundary.feed(data[at : at + piece])
        position = min(at + piece, len(data))
        assert boundary.is_between_frames is (position in ends)


@given(st.text())
def test_a_close_frame_is_one_whatever_its_reason(reason: str) -> None:
    frame = close_frame(1001, reason)
    assert len(frame) == 2 + frame[1] <= 127
    assert reason.startswith(frame[4:].decode())
