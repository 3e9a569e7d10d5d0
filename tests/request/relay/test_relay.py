"""The relay on fakes: whose connection it is, and what ends it, in every order in which callbacks can come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.errors import CapacityError, ClientError, ClientLeft, UpstreamError
from stoker.domain.lease import Target
from stoker.request.relay.relay import Limits, Relay
from stoker.request.relay.reply import Reply

NEVER = Limits(0.0, 0.0)
TARGET = Target("h", 1, "", "m")
SSE = [(b"content-type", b"text/event-stream")]
JSON = [(b"content-type", b"application/json")]
FRAME = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
ANSWER = b'{"choices":[{"message":{"content":"x"}}]}'


class Client:
    """A wire; slow when the test says so."""

    def __init__(self) -> None:
        self.is_lost = self.is_paused = False
        self.on_lost: Callable[[], None] | None = None
        self.on_resume: Callable[[], None] | None = None
        self.log: list[Any] = []

    def start(self, status: int, headers: Any, length: int | None = None) -> None:
        self.log.append(status)

    def write(self, data: bytes) -> None:
        self.log.append(data)

    def finish(self, last: bytes = b"") -> None:
        self.log.append(("finish", last))

    def reply(self, status: int, headers: Any, body: bytes) -> None:
        self.log.append(("reply", status, body))

    def break_off(self) -> None:
        self.log.append("break off")

    def close_after(self) -> None:
        self.log.append("close after")


class Line:
    """A connection that writes down what is done to it."""

    def __init__(self, is_reused: bool = False) -> None:
        self.is_reused = is_reused
        self.has_answered = False
        self.log: list[str] = []
        self.sent: list[bytes] = []

    def send(self, exchange: Relay, head: bytes, body: bytes) -> None:
        self.log.append("send")
        self.sent.append(head + body)

    def pause(self) -> None:
        self.log.append("pause")

    def resume(self) -> None:
        self.log.append("resume")

    def abort(self) -> None:
        self.log.append("abort")


class Lines:
    """A pool: `kept` first, then `new`; opening waits for `gate`."""

    def __init__(self, kept: Line | None = None) -> None:
        self.kept = kept
        self.new = Line()
        self.gate = asyncio.Event()
        self.gate.set()
        self.opened = 0

    def take_idle(self, target: Target) -> Line | None:
        return self.kept

    async def open(self, target: Target) -> Line:
        self.opened += 1
        await self.gate.wait()
        return self.new


class Scene:
    def __init__(
        self, kept: Line | None = None, limits: Limits = NEVER, dialect: Dialect | None = Dialect.CHAT
    ) -> None:
        self.now = 7.0
        self.client = Client()
        self.lines = Lines(kept)
        self.dialect = dialect
        reply = Reply(self.client, dialect, "req", asyncio.get_running_loop(), lambda: self.now)
        self.relay = Relay(reply, self.lines, limits)  # type: ignore[arg-type]

    async def run(self) -> None:
        try:
            await self.relay.send(TARGET, b"head", b"body", self.dialect)
        finally:
            self.relay.close()

    async def begin(self) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self.run())
        for _ in range(3):
            await asyncio.sleep(0)
        return task


def story(**options: Any) -> Callable[[Callable[[Scene], Coroutine[Any, Any, None]]], Callable[[], None]]:
    def decorate(tell: Callable[[Scene], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        async def played() -> None:
            async with asyncio.timeout(3):
                await tell(Scene(**options))

        def run() -> None:
            asyncio.run(played())

        run.__name__, run.__doc__ = tell.__name__, tell.__doc__
        return run

    return decorate


@story()
async def test_after_the_end_the_connection_is_not_touched(scene: Scene) -> None:
    """It is the pool's: by now it may carry somebody else's reply."""
    task = await scene.begin()
    scene.relay.on_head(200, SSE)
    scene.client.is_paused = True
    scene.relay.on_data(FRAME + DONE)
    resume = scene.client.on_resume
    assert resume is not None
    scene.relay.on_end()
    scene.relay.end_with(ClientLeft())
    scene.relay.cut("too late")
    resume()
    await task
    assert scene.lines.new.log == ["send", "pause"]
    assert scene.client.log == [200, FRAME + DONE, ("finish", b"")]


@story()
async def test_the_last_bytes_to_a_slow_client_do_not_pause_a_connection_given_back(scene: Scene) -> None:
    task = await scene.begin()
    scene.relay.on_head(200, SSE)
    scene.relay.on_data(FRAME + b"data: [DONE]")
    scene.client.is_paused = True
    scene.relay.on_end()
    await task
    assert scene.lines.new.log == ["send"]
    assert scene.client.log[-1] == ("finish", b"data: [DONE]\n\n")


@story()
async def test_a_slow_client_pauses_reading_until_it_takes_bytes_again(scene: Scene) -> None:
    task = await scene.begin()
    scene.relay.on_head(200, SSE)
    scene.client.is_paused = True
    scene.relay.on_data(FRAME)
    assert scene.lines.new.log == ["send", "pause"]
    scene.client.is_paused = False
    resume, was_told = scene.client.on_resume, scene.lines.new.log
    assert resume is not None
    resume()
    assert was_told == ["send", "pause", "resume"]
    assert getattr(scene.client, "on_resume") is None  # noqa: B009  (mypy holds on to what it knew)
    scene.relay.on_data(DONE)
    scene.relay.on_end()
    await task


@pytest.mark.parametrize("error", [ClientLeft(), CapacityError("cut", code="cut")])
def test_what_ends_it_aborts_the_connection_once(error: Exception) -> None:
    @story()
    async def tell(scene: Scene) -> None:
        task = await scene.begin()
        scene.relay.on_head(200, SSE)
        scene.relay.on_data(FRAME)
        scene.relay.end_with(error)
        scene.relay.end_with(RuntimeError("second"))
        with pytest.raises(type(error)):
            await task
        assert scene.lines.new.log == ["send", "abort"]

    tell()


@pytest.mark.parametrize("error", [ClientLeft(), CapacityError("cut", code="cut")])
def test_what_ends_it_between_two_attempts_is_not_lost(error: Exception) -> None:
    """The kept connection was stale, and the next one is not asked for yet."""

    async def played() -> None:
        scene = Scene(Line(is_reused=True))
        task = await scene.begin()
        scene.relay.on_broken("closed")
        scene.relay.end_with(error)
        with pytest.raises(type(error)):
            await task
        assert scene.lines.opened == 0

    asyncio.run(played())


@pytest.mark.parametrize("answered", [False, True])
def test_a_kept_connection_is_replaced_only_if_no_byte_came(answered: bool) -> None:
    async def played() -> None:
        kept = Line(is_reused=True)
        scene = Scene(kept)
        task = await scene.begin()
        kept.has_answered = answered
        scene.relay.on_broken("closed")
        await asyncio.sleep(0.001)
        if answered:
            with pytest.raises(UpstreamError, match="closed"):
                await task
        else:
            assert scene.lines.new.sent == kept.sent == [b"headbody"]
            scene.relay.on_head(200, [])
            scene.relay.on_data(ANSWER)
            scene.relay.on_end()
            await task
            assert scene.client.log == [("reply", 200, ANSWER)]
        assert scene.lines.opened == (not answered)

    asyncio.run(played())


@pytest.mark.parametrize("how", ["end", "cancel"])
def test_what_ends_it_while_the_connection_is_made_does_not_wait_for_it(how: str) -> None:
    @story()
    async def tell(scene: Scene) -> None:
        scene.lines.gate.clear()
        task = await scene.begin()
        if how == "end":
            scene.relay.end_with(ClientLeft())
        else:
            task.cancel()
        with pytest.raises(ClientLeft if how == "end" else asyncio.CancelledError):
            await task
        scene.lines.gate.set()
        await asyncio.sleep(0.001)
        assert scene.lines.new.log == [], "it was not even made"

    tell()


@story()
async def test_a_connection_that_comes_in_the_same_moment_is_closed(scene: Scene) -> None:
    scene.lines.gate.clear()
    task = await scene.begin()
    scene.lines.gate.set()
    scene.relay.end_with(ClientLeft())
    with pytest.raises(ClientLeft):
        await task
    assert scene.lines.new.log in (["abort"], [])
    assert "send" not in scene.lines.new.log


@story()
async def test_on_cancel_the_serve_sees_its_client_leave(scene: Scene) -> None:
    task = await scene.begin()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.lines.new.log == ["send", "abort"]


@story(limits=Limits(0.0, 0.02))
async def test_the_clients_own_silence_is_no_stall(scene: Scene) -> None:
    task = await scene.begin()
    scene.relay.on_head(200, SSE)
    scene.client.is_paused = True
    scene.relay.on_data(FRAME)
    await asyncio.sleep(0.06)
    assert not task.done()
    scene.client.is_paused = False
    assert scene.client.on_resume is not None
    scene.client.on_resume()
    with pytest.raises(UpstreamError, match="sent nothing"):
        await task


@pytest.mark.parametrize(
    ("dialect", "headers", "size"),
    [(Dialect.CHAT, SSE, 0), (Dialect.CHAT, JSON, 5_000_000), (None, JSON, 5_000_000), (None, SSE, 0),
     (Dialect.SPEECH, [(b"content-type", b"audio/wav")], 0)],
)  # fmt: skip
def test_a_client_that_reads_nothing_does_not_hold_its_place_for_ever(
    dialect: Dialect | None, headers: list[tuple[bytes, bytes]], size: int
) -> None:
    """Whatever flows to it: a stream, a whole answer too large to be kept, or what passes through unread."""

    @story(limits=Limits(0.0, 0.02, unread=0.04), dialect=dialect)
    async def tell(scene: Scene) -> None:
        task = await scene.begin()
        scene.relay.on_head(200, headers)
        scene.client.is_paused = True
        scene.relay.on_data(FRAME + b" " * size)
        assert scene.client.log[0] == 200
        with pytest.raises(ClientError, match="the client read nothing"):
            await task
        assert scene.lines.new.log[-1] == "abort"

    tell()


@story(limits=Limits(0.0, 0.02), dialect=None)
async def test_what_passes_through_unread_may_be_silent_as_long_as_it_likes(scene: Scene) -> None:
    task = await scene.begin()
    scene.relay.on_head(200, SSE)
    scene.relay.on_data(b"data: 1\n\n")
    await asyncio.sleep(0.06)
    assert not task.done()
    scene.relay.on_end()
    await task


@story(limits=Limits(0.0, 0.02))
async def test_a_large_answer_in_one_piece_that_comes_to_a_halt_is_ended_as_a_stream_is(scene: Scene) -> None:
    task = await scene.begin()
    scene.relay.on_head(200, JSON)
    scene.relay.on_data(b" " * 5_000_000)
    with pytest.raises(UpstreamError, match="sent nothing"):
        await task


@story()
async def test_too_much_before_the_first_meaningful_frame_flows(scene: Scene) -> None:
    task = await scene.begin()
    scene.relay.on_head(200, SSE)
    scene.relay.on_data(b": " + b"x" * 300_000 + b"\n\n")
    assert scene.client.log[0] == 200
    scene.relay.on_data(FRAME + DONE)
    scene.relay.on_end()
    await task


@story()
async def test_when_the_first_write_was_is_known_however_the_reply_comes(scene: Scene) -> None:
    task = await scene.begin()
    scene.relay.on_head(200, SSE)
    assert scene.relay.reply.first_byte_at is None
    scene.relay.on_data(FRAME)
    assert scene.relay.reply.first_byte_at == 7.0
    scene.now = 8.0
    scene.relay.on_data(DONE)
    scene.relay.on_end()
    await task
    assert scene.relay.reply.first_byte_at == 7.0
