"""Kept connections: one exchange at a time, and nothing of one reaches the next."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest
import uvloop
from tests.request.busy_outbox import busy_outbox

from stoker.domain.errors import UpstreamError
from stoker.domain.lease import Target
from stoker.request.relay import pool as pool_module
from stoker.request.relay.pool import ConnectionPool, UpstreamConnection
from stoker.system.ports import KEEP_ALIVE

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


class Seen:
    """An exchange that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.done = asyncio.Event()
        self.on_first: Callable[[], None] = lambda: None

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.told.append(status)
        self.headers = headers

    def on_data(self, data: bytes) -> None:
        self.told.append(data)
        self.on_first()

    def on_end(self) -> None:
        self.told.append("end")
        self.done.set()

    def on_broken(self, reason: str) -> None:
        self.told.append("broken")
        self.reason = reason
        self.done.set()


class Server(asyncio.Protocol):
    """Says `reply` to each read; `closes` afterwards."""

    reply = OK
    closes = False

    def __init__(self, lines: list[Server]) -> None:
        self.gone = asyncio.Event()
        lines.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.transport.write(type(self).reply)
        if type(self).closes:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()


Story = Callable[[ConnectionPool, Target, list[Server]], Coroutine[Any, Any, None]]


def story(reply: bytes = OK, closes: bool = False) -> Callable[[Story], Callable[[], None]]:
    def decorate(tell: Story) -> Callable[[], None]:
        async def played() -> None:
            kind = type("Scripted", (Server,), {"reply": reply, "closes": closes})
            lines: list[Server] = []
            server = await asyncio.get_running_loop().create_server(lambda: kind(lines), "127.0.0.1", 0)
            pool = ConnectionPool()
            async with asyncio.timeout(5):
                await tell(pool, Target("127.0.0.1", server.sockets[0].getsockname()[1], "", "m"), lines)
                pool.close()
                server.close()
                for line in lines:
                    line.transport.close()
                    await line.gone.wait()

        def run() -> None:
            asyncio.run(played())

        run.__name__, run.__doc__ = tell.__name__, tell.__doc__
        return run

    return decorate


async def exchange(connection: UpstreamConnection) -> Seen:
    seen = Seen()
    connection.send(seen, GET, b"")
    await seen.done.wait()
    return seen


@story()
async def test_a_connection_is_kept_and_used_again(pool: ConnectionPool, target: Target, lines: list[Server]) -> None:
    assert pool.take_idle(target) is None
    first = await pool.open(target)
    assert (await exchange(first)).told == [200, b"ok", "end"]
    again = pool.take_idle(target)
    assert again is first
    assert again.is_reused
    assert pool.take_idle(target) is None, "nobody else gets it meanwhile"
    assert (await exchange(again)).told == [200, b"ok", "end"]
    assert (pool.opened, len(lines)) == (1, 1)


@story(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
async def test_a_connection_that_is_to_close_is_not_kept(
    pool: ConnectionPool, target: Target, lines: list[Server]
) -> None:
    await exchange(await pool.open(target))
    assert pool.take_idle(target) is None
    await lines[0].gone.wait()


@story(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
async def test_a_closed_connection_leaves_no_reference_cycle(
    pool: ConnectionPool, target: Target, lines: list[Server]
) -> None:
    gc.collect()
    gc.disable()
    try:
        await exchange(await pool.open(target))
        while any(isinstance(one, UpstreamConnection) for one in gc.get_objects()):
            await asyncio.sleep(0)  # until it is closed
    finally:
        gc.enable()


@story()
async def test_a_connection_that_was_paused_at_its_end_reads_again(
    pool: ConnectionPool, target: Target, lines: list[Server]
) -> None:
    """Its client was slow at the last bytes; the next one's reply must come through."""
    connection = await pool.open(target)
    slow = Seen()
    slow.on_first = connection.pause
    connection.send(slow, GET, b"")
    await slow.done.wait()
    assert pool.take_idle(target) is connection
    assert (await exchange(connection)).told == [200, b"ok", "end"]


@story()
async def test_a_connection_is_not_kept_while_its_request_is_not_sent(
    pool: ConnectionPool, target: Target, lines: list[Server]
) -> None:
    """The serve refused a large body before it had read it: the next request would wait behind the rest."""
    connection, seen = await pool.open(target), Seen()
    connection.send(seen, GET, [b"x", b"y" * 2**25])
    await seen.done.wait()
    assert pool.take_idle(target) is None


@story(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK)
async def test_headers_of_an_interim_reply_are_not_the_replys(
    pool: ConnectionPool, target: Target, lines: list[Server]
) -> None:
    seen = await exchange(await pool.open(target))
    assert seen.headers == [(b"content-length", b"2")]


class Paper:
    """A transport that writes down what is done to it."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def write(self, data: bytes) -> None:
        self.log.append(data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        self.log.append(list(pieces))

    def abort(self) -> None:
        self.log.append("abort")


def on_paper(pool: ConnectionPool | None = None) -> tuple[UpstreamConnection, Paper]:
    connection, paper = UpstreamConnection(pool or ConnectionPool(), ("h", 1)), Paper()
    connection.connection_made(paper)  # type: ignore[arg-type]
    return connection, paper


def test_a_small_body_goes_with_its_head_a_large_one_is_not_copied() -> None:
    async def played() -> None:
        connection, paper = on_paper()
        connection.send(Seen(), b"head", b"body")
        await asyncio.sleep(0)
        large = b"b" * pool_module.LARGE
        connection.send(Seen(), b"head", large)
        connection.send(Seen(), b"head", [b"one", b"two"])
        assert paper.log == [b"headbody", [b"head", large], [b"head", b"one", b"two"]]
        assert paper.log[1][1] is large

    asyncio.run(played())


def test_under_load_a_request_that_ends_in_the_moment_it_is_sent_does_not_go_out() -> None:
    async def played() -> None:
        pool = ConnectionPool()
        pool.outbox = busy_outbox()
        connection, paper = on_paper(pool)
        connection.send(Seen(), b"head", b"body")
        connection.abort()
        await asyncio.sleep(0)
        assert paper.log == ["abort"]

    asyncio.run(played())


@story()
async def test_pause_and_resume_may_be_said_twice_and_after_the_end(
    pool: ConnectionPool, target: Target, lines: list[Server]
) -> None:
    connection = await pool.open(target)
    connection.pause()
    connection.pause()
    connection.resume()
    connection.resume()
    assert (await exchange(connection)).told[-1] == "end"
    connection.abort()
    connection.pause()
    connection.resume()
    await lines[0].gone.wait()


@story()
async def test_a_kept_connection_that_the_serve_closes_is_forgotten(
    pool: ConnectionPool, target: Target, lines: list[Server]
) -> None:
    connection = await pool.open(target)
    await exchange(connection)
    lines[0].transport.close()
    while not connection.is_closed:
        await asyncio.sleep(0)
    assert pool.take_idle(target) is None


@story()
async def test_bytes_that_nobody_asked_for_end_the_connection(
    pool: ConnectionPool, target: Target, lines: list[Server]
) -> None:
    await exchange(await pool.open(target))
    lines[0].transport.write(OK)
    await lines[0].gone.wait()
    assert pool.take_idle(target) is None


@story()
async def test_after_an_abort_nothing_is_told(pool: ConnectionPool, target: Target, lines: list[Server]) -> None:
    connection = await pool.open(target)
    seen = Seen()
    connection.send(seen, GET, b"")
    connection.abort()
    await lines[0].gone.wait()
    assert seen.told == []


ENDS = [
    (b"HTTP/1.1 200 OK\r\n\r\nall", True, [200, b"all", "end"]),
    (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", True, [200, b"half", "broken"]),
    (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", True, [200, b"half", "broken"]),
    (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfull\r\n0\r\n\r\n",
        False,
        [200, b"full", "end"],
    ),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, False, [200, b"ok", "end"]),
    (b"HTTP/1.1 204 No Content\r\n\r\n", False, [204, "end"]),
    (b"", True, ["broken"]),
    (b"HTTP/1.1 200 OK\r\nx-half", True, ["broken"]),
    (b"\x16\x03\x01", False, ["broken"]),
    (b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\n", False, ["broken"]),
    (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", False, ["broken"]),
    (OK + OK, False, ["broken"]),
    (b"HTTP/1.1 101 Switching\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n", False, ["broken"]),
]


@pytest.mark.parametrize(("reply", "closes", "told"), ENDS)
def test_each_kind_of_end_is_told_once(reply: bytes, closes: bool, told: list[Any]) -> None:
    @story(reply, closes)
    async def tell(pool: ConnectionPool, target: Target, lines: list[Server]) -> None:
        seen = await exchange(await pool.open(target))
        assert [one for one in seen.told if told != ["broken"] or one == "broken"] == told
        if told[-1] == "broken" or closes:
            assert pool.take_idle(target) is None

    tell()


def test_nobody_there_is_an_error_that_names_the_place() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        port = taken.getsockname()[1]
        with pytest.raises(UpstreamError, match=f"127.0.0.1:{port} cannot be reached") as caught:
            asyncio.run(open_one(port))
    assert (caught.value.status, caught.value.code) == (502, "unreachable")


async def open_one(port: int) -> None:
    await ConnectionPool().open(Target("127.0.0.1", port, "", "m"))


def test_a_host_that_swallows_packets_is_an_error_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def swallowed(*asked: Any, **more: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(pool_module, "CONNECT_TIMEOUT", 0.01)
    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", swallowed)
    with pytest.raises(UpstreamError, match=r"no answer within 0\.01 s"):
        asyncio.run(open_one(1))


@story()
async def test_only_so_many_are_kept(pool: ConnectionPool, target: Target, lines: list[Server]) -> None:
    connections = [await pool.open(target) for _ in range(pool_module.MAX_IDLE + 1)]
    for connection in connections:
        await exchange(connection)
    await lines[0].gone.wait()
    assert pool.take_idle(target) is connections[-1]
    assert connections[0].is_closed


def test_no_connection_is_kept_longer_than_load_balancers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pool_module.IDLE_LIMIT < 60
    monkeypatch.setattr(pool_module, "IDLE_LIMIT", 0.2)

    @story()
    async def tell(pool: ConnectionPool, target: Target, lines: list[Server]) -> None:
        used, idle = await pool.open(target), await pool.open(target)
        await exchange(idle)
        await exchange(used)
        for _ in range(6):
            await asyncio.sleep(0.05)
            if (again := pool.take_idle(target)) is not None:
                await exchange(again)
        assert lines[1].gone.is_set(), "idle all the time"
        assert not lines[0].gone.is_set(), "used again and again"
        assert pool.idle_connections() == [used]

    tell()


@pytest.mark.parametrize("runs", [asyncio.run, uvloop.run])
def test_tcp_itself_looks_whether_the_other_side_is_there(runs: Callable[..., None]) -> None:
    async def told() -> None:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
        target, pool = Target("127.0.0.1", server.sockets[0].getsockname()[1], "", "m"), ConnectionPool()
        for transport in ((await pool.open(target)).transport, (await pool.open_tunnel(target, 0)).transport):
            connected = transport.get_extra_info("socket")
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            idle = next(option for _, option, seconds in KEEP_ALIVE if seconds == 30)
            assert connected.getsockopt(socket.IPPROTO_TCP, idle) < 60
            transport.abort()
        server.close()

    runs(told())


@story()
async def test_what_is_kept_to_a_serve_that_is_gone_is_dropped(
    pool: ConnectionPool, target: Target, lines: list[Server]
) -> None:
    await exchange(await pool.open(target))
    pool.drop(target.host, target.port)
    pool.drop(target.host, target.port)
    assert pool.take_idle(target) is None
    await lines[0].gone.wait()


@story()
async def test_tls_that_is_no_tls_is_unreachable(pool: ConnectionPool, target: Target, lines: list[Server]) -> None:
    with pytest.raises(UpstreamError, match="cannot be reached"):
        await pool.open(Target(target.host, target.port, "", "m", tls=True))


def test_a_serve_that_sends_a_lot_at_once_lets_the_others_have_their_turn() -> None:
    """uvloop reads on in one turn of its loop, as long as bytes are there."""
    size = 32 * 2**20

    async def tell() -> int:
        loop = asyncio.get_running_loop()
        listening = socket.create_server(("127.0.0.1", 0))
        pool = ConnectionPool()
        connection = await pool.open(Target("127.0.0.1", listening.getsockname()[1], "", "m"))
        line, _ = listening.accept()
        reply = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size
        sending = loop.run_in_executor(None, line.sendall, reply)
        seen, came, most = Seen(), 0, 0

        def turn() -> None:
            nonlocal came, most
            total = sum(len(part) for part in seen.told if isinstance(part, bytes))
            most, came = max(most, total - came), total
            if not seen.done.is_set():
                loop.call_soon(turn)

        connection.send(seen, GET, b"")
        turn()
        await seen.done.wait()
        await sending
        pool.close()
        line.close()
        listening.close()
        assert came <= size
        return most

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(tell()) <= 512 * 1024
