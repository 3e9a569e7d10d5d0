"""The requests that came in, and how they ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import orjson

MAX_BODIES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request as it came. Header names are in lower case; `path` has its query."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first header of that name."""
        return next((value for found, value in self.headers if found == name.lower()), None)

    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass(slots=True)
class RequestCounters:
    """Inference requests by how they ended. `started` = `finished` + `disconnected` + `broken` + `in_flight`."""

    started: int = 0
    finished: int = 0
    """Answered to the end, errors included."""
    disconnected: int = 0
    """The client left before the end."""
    broken: int = 0
    """Ended by the script: `die_after`."""
    in_flight: int = 0
    peak: int = 0
    """Most in flight at once."""
    connections: int = 0
    """Open now."""
    paused: int = 0
    """Connections whose client does not read at present."""
    probes: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0


class RequestLog:
    """Keeps the counters and the last requests, and wakes callers that wait for a count."""

    def __init__(self) -> None:
        self.counters = RequestCounters()
        self._kept: deque[RecordedRequest] = deque()
        self._bytes = 0
        self._waiting: list[tuple[Callable[[RequestCounters], bool], asyncio.Future[None]]] = []

    @property
    def requests(self) -> list[RecordedRequest]:
        """Requests, oldest first, except those to /health and /control."""
        return list(self._kept)

    def keep(self, request: RecordedRequest, limit: int) -> None:
        self._kept.append(request)
        self._bytes += len(request.body)
        while self._kept and (len(self._kept) > limit or self._bytes > MAX_BODIES):
            self._bytes -= len(self._kept.popleft().body)

    def started(self) -> None:
        counters = self.counters
        counters.started += 1
        counters.in_flight += 1
        counters.peak = max(counters.peak, counters.in_flight)
        self.changed()

    def ended(self, how: str) -> None:
        """`how` is `finished`, `disconnected` or `broken`."""
        self.counters.in_flight -= 1
        setattr(self.counters, how, getattr(self.counters, how) + 1)
        self.changed()

    def changed(self) -> None:
        for waiter in [one for one in self._waiting if one[0](self.counters)]:
            self._waiting.remove(waiter)
            if not waiter[1].done():
                waiter[1].set_result(None)

    async def until(self, holds: Callable[[RequestCounters], bool], timeout: float) -> None:
        """Returns when the counters satisfy `holds`. Raises TimeoutError with the counters as they are."""
        if holds(self.counters):
            return
        waiter = (holds, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter[1]
        except TimeoutError:
            raise TimeoutError(f"the scripted server did not get there in {timeout:g} s: {self.counters}") from None
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def report(self) -> dict[str, int]:
        return asdict(self.counters)
