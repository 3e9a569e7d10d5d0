"""Ends an attempt whose answer does not begin in time, so that another tier can be tried.

The time begins when the request is sent: waiting for a lease, a load or a swap does not count. When the time is over,
the engine is asked whether it is working (see `fleet.monitoring.engine_work`); while it is, the wait goes on, up to
`max_silence`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from stoker.domain.errors import FIRST_BYTE, UpstreamError
from stoker.request.relay.relay import Relay

IsWorking = Callable[[str], Awaitable[bool]]
"""Whether the engine of a serve is working, although no answer has begun."""


async def never_working(serve: str) -> bool:
    """An `IsWorking` for callers that cannot ask engines."""
    return False


class FirstByteTimer:
    """The timer of one attempt. `begin` with each request that is sent for it, `stop` when the attempt is over."""

    __slots__ = ("_is_working", "_loop", "_max_silence", "_probe", "_relay", "_seconds", "_sent", "_serve", "_timer")

    def __init__(self, serve: str, seconds: float, max_silence: float, is_working: IsWorking) -> None:
        """`max_silence`: seconds that a working engine may take; 0: no limit."""
        self._serve = serve
        self._seconds = seconds
        self._max_silence = max_silence
        self._is_working = is_working
        self._loop = asyncio.get_running_loop()
        self._relay: Relay | None = None
        self._sent = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._probe: asyncio.Task[None] | None = None

    def begin(self, relay: Relay) -> None:
        self.stop()
        self._relay = relay
        self._sent = self._loop.time()
        self._timer = self._loop.call_later(self._seconds, self._on_time)

    def stop(self) -> None:
        self._relay = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._probe is not None:
            self._probe.cancel()
            self._probe = None

    @property
    def is_over(self) -> bool:
        """Whether the timer no longer runs: the answer began, or the attempt ended."""
        return self._timer is None and self._probe is None

    def _on_time(self) -> None:
        self._timer = None
        if self._relay is not None and not self._relay.has_answered:
            self._probe = self._loop.create_task(self._extend_or_end(self._relay), name=f"first-byte-{self._serve}")

    async def _extend_or_end(self, relay: Relay) -> None:
        waited = self._loop.time() - self._sent
        works = (self._max_silence <= 0 or waited < self._max_silence) and await self._is_working(self._serve)
        self._probe = None
        if relay.has_answered or self._relay is not relay:
            return
        if works:
            self._timer = self._loop.call_later(self._seconds, self._on_time)
            return
        waited = self._loop.time() - self._sent
        text = f"serve '{self._serve}' began no answer within {waited:.1f} s (first_byte_timeout)"
        relay.end_with(UpstreamError(text, code=FIRST_BYTE, status=504))
