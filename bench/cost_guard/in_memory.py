"""Connections without sockets: what one side writes, the other one is handed in the next turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any


class MemoryTransport(asyncio.Transport):
    """One end. `receive(data)` gets what the protocol at this end writes, at once."""

    def __init__(self, protocol: asyncio.Protocol, receive: Callable[[bytes], None]) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self._protocol = protocol
        self._receive = receive
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self._receive(bytes(data))

    def writelines(self, pieces: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        for piece in pieces:
            self.write(piece)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        """The other end sends nothing before it is asked."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""


class Upstream:
    """One connection to the scripted serve. `answer` returns the reads of the reply to a complete request: each one is
    delivered in a turn of the loop of its own.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, answer: Callable[[], list[bytes]]) -> None:
        self._loop = loop
        self._answer = answer
        self._missing = 0
        self._reads: list[bytes] = []
        self.protocol: asyncio.Protocol = None  # type: ignore[assignment]  # set by `InMemoryLoop`

    def receive(self, data: bytes) -> None:
        if not self._missing:
            head, _, body = data.partition(b"\r\n\r\n")
            self._missing = int(head.rpartition(b"content-length: ")[2]) - len(body)
        else:
            self._missing -= len(data)
        if not self._missing:
            self._reads = self._answer()[::-1]
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        data = self._reads.pop()
        if self._reads:
            self._loop.call_soon(self._deliver)
        self.protocol.data_received(data)


class InMemoryLoop(asyncio.SelectorEventLoop):
    """`create_connection` leads to an `Upstream` that answers with `answer`."""

    answer: Callable[[], list[bytes]]

    async def create_connection(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        upstream = Upstream(self, lambda: self.answer())
        upstream.protocol = protocol = protocol_factory()
        transport = MemoryTransport(protocol, upstream.receive)
        protocol.connection_made(transport)
        return transport, protocol
