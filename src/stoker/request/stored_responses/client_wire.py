"""The connection to the client, as a wire that stands before it uses it."""

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
