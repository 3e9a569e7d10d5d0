"""What the last requests and answers said, within a bound of bytes. Pure, and in memory only.

1. one body, either way, has at most a sixteenth of the memory, and what belongs to one request a quarter of it: what
   is longer is cut there, and says so
2. if all together have more than the memory, the oldest request goes, whether or not it is over
3. what still comes for a request that has gone is dropped
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

OF_ONE_BODY = 16
OF_ONE_REQUEST = 4
OVERHEAD = 2048
"""Bytes that a request, and each call of a serve, count beside what they say."""
LONGEST_LINE = 2048
SHORT_LINE = 64
"""Characters of a line that are in OVERHEAD: a status is always kept."""
Headers = Sequence[tuple[str, str]]


class Message:
    """A request or an answer."""

    __slots__ = ("_capture", "_head", "body", "is_elsewhere", "line", "size")

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self.line = ""
        """`POST /v1/chat/completions`, or the status; empty: it has not come. At most LONGEST_LINE of it."""
        self._head = ""
        """The headers, a line for each name and each value: as tuples they would need three times the memory."""
        self.body = bytearray()
        """The beginning of it."""
        self.size = 0
        """Bytes of the whole body."""
        self.is_elsewhere = False
        """Its body is a form with files, of which nothing is kept."""

    @property
    def is_cut(self) -> bool:
        return self.size > len(self.body)

    @property
    def headers(self) -> Headers:
        lines = self._head.split("\n")
        return list(zip(lines[::2], lines[1::2], strict=False))

    def begin(self, line: str, headers: Headers) -> None:
        """It begins; one that began before is forgotten."""
        self.forget()
        line = line[:LONGEST_LINE]
        self.line = line[: SHORT_LINE + self._capture.take(len(line) - SHORT_LINE)]
        head = "\n".join(text for header in headers for text in header)
        if self._capture.take(len(head)) == len(head):
            self._head = head

    def write(self, data: bytes | memoryview) -> None:
        """More of its body."""
        self.size += len(data)
        kept = self._capture.take(min(len(data), self._capture.body_limit - len(self.body)))
        if kept > 0:
            self.body += data[:kept]

    def forget(self) -> None:
        self.line, self._head, self.body, self.size = "", "", bytearray(), 0


class Call:
    """One call of a serve."""

    __slots__ = ("answer", "request", "serve")

    def __init__(self, capture: Capture, serve: str) -> None:
        self.serve = serve
        self.request = Message(capture)
        self.answer = Message(capture)


class Capture:
    """One request. `facts`: whatever is known of it besides."""

    __slots__ = ("_store", "answer", "bytes", "calls", "facts", "is_kept", "more_calls", "request")

    def __init__(self, store: CaptureStore, facts: object) -> None:
        self._store = store
        self.facts = facts
        self.bytes = 0
        self.is_kept = True
        self.request = Message(self)
        """As the client sent it."""
        self.answer = Message(self)
        """As the client got it."""
        self.calls: list[Call] = []
        self.more_calls = 0
        """Calls for which there was no room."""

    @property
    def body_limit(self) -> int:
        return self._store.limit // OF_ONE_BODY

    def call(self, serve: str) -> Call:
        """A serve is called."""
        call = Call(self, serve)
        if self.take(OVERHEAD) == OVERHEAD:
            self.calls.append(call)
        else:
            self.more_calls += 1
        return call

    def take(self, size: int) -> int:
        """How many of so many bytes may be kept. They count from now on."""
        if not self.is_kept:
            return 0
        taken = max(0, min(size, self._store.limit // OF_ONE_REQUEST - self.bytes))
        self.bytes += taken
        self._store.grow(taken)
        return taken

    def drop(self) -> None:
        """It is not kept any more."""
        self.is_kept = False
        for message in (
            self.request,
            self.answer,
            *(one for call in self.calls for one in (call.request, call.answer)),
        ):
            message.forget()
        self.calls.clear()


class CaptureStore:
    """`limit`: bytes; 0: nothing is kept."""

    def __init__(self) -> None:
        self.limit = 0
        self.used = 0
        self._captures: dict[str, Capture] = {}
        """By the request's id, the oldest first."""

    def __len__(self) -> int:
        return len(self._captures)

    def newest(self) -> Iterable[tuple[str, Capture]]:
        return reversed(self._captures.items())

    def get(self, request: str) -> Capture | None:
        return self._captures.get(request)

    def open(self, request: str, facts: object) -> Capture:
        """A request begins. One before it with the same id goes."""
        self._drop(request)
        capture = self._captures[request] = Capture(self, facts)
        capture.take(OVERHEAD)
        return capture

    def resize(self, limit: int) -> None:
        """With 0, everything goes."""
        self.limit = limit
        self.grow(0)

    def grow(self, size: int) -> None:
        """So many bytes more are kept."""
        self.used += size
        while self.used > self.limit and self._captures:
            self._drop(next(iter(self._captures)))

    def _drop(self, request: str) -> None:
        capture = self._captures.pop(request, None)
        if capture is not None:
            self.used -= capture.bytes
            capture.drop()
