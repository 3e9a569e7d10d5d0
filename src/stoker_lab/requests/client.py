"""One request to one model, over raw HTTP, in any dialect: what came, and when. No client library stands between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from stoker.domain.answer import (
    Answer,
    Began,
    BlockKind,
    Closed,
    Counted,
    Event,
    Failed,
    Finished,
    Grew,
    Opened,
    StopReason,
)
from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.domain.lease import Target
from stoker.domain.prompt import Redacted, Refusal, Text, Thinking, ToolCall
from stoker.request.codec.sse import FrameSplitter
from stoker.request.codec.upstream_errors import is_error
from stoker.request.relay.headers import request_head
from stoker.request.relay.pool import ConnectionPool
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import loose
from stoker.request.translate.translate import answer_reader
from stoker_lab.requests.timing import RequestTiming

_JSON = (b"content-type", b"application/json")
_VERSION = (b"anthropic-version", b"2023-06-01")


class ModelReply(NamedTuple):
    timing: RequestTiming
    answer: Answer
    """The answer as far as it came, streamed or not."""
    body: Any
    """The JSON of an answer that was not streamed or of an error; else its text."""
    frames: list[bytes]
    """The data of each frame of a stream, `[DONE]` included."""
    raw: bytes = b""
    """The bytes of the body of an answer that was not streamed."""

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.answer.blocks if isinstance(block, Text))

    @property
    def thinking(self) -> str:
        return "".join(block.text for block in self.answer.blocks if isinstance(block, Thinking))

    @property
    def error_message(self) -> str:
        """The server's own message about an error; empty: there is none."""
        error = self.body.get("error", self.body.get("detail")) if isinstance(self.body, dict) else self.body
        text = error.get("message") if isinstance(error, dict) else error
        return str(text or "")

    @property
    def visible_text(self) -> str:
        """All readable output: thoughts, then text."""
        return self.thinking + self.text

    @property
    def calls(self) -> list[ToolCall]:
        return [block for block in self.answer.blocks if isinstance(block, ToolCall)]


class ModelClient:
    """A client of one model. Several requests may run at once.

    `clock` gives seconds; it is read in the socket's callback, so that nothing of ours stands between.
    """

    def __init__(
        self, target: Target, dialect: Dialect = Dialect.CHAT, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.target = target
        self.dialect = dialect
        self.clock = clock
        self._pool = ConnectionPool()

    def close(self) -> None:
        self._pool.close()

    async def ask(
        self,
        document: Mapping[str, Any],
        *,
        path: str | None = None,
        timeout: float = 600.0,
        scheduled: float | None = None,
        drop_after: int | None = None,
    ) -> ModelReply:
        """Send it (`model` is put in if it is not there) and read the whole reply. Never raises except on cancel,
        which closes the connection: whatever goes wrong is `timing.failure`.

        `drop_after`: hang up after this many chunks with tokens.
        """
        body = msgspec.json.encode({"model": self.target.served_name, **document})
        collector = _ReplyCollector(self.dialect, self.clock, drop_after)
        headers = [_JSON, *self.dialect.spec.needs_headers]
        head = request_head(b"POST", path or self.dialect.spec.path, self.target, headers, len(body), plain=True)
        connection = None
        try:
            async with asyncio.timeout(timeout):
                connection = await self._pool.open(self.target)
                collector.begin()
                connection.send(collector, head, body)
                await collector.done
        except UpstreamError as error:
            collector.fail(error.code)
        except TimeoutError:
            collector.fail("timeout")
        finally:
            if connection is not None and not collector.is_over:
                connection.abort()
        return collector.reply(scheduled)


class _ReplyCollector:
    def __init__(self, dialect: Dialect, clock: Callable[[], float], drop_after: int | None) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_over = False
        """Whether the reply has ended, complete or not."""
        self._clock = clock
        self._drop_after = drop_after
        self._reader = answer_reader(dialect, Losses())
        self._splitter = FrameSplitter()
        self._timed = RequestTiming(0.0, clock(), 0.0)
        self._blocks: dict[int, tuple[Opened, list[str]]] = {}
        self._answer = Answer("", "")
        self._frames: list[bytes] = []
        self._pieces: list[bytes] = []
        self._is_stream = False
        self._has_finished = False

    def begin(self) -> None:
        self._timed.t0 = self._clock()

    def fail(self, word: str) -> None:
        self._timed.failure = self._timed.failure or word
        self._timed.ended = self._clock()

    # -- the connection's callbacks --------------------------------------------------------------------------------

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._timed.status = status
        kind = dict(headers).get(b"content-type", b"").lower()
        self._is_stream = status == 200 and kind.startswith(b"text/event-stream")

    def on_data(self, data: bytes) -> None:
        now = self._clock()
        if not self._is_stream:
            self._pieces.append(data)
            return
        for frame in self._splitter.feed(data):
            self._frames.append(frame)
            payload = loose(frame) if frame != b"[DONE]" else None
            events = self._reader.finish(is_said=True) if frame == b"[DONE]" else []
            if isinstance(payload, dict):
                events = self._reader.read(payload)
            carried = False
            for event in events:
                carried = self._take(event) or carried
            if carried:
                self._note_chunk(now)
        if self._drop_after is not None and self._timed.chunks >= self._drop_after:
            self._over("dropped", is_over=False)

    def on_end(self) -> None:
        self.is_over = True
        timed = self._timed
        if self._is_stream:
            for event in self._reader.finish():
                self._take(event)
            if not self._has_finished:
                timed.failure = timed.failure or "broke_off"
        elif timed.status != 200:
            timed.failure = f"http_{timed.status}"
        else:
            self._take_whole()
        self._over("", is_over=True)

    def on_broken(self, reason: str) -> None:
        self._over("broke_off", is_over=True)

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _over(self, failure: str, is_over: bool) -> None:
        self.is_over = is_over
        self._timed.failure = self._timed.failure or failure
        self._timed.ended = self._clock()
        if not self.done.done():
            self.done.set_result(None)

    def _note_chunk(self, now: float) -> None:
        timed = self._timed
        if timed.last_token_at is not None:
            timed.gaps.append(now - timed.last_token_at)
        timed.last_token_at = now
        timed.chunks += 1
        if timed.first_token_at is None:
            timed.first_token_at = now
        if timed.first_output_at is None and self._has_output():
            timed.first_output_at = now

    def _has_output(self) -> bool:
        return any(opened.kind is not BlockKind.THINKING for opened, _ in self._blocks.values())

    def _take(self, event: Event) -> bool:
        match event:
            case Grew(at=at, text=text):
                if at in self._blocks:
                    self._blocks[at][1].append(text)
                return True
            case Opened(at=at, kind=kind):
                self._blocks[at] = (event, [])
                return kind is BlockKind.CALL
            case Began(id=id, model=model, tokens=tokens):
                self._answer.id, self._answer.model = id, model
                if tokens is not None:
                    self._timed.tokens.update(tokens)
            case Counted(tokens=tokens):
                self._timed.tokens.update(tokens)
            case Finished(stop=stop, sequence=sequence):
                self._has_finished = True
                self._answer.stop, self._answer.sequence = stop, sequence
            case Failed(error=error):
                self._timed.failure = error.code
            case Closed():
                pass
        return False

    def _take_whole(self) -> None:
        payload = loose(b"".join(self._pieces))
        if not isinstance(payload, dict) or is_error(payload):
            self._timed.failure = "no_answer"
            return
        self._answer = self._reader.read_whole(payload)
        self._has_finished = True
        self._timed.tokens.update(self._answer.tokens)

    def reply(self, scheduled: float | None) -> ModelReply:
        timed, answer = self._timed, self._answer
        timed.scheduled = timed.t0 if scheduled is None else scheduled
        if self._blocks:
            answer.blocks = [_block(opened, "".join(texts)) for opened, texts in self._blocks.values()]
        answer.tokens = timed.tokens
        timed.stop = (answer.stop if self._has_finished else StopReason.END).value if timed.is_ok else ""
        raw = b"".join(self._pieces)
        return ModelReply(timed, answer, None if self._is_stream else _document(raw), self._frames, raw)


def _block(opened: Opened, text: str) -> Text | Thinking | Redacted | Refusal | ToolCall:
    match opened.kind:
        case BlockKind.TEXT:
            return Text(text)
        case BlockKind.THINKING:
            return Thinking(text)
        case BlockKind.REDACTED:
            return Redacted(text)
        case BlockKind.REFUSAL:
            return Refusal(text)
    return ToolCall(opened.id, opened.name, text, opened.custom)


def _document(body: bytes) -> Any:
    found = loose(body)
    return body.decode("utf-8", "replace") if found is None else found
