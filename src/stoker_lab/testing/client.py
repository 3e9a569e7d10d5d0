"""A raw HTTP/1.1 client for framing tests: it sends exactly the bytes given, and reads strictly."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

_NO_LINGER = struct.pack("ii", 1, 0)
_READ = 64 * 1024


class FramingError(Exception):
    """The peer sent something that HTTP/1.1 or SSE does not allow."""


@dataclass(frozen=True, slots=True)
class RawHead:
    """Status line and headers; names in lower case, in the order in which they came."""

    status: int
    headers: tuple[tuple[str, str], ...]

    def header(self, name: str) -> str | None:
        """The only header of that name. Raises FramingError if there are two."""
        found = [value for one, value in self.headers if one == name]
        if len(found) > 1:
            raise FramingError(f"{len(found)} headers {name}: {found}")
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class RawReply(RawHead):
    """A whole reply; the body without its HTTP framing, still encoded as `content-encoding` says."""

    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One SSE event, or one comment (`name` and `data` empty). `at` is the loop's time when its last byte was read."""

    name: str
    data: str
    at: float
    comment: str = ""

    def json(self) -> Any:
        return json.loads(self.data)


def compose_request(
    method: str, path: str, document: object = None, headers: Iterable[tuple[str, str]] = (), host: str = "127.0.0.1"
) -> bytes:
    """A well-formed request. With a document: its JSON, content-type and content-length."""
    body = b"" if document is None else json.dumps(document).encode()
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}", *(f"{name}: {value}" for name, value in headers)]
    if document is not None:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class RawClient:
    """One connection. Each call that waits raises TimeoutError after `timeout` seconds, naming what it waited for.

    `receive_buffer` sets the kernel's buffer in bytes: with a small one, a client that does not read pushes back soon.
    At most `limit` bytes are read from the socket ahead of the caller.
    """

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        timeout: float = 5.0,
        receive_buffer: int | None = None,
        limit: int = _READ,
    ) -> None:
        self._address = (host, port)
        self._timeout = timeout
        self._receive_buffer = receive_buffer
        self._limit = limit
        self._reader: asyncio.StreamReader = None  # type: ignore[assignment]  # set by connect
        self._writer: asyncio.StreamWriter = None  # type: ignore[assignment]

    async def connect(self) -> None:
        """Raises OSError if nothing listens there."""
        plain = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            plain.setblocking(False)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._receive_buffer is not None:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
            async with _within(self._timeout, "the connection"):
                await asyncio.get_running_loop().sock_connect(plain, self._address)
            self._reader, self._writer = await asyncio.open_connection(sock=plain, limit=self._limit)
        except BaseException:
            plain.close()
            raise

    # -- sending -------------------------------------------------------------------------------------------------

    async def send(self, data: bytes) -> None:
        """These bytes, no more and no less; returns when the kernel has taken most of them."""
        self._writer.write(data)
        async with _within(self._timeout, "the peer to read"):
            await self._writer.drain()

    def half_close(self) -> None:
        """Closes the sending side; the reply can still be read."""
        self._writer.write_eof()

    def abort(self) -> None:
        """Closes at once, with a TCP reset. A second call does nothing."""
        plain = self._writer.get_extra_info("socket")
        if plain.fileno() >= 0:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self._writer.transport.abort()

    async def close(self) -> None:
        """Closes in order. A second call does nothing."""
        self._writer.close()
        try:
            async with _within(self._timeout, "the connection to close"):
                await self._writer.wait_closed()
        except ConnectionError:
            return  # the peer broke the connection first

    # -- reading -------------------------------------------------------------------------------------------------

    async def read(self, size: int = _READ) -> bytes:
        """At most `size` raw bytes; empty once the peer has closed. Raises ConnectionError on a reset."""
        async with _within(self._timeout, "bytes"):
            return await self._reader.read(size)

    async def head(self) -> RawHead:
        """The next status line and headers, also those of `100 Continue`. Raises FramingError."""
        lines = []
        while line := await self._line("a head"):
            lines.append(line)
        if not lines or not lines[0].startswith("HTTP/1.1 ") or not lines[0][9:12].isdigit():
            raise FramingError(f"not a status line: {lines[:1]}")
        headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise FramingError(f"not a header: {line!r}")
            headers.append((name.lower(), value.strip()))
        return RawHead(int(lines[0][9:12]), tuple(headers))

    async def pieces(self, head: RawHead) -> AsyncIterator[bytes]:
        """The body as it comes: a piece per chunk, or per read. Raises FramingError if it is cut off."""
        coding, length = head.header("transfer-encoding"), head.header("content-length")
        if coding is not None and length is not None:
            raise FramingError("both transfer-encoding and content-length")
        if head.status in (204, 304) or head.status < 200:
            return
        if coding is not None:
            if coding.lower() != "chunked":
                raise FramingError(f"transfer-encoding: {coding}")
            while piece := await self._chunk():
                yield piece
        elif length is not None:
            left = _decimal(length)
            while left:
                piece = await self.read(min(left, _READ))
                if not piece:
                    raise FramingError(f"the body ended {left} bytes before its content-length")
                left -= len(piece)
                yield piece
        else:
            while piece := await self.read():
                yield piece

    async def body(self, head: RawHead) -> bytes:
        return b"".join([piece async for piece in self.pieces(head)])

    async def reply(self) -> RawReply:
        """The next whole reply; `100 Continue` is skipped."""
        head = await self.head()
        while head.status == 100:
            head = await self.head()
        return RawReply(head.status, head.headers, await self.body(head))

    async def ask(self, method: str, path: str, document: object = None, **headers: str) -> RawReply:
        """Sends one well-formed request and reads its reply; `_` in a header's name stands for `-`."""
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        await self.send(compose_request(method, path, document, named))
        return await self.reply()

    async def events(self, head: RawHead) -> AsyncIterator[SseEvent]:
        """The SSE events of a body, as they come. Raises FramingError."""
        async for event in read_events(self.pieces(head)):
            yield event

    async def _line(self, what: str) -> str:
        async with _within(self._timeout, what):
            try:
                line = await self._reader.readuntil(b"\r\n")
            except asyncio.IncompleteReadError as error:
                raise FramingError(f"the connection ended within {what}: {error.partial!r}") from None
            except asyncio.LimitOverrunError:
                raise FramingError(f"a line of {what} is longer than {self._limit} bytes") from None
        return line[:-2].decode("latin-1")

    async def _chunk(self) -> bytes:
        """One chunk; empty for the last one."""
        size = await self._line("a chunk's size")
        digits = size.partition(";")[0]
        if not digits or set(digits) - set("0123456789abcdefABCDEF"):
            raise FramingError(f"not a chunk's size: {size!r}")
        if int(digits, 16) == 0:
            if trailer := await self._line("the last chunk"):
                raise FramingError(f"an unexpected trailer: {trailer!r}")
            return b""
        async with _within(self._timeout, "a chunk"):
            try:
                data = await self._reader.readexactly(int(digits, 16) + 2)
            except asyncio.IncompleteReadError as error:
                raise FramingError(f"the connection ended within a chunk: {len(error.partial)} bytes") from None
        if not data.endswith(b"\r\n"):
            raise FramingError(f"a chunk does not end in CRLF: {data[-2:]!r}")
        return data[:-2]

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def read_events(pieces: AsyncIterator[bytes]) -> AsyncIterator[SseEvent]:
    """Reads SSE events from pieces of a body that are cut anywhere.

    Raises FramingError for: bytes after the last blank line, a line that is no field, two `event` lines in one event,
    an event without data, anything but a comment after `[DONE]`, text that is not UTF-8.
    """
    rest = b""
    is_done = False
    async for piece in pieces:
        at = asyncio.get_running_loop().time()
        rest += piece
        while b"\n\n" in rest:
            frame, _, rest = rest.partition(b"\n\n")
            event = _event(frame, at)
            if is_done and not event.comment:
                raise FramingError(f"an event after [DONE]: {frame!r}")
            is_done = is_done or event.data == "[DONE]"
            yield event
    if rest:
        raise FramingError(f"the stream ended within an event: {rest!r}")


def _event(frame: bytes, at: float) -> SseEvent:
    try:
        lines = frame.decode().split("\n")
    except UnicodeDecodeError as error:
        raise FramingError(f"not UTF-8: {error}") from None
    if all(line.startswith(":") for line in lines):
        return SseEvent("", "", at, comment="\n".join(line[1:].strip() for line in lines))
    names: list[str] = []
    data: list[str] = []
    for line in lines:
        field, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event" and colon:
            names.append(value)
        elif field == "data" and colon:
            data.append(value)
        elif field not in ("", "id", "retry") or not colon:
            raise FramingError(f"not a field of an event: {line!r}")
    if len(names) > 1 or not data:
        raise FramingError(f"{len(names)} names and {len(data)} data lines in one event: {frame!r}")
    return SseEvent(names[0] if names else "", "\n".join(data), at)


class _within:
    """A timeout whose error says what was waited for."""

    def __init__(self, seconds: float, what: str) -> None:
        self._timeout = asyncio.timeout(seconds)
        self._text = f"waited {seconds:g} s for {what}"

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise TimeoutError(self._text) from None


def _decimal(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise FramingError(f"content-length: {text!r}")
    return int(text)
