"""What a streaming chat client sees while its model loads: short lines of thinking, `front_door.loading`."""

from __future__ import annotations

from stoker.domain.protocols import Clock, Leases
from stoker.exchange.request_context import RequestContext
from stoker.request.codec.own_replies import reasoning_event


class LoadingNotes:
    """Of one request. Nothing that reads the answer (checks, usage, records) sees these lines."""

    def __init__(self, context: RequestContext, leases: Leases, clock: Clock) -> None:
        self._context = context
        self._leases = leases
        self._clock = clock

    def next_event(self) -> bytes:
        """What the request waits for now; empty: not for a load."""
        context, serve = self._context, self._context.decision.serve
        progress = self._leases.load_progress(serve) if context.waiting is not None and serve else ""
        if not progress:
            return b""
        seconds = self._clock.now() - context.received_at
        text = f"{serve} {progress} ({seconds:.0f} s)\n"
        return reasoning_event(text, context.decision.model, context.decision.id, int(self._clock.wall()))
