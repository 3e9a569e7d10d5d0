"""The client's side of a summary on its way: the client gets a compaction item in its place.

1. of a stream pass comments and the events without content, by which the client sees that its request is under way
2. a reply that is no success passes
3. everything else of a reply with status 200 is dropped; whoever reads the summary sends what the client gets
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.request.codec.sse import data_of, parse, split
from stoker.request.relay.forwarding_exchange import ForwardingExchange
from stoker.request.relay.reply import ReplyExchange

_TYPE = b"content-type"
_PASSING = frozenset(("response.created", "response.queued", "response.in_progress", "response.failed", "error"))


class SilentReply(ForwardingExchange):
    """See the module's docstring. Behind a `ResponseCapture`, which passes on whole events only."""

    def __init__(self, inner: ReplyExchange) -> None:
        super().__init__(inner)
        self.is_stream = False
        """The client has the head of a stream."""
        self.has_dropped = False
        """A reply with status 200 has ended, and the client does not know it."""
        self._is_dropping = False

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None = None) -> None:
        headers = list(headers)
        self.is_stream = any(value.startswith(b"text/event-stream") for name, value in headers if name == _TYPE)
        self._is_dropping = status == 200 and not self.is_stream
        if not self._is_dropping:
            self._inner.start(status, headers, length)

    def write(self, data: bytes) -> None:
        if not self._is_dropping:
            self._inner.write(_passing(data) if self.is_stream else data)

    def finish(self, last: bytes = b"") -> None:
        if self._is_dropping:
            self.has_dropped = True
        else:
            self._inner.finish(_passing(last) if self.is_stream else last)

    def reply(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        if status == 200:
            self.has_dropped = True
        else:
            self._inner.reply(status, headers, body)


def _passing(data: bytes) -> bytes:
    """Comments, and the events without content."""
    return b"".join(frame for frame in split(data) if not data_of(frame) or _kind(frame) in _PASSING)


def _kind(frame: bytes) -> object:
    payload = parse(frame)
    return None if payload is None else payload.get("type")
