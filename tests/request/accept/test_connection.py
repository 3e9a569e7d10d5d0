"""A client's connection, on a transport of paper: whose bytes are whose, and whose turn it is."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.request.busy_outbox import busy_outbox

from stoker.request.accept.bodies import LARGE_READ, MAX_BURST, BodyBudget, ReadTurns
from stoker.request.accept.connection import HttpExchange, IdleConnections, ServerState, WireProtocol
from stoker.request.outbox import Outbox


class Paper:
    """A transport that writes down what is done to it."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.closing = False
        self.unsent = 0
        self.can_half_close = True

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        self.log.append(data)

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.log.append("abort")

    def close(self) -> None:
        self.closing = True
        self.log.append("close")

    def can_write_eof(self) -> bool:
        return self.can_half_close

    def write_eof(self) -> None:
        self.log.append("eof")

    def pause_reading(self) -> None:
        self.log.append("pause")

    def resume_reading(self) -> None:
        self.log.append("resume")


class House:
    """An application that keeps what it is asked, and one connection to it."""

    def __init__(self) -> None:
        self.outbox = Outbox(asyncio.get_running_loop())
        self.bodies = BodyBudget()
        self.idle = IdleConnections()
        self.read_turns = ReadTurns(asyncio.get_running_loop())
        self.asked: list[HttpExchange] = []
        self.works: Callable[[HttpExchange], Coroutine[Any, Any, None] | None] = lambda wire: None
        self.state = ServerState()
        self.line, self.paper = self.another()

    def another(self) -> tuple[WireProtocol, Paper]:
        """A connection of another client."""
        line, paper = WireProtocol(self, self.state), Paper()
        line.connection_made(paper)  # type: ignore[arg-type]
        return line, paper

    def handle(self, exchange: HttpExchange) -> Coroutine[Any, Any, None] | None:
        self.asked.append(exchange)
        return self.works(exchange)

    async def said(self) -> bytes:
        """What was written until now, and with the loop's next turn."""
        await asyncio.sleep(0)
        return b"".join(entry for entry in self.paper.log if isinstance(entry, bytes))


def story(tell: Callable[[House], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def played() -> None:
        house = House()
        await tell(house)
        house.line.connection_lost(None)
        assert (house.state.connections, house.state.tasks) == (set(), set())

    def run() -> None:
        asyncio.run(played())

    run.__name__, run.__doc__ = tell.__name__, tell.__doc__
    return run


def get(path: str = "/", *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: h", *headers, "", ""]).encode()


# -- what is read ----------------------------------------------------------------------------------------------------


@story
async def test_a_request_is_the_same_however_its_bytes_are_cut(house: House) -> None:
    data = b"POST /a%62?x=1 HTTP/1.1\r\nHost: h\r\nX-Long: abc\r\nContent-Length: 5\r\n\r\nhello"
    for cut in range(1, len(data)):
        house.line.data_received(data[:cut])
        house.line.data_received(data[cut:])
        wire = house.asked[-1]
        assert (wire.method, wire.path, wire.raw_path, wire.query) == ("POST", "/a%62", b"/a%62", b"x=1")
        assert wire.raw_headers == [(b"host", b"h"), (b"x-long", b"abc"), (b"content-length", b"5")]
        assert (wire.is_whole, wire.take_body()) == (True, b"hello")
        wire.reply(200, [], b"")
        await house.said()
    assert len(house.asked) == len(data) - 1


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [("/", "/", b""), ("//a", "//a", b""), ("/a#b", "/a", b""), ("http://h/p?q", "/p", b"q"), ("http://h", "/", b"")],
)
def test_a_target_is_a_path_and_a_query(target: str, path: str, query: bytes) -> None:
    @story
    async def tell(house: House) -> None:
        house.line.data_received(get(target))
        assert (house.asked[0].path, house.asked[0].query) == (path, query)

    tell()


@story
async def test_trailers_are_nobodys_headers(house: House) -> None:
    """Neither of the request they follow, which is answered by its head, nor of the next."""
    chunked = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-evil: 1\r\n\r\n"
    house.line.data_received(chunked + get("/next"))
    assert house.asked[0].take_body() == b"ok"
    house.asked[0].reply(200, [], b"")
    await house.said()
    await house.said()
    assert [wire.raw_headers for wire in house.asked] == [
        [(b"host", b"h"), (b"transfer-encoding", b"chunked")], [(b"host", b"h")],
    ]  # fmt: skip


@story
async def test_an_offer_of_another_protocol_is_passed_over_and_the_body_is_kept(house: House) -> None:
    head = b"POST /a?b HTTP/1.1\r\nhost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\ncontent-length: 20\r\n\r\n"
    for cut in (len(head) + 20, 30, len(head), len(head) + 3):
        data = head + b"body\r\nupgrade: 1\r\n\r\n"
        house.line.data_received(data[:cut])
        if cut < len(data):
            house.line.data_received(data[cut:])
        wire = house.asked[-1]
        assert (wire.path, wire.query, wire.take_body()) == ("/a", b"b", b"body\r\nupgrade: 1\r\n\r\n")
        assert b"upgrade" not in wire.headers
        wire.reply(200, [], b"")
        await house.said()


@pytest.mark.parametrize("target", ["other:443", "/"])
def test_a_tunnel_is_refused(target: str) -> None:
    @story
    async def tell(house: House) -> None:
        house.line.data_received(b"CONNECT %b HTTP/1.1\r\nhost: other\r\n\r\n" % target.encode())
        assert (await house.said()).startswith(b"HTTP/1.1 400 ")
        assert house.paper.log[-1] == "close"
        assert house.asked == []

    tell()


@story
async def test_what_is_not_http_behind_a_reply_under_way_ends_the_connection_without_a_word(house: House) -> None:
    house.line.data_received(get())
    house.asked[0].start(200, [])
    before = await house.said()
    house.line.data_received(b"garbage\r\n\r\n")
    assert (await house.said(), house.paper.log[-1]) == (before, "close")


@pytest.mark.parametrize("wish", ["", "connection: keep-alive", "proxy-connection: keep-alive"])
def test_a_client_of_http_1_0_gets_no_chunks_whatever_it_wishes(wish: str) -> None:
    @story
    async def told(house: House) -> None:
        house.line.data_received(f"GET / HTTP/1.0\r\nhost: h\r\n{wish}{chr(13) + chr(10) if wish else ''}\r\n".encode())
        house.asked[0].start(200, [])
        house.asked[0].finish(b"all")
        assert await house.said() == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nall"
        assert house.paper.closing

    told()


@story
async def test_a_connection_with_the_begin_of_a_request_is_not_idle(house: House) -> None:
    house.line.data_received(get("/1") + b"GET /2 HT")
    house.asked[0].reply(200, [], b"")
    await house.said()
    assert not house.line.is_idle, "another process would not get these bytes"


# -- whose turn it is ------------------------------------------------------------------------------------------------


@story
async def test_requests_are_answered_one_after_the_other_and_nobody_gets_ahead_without_end(house: House) -> None:
    house.line.data_received(get("/1") + get("/2") + get("/3"))
    assert [wire.path for wire in house.asked] == ["/1"]
    assert house.paper.log == ["pause"]
    for n in (1, 2):
        house.asked[-1].reply(200, [], b"%d" % n)
        await house.said()
        await house.said()
    assert [wire.path for wire in house.asked] == ["/1", "/2", "/3"]
    assert [entry for entry in house.paper.log if isinstance(entry, str)] == ["pause", "resume"]


@story
async def test_the_next_request_begins_only_when_the_last_reply_is_out(house: House) -> None:
    """Otherwise what it writes at once would come before a reply that still waits for the loop's next turn."""
    house.line.outbox = busy_outbox()
    house.line.data_received(get("/1"))
    house.asked[0].reply(200, [], b"one")
    house.line.data_received(get("/2"))
    assert len(house.asked) == 1
    await house.said()
    await house.said()
    house.asked[1].start(201, [])
    said = await house.said()
    assert said.index(b"one") < said.index(b"HTTP/1.1 201")


@story
async def test_after_a_reply_that_is_the_last_the_next_request_is_not_heard(house: House) -> None:
    house.line.data_received(get("/1", "connection: close") + get("/2"))
    house.asked[0].reply(200, [], b"")
    assert b"connection: close" in await house.said()
    assert house.paper.log[-1] == "close"
    assert len(house.asked) == 1


@story
async def test_a_lost_client_is_told_to_what_runs_and_to_what_waits(house: House) -> None:
    lost: list[str] = []
    house.line.data_received(get("/1") + get("/2"))
    house.asked[0].on_lost = lambda: lost.append("1")
    house.line.connection_lost(None)
    house.line.connection_lost(None)
    assert lost == ["1"]
    house.asked[0].reply(200, [], b"never")
    assert await house.said() == b""


@story
async def test_a_body_that_nobody_wants_is_not_kept(house: House) -> None:
    house.line.data_received(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\nab")
    wire = house.asked[0]
    wire.reply(413, [], b"")
    await house.said()
    house.line.data_received(b"cdefghi" + get("/2"))
    assert (wire.received, house.asked[1].path) == (2, "/2")


# -- how long it is kept ---------------------------------------------------------------------------------------------


class Timer:
    def __init__(self, hours: Hours, at: float, call: Callable[[], None]) -> None:
        self.hours, self.at, self.call = hours, at, call

    def cancel(self) -> None:
        self.hours.timers = [timer for timer in self.hours.timers if timer is not self]


class Hours:
    """A loop's clock and timers, moved by hand."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []
        self.call_soon = loop.call_soon
        self.create_future = loop.create_future

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self, self.now + delay, call))
        return self.timers[-1]

    def pass_until(self, time: float) -> None:
        while min(timer.at for timer in self.timers) <= time:
            self.ring()
        self.now = time

    def ring(self) -> None:
        """The next timer's time comes."""
        timer = min(self.timers, key=lambda timer: timer.at)
        timer.cancel()
        self.now = timer.at
        timer.call()


def with_hours(house: House) -> Hours:
    """A connection whose clock is moved by hand."""
    house.line.loop = hours = Hours(house.line.loop)  # type: ignore[assignment]
    house.line.connection_made(house.paper)  # type: ignore[arg-type]
    return hours


@story
async def test_an_idle_connection_is_closed_one_that_is_at_work_is_not(house: House) -> None:
    """Its one timer looks back: no request moves it."""
    house.line.loop = hours = Hours(house.line.loop)  # type: ignore[assignment]
    house.line.connection_made(house.paper)  # type: ignore[arg-type]
    house.line.data_received(get())
    hours.ring()
    assert (hours.now, house.paper.log) == (75, [])
    hours.now = 100
    house.asked[0].reply(200, [], b"")
    await house.said()
    hours.ring()
    assert ((hours.now, hours.timers[0].at), house.paper.closing) == ((150, 175), False)
    hours.ring()
    assert (hours.now, house.paper.log[-1]) == (175, "close")


@story
async def test_a_closing_connection_that_takes_nothing_is_aborted(house: House) -> None:
    house.line.loop = hours = Hours(house.line.loop)  # type: ignore[assignment]
    house.line.connection_made(house.paper)  # type: ignore[arg-type]
    house.paper.unsent = 1000
    hours.ring()
    assert house.paper.log == ["close"]
    house.paper.unsent = 400
    hours.ring()
    assert house.paper.log == ["close"], "it still takes something"
    hours.ring()
    assert house.paper.log == ["close", "abort"]


POST = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 999999\r\n\r\n"


@story
async def test_a_body_that_stops_coming_is_not_waited_for_for_ever(house: House) -> None:
    hours = with_hours(house)
    house.line.data_received(POST + b"abc")
    hours.ring()
    problem = house.asked[0].body_error
    assert problem is not None
    assert (hours.now, problem.status, problem.code) == (30, 408, "slow_upload")
    hours.ring()
    assert (hours.now, house.paper.log[-1]) == (75, "close"), "even if nobody asks for the body"


@story
async def test_a_body_may_take_as_long_as_it_comes_at_a_kilobyte_per_second(house: House) -> None:
    hours = with_hours(house)
    house.line.data_received(POST)
    for second in range(65):
        hours.pass_until(second)
        house.line.data_received(b"x" * 1100)
    hours.pass_until(89)
    assert house.asked[0].body_error is None
    hours.pass_until(90)
    assert house.asked[0].body_error is not None, "it stopped after a minute"
    assert house.bodies.held == 0


@story
async def test_who_waits_until_somebody_wants_its_body_is_not_slow(house: House) -> None:
    """It may have no turn yet: nothing of it is read then."""
    hours = with_hours(house)
    house.line.data_received(get("/1") + POST + b"abc")
    hours.ring()
    house.asked[0].reply(200, [], b"")
    await house.said()
    await house.said()
    [_, wire] = house.asked
    assert (hours.now, wire.body_error) == (30, None)
    hours.ring()
    assert (hours.now, wire.body_error is None) == (60, False)


@story
async def test_a_body_that_is_whole_is_not_looked_at(house: House) -> None:
    hours = with_hours(house)
    house.line.data_received(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\n\r\nab")
    house.line.data_received(b"cd")
    hours.ring()
    assert (hours.now, house.asked[0].body_error) == (75, None)


# -- the budget for all bodies ---------------------------------------------------------------------------------------


async def until_asked(exchange: HttpExchange, ends: asyncio.Event) -> None:
    await ends.wait()


@story
async def test_bytes_of_bodies_are_held_until_the_answer_is_over(house: House) -> None:
    ends = asyncio.Event()
    house.works = lambda wire: until_asked(wire, ends)
    house.line.data_received(POST + b"x" * 1000)
    house.line.data_received(b"x" * 500)
    assert house.bodies.held == 1500
    house.asked[0].take_body()
    assert house.bodies.held == 1500, "taken is not gone"
    house.line.connection_lost(None)
    assert house.bodies.held == 1500, "whoever answers has it still"
    ends.set()
    while house.state.tasks:
        await asyncio.sleep(0)
    assert house.bodies.held == 0


@story
async def test_a_body_beyond_the_budget_is_refused_and_what_came_of_it_let_go(house: House) -> None:
    house.bodies.resize(1000)
    house.line.data_received(POST + b"x" * 600)
    house.line.data_received(b"x" * 600)
    [wire] = house.asked
    assert (house.bodies.held, house.bodies.refused) == (0, 1)
    assert wire.body_error is not None
    assert (wire.body_error.status, wire.body_error.code, wire.body_error.retry_after) == (503, "body_budget", 5.0)
    house.line.data_received(b"x" * 600)
    assert (house.bodies.held, house.bodies.refused, wire.take_body()) == (0, 1, b"")


@story
async def test_a_body_announced_beyond_the_budget_is_refused_before_it_is_read(house: House) -> None:
    house.bodies.resize(1_000_000)
    house.line.data_received(POST)
    [wire] = house.asked
    wire.expect(999_999)
    assert wire.body_error is not None, "a sixteenth is kept for small ones"
    assert house.bodies.refused == 1


@story
async def test_what_is_kept_for_small_bodies_is_theirs(house: House) -> None:
    house.bodies.resize(1_600_000)
    house.bodies.take(1_500_000, is_small=False)
    house.line.data_received(POST + b"x" * 1000)
    assert (house.asked[0].body_error, house.bodies.held) == (None, 1_501_000)
    house.line.connection_lost(None)
    assert house.bodies.held == 1_500_000


@story
async def test_uploads_of_several_clients_share_what_a_turn_reads(house: House) -> None:
    """The one that comes when enough was read in this turn waits, however little it sent itself."""
    other, paper = house.another()
    for line in (house.line, other):
        line.data_received(POST)
    house.line.data_received(b"x" * MAX_BURST)
    other.data_received(b"x" * LARGE_READ)
    assert (house.paper.log, paper.log) == (["pause"], ["pause"])
    await asyncio.sleep(0)
    assert (house.paper.log, paper.log) == (["pause", "resume"], ["pause"]), "one in each turn"
    await asyncio.sleep(0)
    assert paper.log == ["pause", "resume"]
    other.connection_lost(None)


@story
async def test_a_client_that_left_while_its_upload_waited_is_not_read_again(house: House) -> None:
    house.line.data_received(POST + b"x" * MAX_BURST)
    house.paper.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "resume" not in house.paper.log


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_all_is_given_back(seed: int) -> None:
    """Pieces, turns, ends, errors, cancels, lost connections, in any order."""

    @story
    async def tell(house: House) -> None:
        chance = random.Random(seed)
        ends = asyncio.Event()

        async def work(exchange: HttpExchange) -> None:
            while not exchange.is_whole and exchange.body_error is None and not exchange.is_lost:
                await exchange.wait_for_more()
            body = exchange.take_body()
            match chance.randrange(4):
                case 0:
                    raise ValueError(f"broke with {len(body)} bytes")
                case 1:
                    await ends.wait()
                case 2:
                    await asyncio.sleep(0)
            if chance.random() < 0.3:
                exchange.close_after()
            exchange.reply(200, [], b"")

        def works(exchange: HttpExchange) -> Coroutine[Any, Any, None] | None:
            if chance.random() < 0.3:
                exchange.reply(200, [], b"")
                return None
            return work(exchange)

        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        house.works = works
        house.bodies.resize(5000)
        left = b"".join(
            b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n%b" % (size, b"x" * size)
            for size in (chance.randrange(3000) for _ in range(8))
        )
        is_lost = False
        while left and not is_lost and not house.paper.closing:
            size = chance.randrange(1, 2000)
            house.line.data_received(left[:size])
            left = left[size:]
            assert 0 <= house.bodies.held <= 5000
            if chance.random() < 0.3:
                await asyncio.sleep(0)
            if chance.random() < 0.1:
                for turn in list(house.state.tasks):
                    turn.cancel()
            is_lost = chance.random() < 0.05
        house.line.connection_lost(None)
        ends.set()
        for _ in range(5):
            await asyncio.sleep(0)
        for turn in list(house.state.tasks):
            turn.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert (house.bodies.held, len(house.state.tasks)) == (0, 0)

    tell()


@story
async def test_shutting_down_does_not_wait_for_a_body_that_is_not_here(house: House) -> None:
    house.line.data_received(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\nabc")
    house.line.shutdown()
    assert house.paper.log == ["close"]


@pytest.mark.parametrize(
    "endless",
    [
        b"GET /" + b"a" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000,
        b"GET / HTTP/1.1\r\na: " + b"b" * 100_000,
    ],
)
def test_a_head_without_end_is_refused(endless: bytes) -> None:
    @story
    async def tell(house: House) -> None:
        house.line.data_received(endless)
        assert b"400 Bad Request" in await house.said()
        assert house.asked == []

    tell()


@story
async def test_trailers_without_end_are_refused(house: House) -> None:
    house.line.data_received(b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n0\r\n")
    house.line.data_received(b"a: b\r\n" * 20_000)
    assert house.paper.closing


@pytest.mark.parametrize(
    "headers",
    [
        ("transfer-encoding: gzip, chunked",),
        ("transfer-encoding: identity", "transfer-encoding: chunked"),
        ("host: b",),
    ],
)
def test_codings_that_nobody_undoes_and_two_hosts_are_refused(headers: tuple[str, ...]) -> None:
    @story
    async def tell(house: House) -> None:
        house.line.data_received(get("/", *headers))
        assert b"400 Bad Request" in await house.said()
        assert house.asked == []

    tell()


@story
async def test_many_small_chunks_take_one_piece_per_read(house: House) -> None:
    house.line.data_received(b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(3):
        house.line.data_received(b"2\r\nab\r\n" * 100)
    [wire] = house.asked
    assert len(wire.pieces) == 3
    house.line.data_received(b"0\r\n\r\n")
    assert wire.take_body() == b"ab" * 300


@story
async def test_who_does_not_take_its_replies_gets_no_more_of_them(house: House) -> None:
    house.works = lambda wire: wire.reply(200, [], b"x")  # type: ignore[func-returns-value]
    house.line.pause_writing()
    house.line.data_received(get() * 3)
    assert house.asked == []
    assert "pause" in house.paper.log
    house.line.resume_writing()
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(house.asked) == 3


@story
async def test_many_offers_to_speak_another_protocol_in_one_read_are_all_passed_over(house: House) -> None:
    house.works = lambda wire: wire.reply(200, [], b"")  # type: ignore[func-returns-value]
    house.line.data_received(get("/", "connection: upgrade", "upgrade: h2c") * 1500)
    for _ in range(4000):
        await asyncio.sleep(0)
    assert len(house.asked) == 1500


@story
async def test_shutting_down_closes_an_idle_connection(house: House) -> None:
    house.line.shutdown()
    assert house.paper.log == ["close"]


@story
async def test_shutting_down_makes_the_reply_under_way_the_last(house: House) -> None:
    house.line.data_received(get() + get("/2"))
    house.line.shutdown()
    assert house.paper.log == ["pause"]
    house.asked[0].reply(200, [], b"")
    assert b"connection: close" in await house.said()
    assert house.paper.log[-1] == "close"
    assert len(house.asked) == 1


@story
async def test_the_server_knows_what_runs_until_it_has_ended(house: House) -> None:
    """It waits for its `tasks` when it shuts down, and cancels them when that takes too long."""
    done = asyncio.get_running_loop().create_future()
    house.works = lambda wire: through(wire, done)
    house.line.data_received(get())
    (turn,) = house.state.tasks
    done.set_result(None)
    await asyncio.sleep(0)
    assert turn not in house.state.tasks
    assert b"200" in await house.said()


async def through(exchange: HttpExchange, done: asyncio.Future[None]) -> None:
    await done
    exchange.reply(200, [], b"")


# -- a reply before the end of the body ------------------------------------------------------------------------------

UNFINISHED = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\nsome"


async def refused(house: House) -> None:
    house.line.data_received(UNFINISHED)
    house.asked[0].close_after()
    house.asked[0].reply(401, [], b"no")
    await house.said()


@story
async def test_the_rest_of_a_refused_body_is_read_and_thrown_away(house: House) -> None:
    await refused(house)
    assert house.paper.log[-1] == "eof"
    house.line.data_received(b" " * 96 + get("/another"))
    await house.said()
    assert (len(house.asked), house.paper.closing, house.bodies.held) == (1, False, 0)
    assert not house.line.is_idle, "it is no connection for another process"
    house.line.shutdown()
    assert house.paper.closing


@story
async def test_over_tls_the_rest_is_read_although_the_end_cannot_be_said(house: House) -> None:
    house.paper.can_half_close = False
    await refused(house)
    assert "eof" not in house.paper.log
    assert not house.paper.closing
    house.line.data_received(b" " * 96)


@story
async def test_a_body_that_was_not_read_any_more_is_read_on_to_its_end(house: House) -> None:
    house.works = lambda wire: wire.refuse_body()
    await refused(house)
    assert house.paper.log[-1] == "resume"


def test_a_large_body_is_kept_in_blocks_that_the_c_library_gives_back_when_they_are_freed() -> None:
    """Whatever sizes its pieces have, and whatever was taken meanwhile, it stays the same."""

    @story
    async def told(house: House) -> None:
        dice = random.Random(7)
        for largest, takes_parts in ((3_000, False), (300_000, False), (2_500_000, False), (900_000, True)):
            body, came = dice.randbytes(9 * 2**20), b""
            house.line.data_received(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n" % len(body))
            wire, at = house.asked[-1], 0
            while at < len(body):
                size = dice.randint(1, largest)
                house.line.data_received(body[at : at + size])
                at += size
                small = [len(piece) for piece in wire.pieces if len(piece) < 2**20]
                assert sum(small) < (2**20 if len(wire.pieces) > len(small) else 4 * 2**20) + largest
                if takes_parts and dice.random() < 0.2:
                    came += wire.take_body()
                    if dice.random() < 0.5:
                        wire.give_back_body()
            assert came + wire.take_body() == body
            wire.reply(200, [], b"")
            await house.said()

    told()


# -- who keeps others out ----------------------------------------------------------------------------------------------


@story
async def test_a_head_has_ten_seconds_in_all_however_often_some_of_it_comes(house: House) -> None:
    hours = with_hours(house)
    house.line.data_received(get()[:5])
    for second in range(1, 10):
        hours.pass_until(second)
        house.line.data_received(b"x")
    assert house.paper.log == []
    hours.pass_until(10)
    assert (await house.said()).startswith(b"HTTP/1.1 408 ")
    assert house.paper.closing


@story
async def test_a_head_that_came_in_time_is_answered_and_the_next_one_has_its_own_ten_seconds(house: House) -> None:
    hours = with_hours(house)
    for begin in (0, 9, 18):
        hours.pass_until(begin)
        house.line.data_received(get()[:5])
        hours.pass_until(begin + 8)
        house.line.data_received(get()[5:])
        house.asked[-1].reply(200, [], b"")
    assert not house.paper.closing
    hours.pass_until(60)
    assert not house.paper.closing


@story
async def test_a_head_behind_a_request_that_is_at_work_may_wait(house: House) -> None:
    hours = with_hours(house)
    house.line.data_received(get())
    house.line.data_received(get()[:5])
    hours.pass_until(40)
    assert not house.paper.closing
    house.asked[0].reply(200, [], b"")
    hours.pass_until(51)
    assert (await house.said()).endswith(b"did not come within 10 s.")


@story
async def test_who_asks_nothing_makes_room_for_who_asks(house: House) -> None:
    """First those without a whole head, then those between two requests; never one that is at work."""
    house.state.most = 4
    for line, paper in ((house.line, house.paper), house.another()):
        line.data_received(get())
        assert not paper.closing
    house.asked[0].reply(200, [], b"")
    slow = house.another()[1]
    house.another()[0].data_received(get()[:5])
    busy = house.asked[1]
    await asyncio.sleep(0.01)
    for _ in range(2):
        house.another()[0].data_received(get())
    assert slow.log == ["abort"]
    assert house.paper.log[-1] != "abort", "it has sent a request before"
    house.another()[0].data_received(get())
    assert house.paper.log[-1] == "abort", "all others are at work"
    assert not busy.is_lost
    newest = [house.another()[1] for _ in range(6)][-1]
    assert len(house.state.connections) <= 2 * house.state.most
    assert newest.log in ([], ["abort"])
    for one in list(house.state.connections):
        one.connection_lost(None)  # type: ignore[attr-defined]
    house.state.tasks.clear()


@story
async def test_the_control_socket_is_never_closed_for_others(house: House) -> None:
    house.line.is_local = True
    house.state.most = 1
    papers = [house.another()[1] for _ in range(4)]
    assert house.paper.log == []
    assert [paper.log for paper in papers[:-1]] == [["abort"]] * 3
    for one in list(house.state.connections):
        one.connection_lost(None)  # type: ignore[attr-defined]
