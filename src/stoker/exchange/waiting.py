"""Ends an attempt from which nothing of an answer came in time, so that another tier can be tried.

The time begins when the request is sent: what it waits for a lease, a load or a swap before that does not count. When
it is over, the engine is asked whether it works (see `fleet.engine_work`); as long as it does, the wait goes on, up to
`most`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from stoker.domain.errors import FIRST_BYTE, UpstreamError
from stoker.request.relay.relay import Relay

IsWorking = Callable[[str], Awaitable[bool]]


async def unknown(serve: str) -> bool:
    """For whoever cannot ask engines."""
    return False


class FirstByteTimer:
    """Of one attempt. `begin` with each request that is sent for it, `stop` when it is over."""

    __slots__ = ("_is_working", "_looking", "_loop", "_most", "_relay", "_seconds", "_sent", "_serve", "_timer")

    def __init__(self, serve: str, seconds: float, most: float, is_working: IsWorking) -> None:
        """`most`: seconds that an engine which works may take; 0: any."""
        self._serve = serve
        self._seconds = seconds
        self._most = most
        self._is_working = is_working
        self._loop = asyncio.get_running_loop()
        self._relay: Relay | None = None
        self._sent = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

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
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    @property
    def is_over(self) -> bool:
        """Whether nobody is waited for any more: the answer began, or the attempt was ended."""
        return self._timer is None and self._looking is None

    def _on_time(self) -> None:
        self._timer = None
        if self._relay is not None and not self._relay.has_answered:
            self._looking = self._loop.create_task(self._look(self._relay), name=f"first-byte-{self._serve}")

    async def _look(self, relay: Relay) -> None:
        waited = self._loop.time() - self._sent
        works = (self._most <= 0 or waited < self._most) and await self._is_working(self._serve)
        self._looking = None
        if relay.has_answered or self._relay is not relay:
            return
        if works:
            self._timer = self._loop.call_later(self._seconds, self._on_time)
            return
        waited = self._loop.time() - self._sent
        text = f"serve '{self._serve}' sent nothing of an answer for {waited:.1f} s (first_byte_timeout)"
        relay.end(UpstreamError(text, code=FIRST_BYTE, status=504))
