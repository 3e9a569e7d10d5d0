"""Writes the committed text of an orchestrated request to the client, in the client's dialect."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from stoker.domain.answer import (
    Answer,
    Began,
    BlockKind,
    Closed,
    Counted,
    Ended,
    Event,
    Finished,
    Grew,
    Opened,
    StopReason,
    Tokens,
)
from stoker.domain.prompt import Text
from stoker.request.codec.own_replies import stream_headers
from stoker.request.relay.reply import Reply
from stoker.request.translate.neutral.protocols import AnswerWriter, position_of


class ReplyWriter:
    """Streams, or collects what is sent as one reply at the end. Until the end, `close` has to be called."""

    def __init__(self, reply: Reply, writer: AnswerWriter, model: str, is_streamed: bool, keep_alive: float) -> None:
        """`keep_alive`: seconds between pings while nothing is committed; 0: none."""
        self._reply = reply
        self._writer = writer
        self._model = model
        self._is_streamed = is_streamed
        self._keep_alive = keep_alive
        self._has_begun = False
        self._texts: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        reply.position = partial(position_of, writer)

    def name_worker(self, serve: str) -> None:
        """Say in the reply's headers who writes; once they are out, only the decision says it."""
        self._reply.set_header(b"x-stoker-serve", serve.encode())

    def add(self, text: str) -> None:
        """More of the answer. Streamed: it goes out now."""
        if not self._is_streamed:
            self._texts.append(text)
            return
        events: list[Event] = [Grew(0, text)]
        if not self._has_begun:
            self._begin()
            events = [Began(self._reply.request_id, self._model), Opened(0, BlockKind.TEXT), *events]
        self._write(events)
        self._arm()

    def finish(self, stop: StopReason, tokens: Tokens) -> None:
        """The end of the answer."""
        self.close()
        if not self._is_streamed:
            answer = Answer(self._reply.request_id, self._model, [Text("".join(self._texts))], stop, tokens=tokens)
            body = msgspec.json.encode(self._writer.write_whole(answer))
            self._reply.begin()
            self._reply.send_whole(200, [(b"content-type", b"application/json")], body)
            return
        events: list[Event] = [Closed(0), Finished(stop), Counted(tokens), Ended()]
        if not self._has_begun:
            self._begin()
            events = [Began(self._reply.request_id, self._model), Opened(0, BlockKind.TEXT), *events]
        self._write(events)
        self._reply.finish()

    def close(self) -> None:
        """Send no more pings."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._has_begun = True
        if not self._reply.is_committed:
            self._reply.commit(200, list(stream_headers(self._reply.dialect)))
        self._reply.begin()

    def _write(self, events: list[Event]) -> None:
        self._reply.exchange.write(b"".join(self._writer.write(event) for event in events))

    def _arm(self) -> None:
        self.close()
        if self._keep_alive > 0:
            self._timer = self._reply.loop.call_later(self._keep_alive, self._ping)

    def _ping(self) -> None:
        self._timer = None
        if not self._reply.is_finished:
            self._reply.ping()
            self._arm()
