"""Ends a request whose answer does not begin in time, so that a fallback, a replica or another tier can be tried.

The time begins when the request is sent: waiting for a lease, a load or a swap does not count. It is the serve's own
`first_byte_timeout`, or what the plan says of the candidate: a tier's, while another tier is left (see
`request.decide.first_byte`). When it is over:

1. an answer has begun                              -> streams have a timer of their own (see `request.relay.relay`);
                                                       an answer in one piece may be silent for `stall_timeout`
2. no other tier is left, and bytes have come       -> it is alive, and pings: its time begins anew
3. the engine works (`fleet.monitoring.engine_work`) -> its time begins anew, until MAX_WORKING is over; while another
                                                       tier is left, until `stall_timeout` is (0: never)
4. else                                             -> the request ends with 504 `first_byte_timeout`

One timer serves all requests: it is set to the earliest moment at which any of them may be due, and looks at all then.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final

from stoker.domain.errors import FIRST_BYTE, UpstreamError
from stoker.domain.task import BYTES_PER_TOKEN
from stoker.exchange.request_context import RequestContext
from stoker.request.decide.first_byte import LEAST, MOST, WRITES, FirstByteTimes, first_byte_timeout
from stoker.request.decide.plan import PlanCandidate
from stoker.request.relay import faults
from stoker.request.relay.relay import Relay

MAX_WORKING: Final = 3600.0
"""Seconds that a working engine may take for the first byte, if no other tier is left."""

IsWorking = Callable[[str], Awaitable[bool]]
"""Whether the engine of a serve is working, although no answer has begun."""


async def never_working(serve: str) -> bool:
    """An `IsWorking` for callers that cannot ask engines."""
    return False


class _Wait:
    """A request that was looked at, and is not over."""

    __slots__ = ("candidate", "due", "probe", "received", "relay", "seconds", "since")

    def __init__(self, candidate: PlanCandidate, relay: Relay, seconds: float | None, since: float) -> None:
        self.candidate = candidate
        self.relay = relay
        self.since = since
        """When the request was sent."""
        self.seconds = math.inf if seconds is None else seconds
        self.due = since + self.seconds
        """When it is looked at again."""
        self.received = 0
        """Bytes of the answer at the last look."""
        self.probe: asyncio.Task[None] | None = None


class FirstByteWatch:
    """Watches every request from `begin` to `end`. In between, its call keeps its relay."""

    __slots__ = ("_due", "_is_working", "_loop", "_sent", "_stall_timeout", "_timer", "_times", "_waits")

    def __init__(self, is_working: IsWorking = never_working) -> None:
        self._is_working = is_working
        self._times: defaultdict[str, FirstByteTimes] = defaultdict(FirstByteTimes)
        self._loop = asyncio.get_running_loop()
        self._sent: dict[RequestContext, PlanCandidate] = {}
        """Requests that have not been looked at yet."""
        self._waits: dict[RequestContext, _Wait] = {}
        self._stall_timeout = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        """When the timer fires."""

    def configure(self, stall_timeout: float) -> None:
        self._stall_timeout = stall_timeout

    def usual(self, serve: str, streams: bool) -> float | None:
        """Seconds to the first byte of a serve's slower answers; None: too few are known."""
        times = self._times.get(serve)
        return None if times is None else times.usual(streams)

    # -- events --------------------------------------------------------------------------------------------------------

    def begin(self, context: RequestContext, candidate: PlanCandidate) -> None:
        """The request is being sent, by the call's relay."""
        self._sent[context] = candidate
        configured = candidate.serve.first_byte_timeout
        if self._timer is None or configured or candidate.first_byte_within:
            given = configured if candidate.first_byte_within is None else candidate.first_byte_within
            if given:
                self._wake_within(given)
            elif self._timer is None:
                self._wake_within(LEAST)

    def end(self, context: RequestContext, relay: Relay) -> None:
        """The request is over; it need not have begun."""
        candidate = self._sent.pop(context, None)
        if candidate is None:
            wait = self._waits.pop(context, None)
            if wait is None:
                return
            candidate = wait.candidate
            if wait.probe is not None:
                wait.probe.cancel()
        began_at, request = context.reply.first_byte_at, context.request
        if began_at is not None and relay.upstream_status == 200 and request is not None and context.media is None:
            times = self._times[candidate.serve.name]
            (times.streamed if request.fields.stream else times.whole).append(began_at - context.sent_at)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _wake_within(self, seconds: float) -> None:
        self._wake_at(self._loop.time() + seconds)

    def _wake_at(self, due: float) -> None:
        if due >= self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._on_time)

    def _on_time(self) -> None:
        self._timer, self._due = None, math.inf
        now = self._loop.time()
        sent, self._sent = self._sent, {}
        for call, candidate in sent.items():
            if (relay := call.relay) is not None:
                self._waits[call] = _Wait(candidate, relay, self._seconds(call, candidate), relay.sent_at or now)
        for call, wait in list(self._waits.items()):
            if wait.due <= now:
                wait.due = math.inf
                self._look(call, wait)
        due = min((wait.due for wait in self._waits.values()), default=math.inf)
        if due < math.inf:
            self._wake_at(due)

    def _seconds(self, context: RequestContext, candidate: PlanCandidate) -> float | None:
        serve = candidate.serve
        if candidate.first_byte_within is not None:
            return candidate.first_byte_within
        fields = None if context.request is None else context.request.fields  # None: it passes through unread
        streams = fields is not None and bool(fields.stream)
        output = fields.output_budget() if fields is not None and context.media is None else int(MOST * WRITES)
        prompt = context.exchange.received // BYTES_PER_TOKEN
        usual = self.usual(serve.name, streams)
        return first_byte_timeout(serve.first_byte_timeout, usual, prompt, output, streams)

    def _look(self, context: RequestContext, wait: _Wait) -> None:
        """Its time is over; the module's docstring has the cases."""
        relay, now = wait.relay, self._loop.time()
        has_grown = relay.received > wait.received
        wait.received = relay.received
        if relay.has_answered:
            if relay.has_own_timer or self._stall_timeout <= 0:
                return  # 1
            if has_grown:
                wait.due = now + self._stall_timeout
            else:
                relay.end_with(faults.stalled(self._stall_timeout))
        elif has_grown and wait.candidate.first_byte_within is None:
            wait.due = now + wait.seconds  # 2
        else:
            wait.probe = self._loop.create_task(self._extend_or_end(context, wait), name="first-byte")

    async def _extend_or_end(self, context: RequestContext, wait: _Wait) -> None:
        relay = wait.relay
        name = wait.candidate.serve.name if context.lease is None else context.lease.serve
        most = MAX_WORKING if wait.candidate.first_byte_within is None else self._stall_timeout
        waited = self._loop.time() - wait.since
        works = (most <= 0 or waited < most) and await self._is_working(name)
        wait.probe = None
        if self._waits.get(context) is not wait:
            return
        if works or relay.has_answered:
            wait.due = self._loop.time() + wait.seconds  # 3
            self._wake_at(wait.due)
            return
        waited = self._loop.time() - wait.since
        text = f"serve '{name}' began no answer within {waited:.1f} s (first_byte_timeout)"
        relay.end_with(UpstreamError(text, code=FIRST_BYTE, status=504))  # 4
