"""One request under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, cast

from stoker.access.quota import Charge
from stoker.domain.conversation import SequenceLease
from stoker.domain.decision import Decision
from stoker.domain.errors import CapacityError, ClientLeft
from stoker.domain.lease import NOBODY, FairShare, Lease, PendingLease
from stoker.domain.protocols import Leases
from stoker.domain.replica_wish import NO_WISH, ReplicaWish
from stoker.domain.session import Session
from stoker.domain.trace import RequestTrace, Try
from stoker.domain.usage import MediaUnits, ServeUsage
from stoker.exchange.formatter import UpstreamRequest
from stoker.exchange.leasing import granted
from stoker.exchange.waiting_bodies import WaitingBodies
from stoker.request.accept.bodies import BodyWorker
from stoker.request.accept.connection import HttpExchange
from stoker.request.accept.upload import Upload
from stoker.request.relay.relay import Relay, ServeConnections
from stoker.request.relay.reply import Reply, ReplyExchange

Result = TypeVar("Result")


class Recording(Protocol):
    """What an extension records of one request: see `exchange.recording`."""

    def connections(self, serve: str, pool: ServeConnections) -> ServeConnections:
        """A serve or replica is about to be called: the connections that the call may use, which are `pool`'s."""


class RequestContext:
    """One request, and everything that belongs to it. `end` stops it, whatever it is waiting for."""

    __slots__ = (
        "_body_worker",
        "_waiting_bodies",
        "charge",
        "decision",
        "ending",
        "exchange",
        "is_abandoned",
        "is_answer_read",
        "is_heavy",
        "lease",
        "max_context",
        "may_be_preempted",
        "media",
        "notes",
        "passed_on",
        "received_at",
        "recording",
        "relay",
        "reply",
        "request",
        "sent_at",
        "sequence_lease",
        "share",
        "subtask",
        "token_count",
        "trace",
        "upload",
        "usages",
        "waiting",
        "was_answered",
    )

    def __init__(
        self,
        exchange: HttpExchange,
        reply: Reply,
        decision: Decision,
        received_at: float,
        body_worker: BodyWorker,
        waiting_bodies: WaitingBodies,
    ) -> None:
        self.exchange = exchange
        self.reply = reply
        self.decision = decision
        self.received_at = received_at
        self._body_worker = body_worker
        self._waiting_bodies = waiting_bodies
        self.lease: Lease | None = None
        self.waiting: PendingLease | None = None
        self.subtask: asyncio.Task[Any] | None = None
        """Work that has to end before the request can be sent: a question to the engine, or a download."""
        self.token_count: tuple[str, int | None] = ("", None)
        """The serve that counted the prompt, and its tokens."""
        self.sequence_lease: SequenceLease | None = None
        """The kept conversation that this request continues."""
        self.relay: Relay | None = None
        self.request: UpstreamRequest | None = None
        """What `relay` sends; None: it passes on unread what it sends."""
        self.passed_on: int | None = None
        """Bytes of a request for an answer that it passes on unread."""
        self.sent_at = 0.0
        """When a serve was last called, by the clock."""
        self.charge: Charge | None = None
        """What it has reserved of its key's limits; None: the key has none."""
        self.share: FairShare = NOBODY
        self.max_context: int | None = None
        """Most tokens of prompt and answer that its key may use; None: as many as the serve."""
        self.notes: tuple[str, ...] = ()
        """What was changed in the body because of the key's settings."""
        self.media: MediaUnits | None = None
        """What it asks for, if it is about audio or images."""
        self.usages: list[ServeUsage] = []
        """What the serves used, one entry for each call of a serve that ended."""
        self.may_be_preempted = False
        """The client allows its lease to be taken away for a request of a higher priority."""
        self.trace: RequestTrace | None = None
        """None: telemetry is off."""
        self.recording: Recording | None = None
        """None: nobody records its content."""
        self.upload: Upload | None = None
        """The form that the client sent; None: its body is no form."""
        self.is_heavy = False
        """The body is so large that all work on it goes to a thread."""
        self.is_answer_read = False
        """Stoker reads the answer on its way to the client, so the serve may not compress it."""
        self.was_answered = False
        """The client got the end of the answer, though it hung up before that was noticed."""
        self.is_abandoned = False
        """The client has left."""
        self.ending: Exception | None = None
        """What the request was ended with; None: it goes on."""

    @property
    def sent_headers(self) -> list[tuple[bytes, bytes]]:
        """The client's headers, as the next serve gets them."""
        given = self.exchange.raw_headers
        return given if self.trace is None else self.trace.sent_headers(given)

    def begin_try(self, trace: RequestTrace, lease: Lease, is_checked: bool) -> None:
        """A serve is called: `sent_at` is the time."""
        target = lease.target
        one = Try(lease.serve, target.host, target.port, target.served_name, self.sent_at, is_checked)
        one.granted_at, one.waited = lease.granted_at, lease.waited
        trace.tries.append(one)

    def read_answer(self, wire: ReplyExchange) -> None:
        """Send the reply through `wire`, which reads it. Nothing was sent yet."""
        self.is_answer_read = True
        self.reply.send_through(wire)

    # -- waiting: the call knows what it waits for, so that `end` can stop it -----------------------------------------

    async def process(self, work: Callable[..., Result], *args: Any) -> Result:
        """Run work whose time grows with the size of the request: on the thread for bodies if the request is heavy.

        Raises what `work` raises, or what the request was ended with meanwhile.
        """
        if not self.is_heavy:
            return work(*args)
        found = await self._body_worker.run(lambda: None if self.ending is not None else work(*args))
        self.raise_if_ended()
        return cast(Result, found)

    async def run_blocking(self, work: Callable[..., None], *args: Any) -> None:
        """Run work that may block on the thread for bodies. It ends even if the request is ended meanwhile."""
        await self._body_worker.run(lambda: work(*args))

    async def run_cancellable(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Await `work` in a task of its own, which `end` can cancel without cancelling the request's own task."""
        try:
            self.subtask = task = asyncio.get_running_loop().create_task(work)
            return await task
        except asyncio.CancelledError:
            self.raise_if_ended()  # `end` cancelled the subtask: raise its error instead
            raise
        finally:
            self.subtask = None

    def lease_now(
        self, leases: Leases, serve: str, takes_place: bool = True, wish: ReplicaWish = NO_WISH
    ) -> Lease | None:
        """Acquire a lease if one is free; else queue for one and return None: `wait_for_lease` waits for it."""
        self.raise_if_ended()
        acquired = leases.acquire(serve, takes_place, self.share, self._body_bytes, wish)
        if isinstance(acquired, Lease):
            self.lease = acquired
            return acquired
        self.waiting = acquired
        return None

    async def wait_for_lease(self) -> Lease:
        """The lease that `lease_now` queued for. Raises what ended the wait, and CapacityError if
        the bodies of waiting requests take too much memory. On cancel the position is given up.
        """
        waiting, size = self.waiting, self._body_bytes
        assert waiting is not None
        try:
            self._waiting_bodies.hold(size)
        except CapacityError:
            self.stop_waiting()
            raise
        try:
            lease = self.lease = await granted(waiting)
        finally:
            self.waiting = None
            self._waiting_bodies.release(size)
        if lease.waited:
            self.decision.queued = (self.decision.queued or 0.0) + lease.waited
        self.raise_if_ended()
        return lease

    def join_session(self, session: Session) -> None:
        """It belongs to this session."""
        self.decision.session = session.id
        self.share = self.share._replace(session=session)

    @property
    def _body_bytes(self) -> int:
        """Of the body, in memory."""
        return self.exchange.received if self.upload is None else self.upload.held

    def stop_waiting(self) -> None:
        """Give up the position in the queue, if there is one."""
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None

    # -- ending ------------------------------------------------------------------------------------------------------

    def end(self, error: Exception) -> None:
        """End the request: at once if it waits or talks to a serve, else at its next step."""
        if self.ending is None:
            self.ending = error
        if self.relay is not None:
            self.relay.end_with(error)
        elif self.waiting is not None and not self.waiting.done():
            self.waiting.set_exception(error)
        elif self.subtask is not None:
            self.subtask.cancel()

    def cut(self, reason: str) -> None:
        """End the request because its lease was taken away before the serve was called."""
        self.end(CapacityError(f"Stoker ended the request: {reason}", code="cut"))

    def leave(self) -> None:
        """End the request because the client is gone."""
        self.is_abandoned = True
        self.end(ClientLeft())

    def raise_if_ended(self) -> None:
        """Raise what the request was ended with, if it was ended."""
        if self.ending is not None:
            raise self.ending
