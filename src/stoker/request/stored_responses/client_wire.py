"""The connection to the client, as a wire that stands before it uses it, and what such a wire only hands on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol


class ClientWire(Protocol):
    """The request's connection to its client: see `relay.reply.ReplyWire`."""

    on_resume: Callable[[], None] | None

    @property
    def is_paused(self) -> bool: ...

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None = None) -> None: ...

    def write(self, data: bytes) -> None: ...

    def finish(self, last: bytes = b"") -> None: ...

    def reply(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None: ...

    def break_off(self) -> None: ...

    def close_after(self) -> None: ...


class WireBefore:
    """A wire that stands before another one. It hands on all that is not about the reply's bytes."""

    def __init__(self, wire: ClientWire) -> None:
        self._wire = wire

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
        self._wire.break_off()
