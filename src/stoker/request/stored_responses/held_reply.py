"""The client's side of a reply that the client does not get: it is read, and another one is sent in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stoker.request.stored_responses.client_wire import ClientWire


class HeldReply:
    """Holds back a reply with status 200, in one piece or in several. Every other reply passes."""

    def __init__(self, wire: ClientWire, max_bytes: int) -> None:
        """`max_bytes`: of the body; a reply with a larger one is broken off."""
        self.body: bytes | None = None
        """The whole body; None: it has not come, or did not come to its end."""
        self._wire = wire
        self._max_bytes = max_bytes
        self._pieces: list[bytes] | None = None
        self._size = 0

    @property
    def on_resume(self) -> Callable[[], None] | None:
        return self._wire.on_resume

    @on_resume.setter
    def on_resume(self, value: Callable[[], None] | None) -> None:
        self._wire.on_resume = value

    @property
    def is_paused(self) -> bool:
        return self._wire.is_paused

    def close_after(self) -> None:
        self._wire.close_after()

    def break_off(self) -> None:
        self._pieces = None
        self._wire.break_off()

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None = None) -> None:
        if status == 200:
            self._pieces = []
        else:
            self._wire.start(status, headers, length)

    def write(self, data: bytes) -> None:
        if self._pieces is None:
            self._wire.write(data)
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size > self._max_bytes:
            self.break_off()

    def finish(self, last: bytes = b"") -> None:
        if self._pieces is None:
            self._wire.finish(last)
        else:
            self.body = b"".join((*self._pieces, last))

    def reply(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        if status == 200:
            self.body = body
        else:
            self._wire.reply(status, headers, body)
