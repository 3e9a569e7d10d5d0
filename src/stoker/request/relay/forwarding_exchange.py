"""The client's side of a reply, seen or changed on its way: what such classes have in common."""

from __future__ import annotations

from collections.abc import Callable

from stoker.request.relay.reply import ReplyExchange


class ForwardingExchange:
    """Stands before another exchange, and passes on to it what is not about the reply's bytes."""

    def __init__(self, inner: ReplyExchange) -> None:
        self._inner = inner

    @property
    def inner(self) -> ReplyExchange:
        """The exchange that it stands before."""
        return self._inner

    @property
    def on_resume(self) -> Callable[[], None] | None:
        return self._inner.on_resume

    @on_resume.setter
    def on_resume(self, value: Callable[[], None] | None) -> None:
        self._inner.on_resume = value

    @property
    def is_paused(self) -> bool:
        return self._inner.is_paused

    def close_after(self) -> None:
        self._inner.close_after()

    def break_off(self) -> None:
        self._inner.break_off()
