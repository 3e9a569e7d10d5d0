"""Carries out a plan: asks one candidate after the other, until one answers or the client has a part of an answer.

    prepare   the request as this serve gets it; a load or a token count ends here; does the prompt fit
    lease     at once or after a wait; which replica
    send      the answer goes to the client
    judge     after a failure, `request.decide.plan` says what follows: the same serve again, another replica, the next
              candidate, or the end
    record    if the first candidate does not answer, the decision keeps each attempt

Every attempt takes one lease, which is given back before the next attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from stoker.domain.decision import Attempt, Candidate
from stoker.domain.dialect import Endpoint
from stoker.domain.errors import (
    BEYOND_THE_DEVICE,
    REJECTED,
    ContextExceeded,
    OutputLimitTooHigh,
    StokerError,
    UpstreamError,
)
from stoker.domain.replica_wish import NO_WISH
from stoker.domain.serve import Serve
from stoker.exchange.counting import lower_output_limit
from stoker.exchange.formatter import UpstreamRequest
from stoker.exchange.request_context import RequestContext
from stoker.exchange.upstream_client import PASSED_ON, AnswerReading, UpstreamClient
from stoker.request.codec.body_fields import BodyFields
from stoker.request.codec.upstream_errors import recorded_code
from stoker.request.decide.context import may_exceed
from stoker.request.decide.plan import Next, Plan, PlanCandidate, Standing, after_failure, is_busy, leaves

EXIT_NOTICED_WITHIN = 0.05
"""Seconds after which the exit of a serve's process has been noticed: a lease taken then starts it again."""

LONGEST_PAUSE = 5.0
"""Seconds that a busy serve gets before it is asked to go on with an answer."""


class AttemptHooks(Protocol):
    """What the maker of a plan does around its attempts, for one request."""

    attempts: list[Attempt]
    """Where they are recorded."""
    excluded: Sequence[Candidate]
    """Serves that were considered, and are not in the plan."""

    @property
    def is_pinned(self) -> bool:
        """No other candidate may be asked any more, even if the client has nothing of an answer."""

    def begin(self, candidate: PlanCandidate, attempt: Attempt) -> None:
        """A candidate is about to be asked. Raises the StokerError with which its attempt fails."""

    async def reading(self, request: UpstreamRequest) -> AnswerReading:
        """How the answer is to be read. The request is about to be sent."""

    def can_repair(self, request: UpstreamRequest, has_begun: bool) -> bool:
        """The answer was rejected, or a pinned request exceeds the context: whether it can be asked for once more.
        `has_begun`: the client has its beginning.
        """

    async def repair(self, request: UpstreamRequest) -> UpstreamRequest | None:
        """The request with what was found wrong, or with what the tools said that the answer called; None: the client
        has a whole answer already. No lease is held. Raises StokerError, and what ended the request.
        """

    def end(self, error: StokerError | None, retry_after: float | None) -> None:
        """The attempt is over and holds nothing any more; its outcome is recorded. `error`: why it failed, or with what
        the serve refused. `retry_after`: the pause in seconds that the serve asked for.
        """


class Progress:
    """Where a request stands in its plan."""

    __slots__ = ("has_room", "is_answered", "log", "place", "replica", "request", "standing", "wish")

    def __init__(self, standing: Standing, place: int = 0, log: AttemptLog | None = None) -> None:
        self.standing = standing
        self.place = place
        """Of the candidate."""
        self.log = log
        self.replica = ""
        """The replica that failed, if its lease is given back already."""
        self.request: UpstreamRequest | None = None
        """As the candidate gets it; None: it is not formatted yet."""
        self.has_room = False
        """Prompt and answer are known to fit the context, or there is no telling."""
        self.is_answered = False
        """The client has a whole answer."""
        self.wish = NO_WISH


class Attempts:
    """Used by all requests."""

    def __init__(self, upstream_client: UpstreamClient) -> None:
        self._upstream_client = upstream_client

    async def carry_out(
        self, context: RequestContext, plan: Plan, endpoint: Endpoint, fields: BodyFields, body: bytes,
        hooks: AttemptHooks | None = None,
    ) -> None:  # fmt: skip
        """Answers the request. Raises what the last candidate failed with, or what ended the request."""
        client, reading = self._upstream_client, PASSED_ON
        leases = client.leases
        candidate, has_next = plan[0], len(plan) > 1
        request: UpstreamRequest | None = None
        has_room, wish = False, NO_WISH
        at: Progress | None = None  # a request whose first attempt succeeds, and could not go elsewhere, needs none
        if hooks is not None:
            at = Progress(Standing(candidate, has_next), log=AttemptLog(context, hooks.attempts, client.now, hooks))
        try:
            while True:
                serve = candidate.serve
                try:
                    if request is None:
                        if at is not None and at.log is not None and not at.log.is_open:
                            at.log.begin(candidate)
                        if client.fetches_images and not endpoint.is_media:
                            body = await client.images.inline(context, serve, endpoint, fields, body)
                        formatted = await client.format(context, serve, endpoint, fields, body, candidate.must_read)
                        if formatted.is_rewritten and await client.load_or_count_only(context, serve, formatted, body):
                            break
                        request = formatted  # not before: what only counts is never sent
                        if not has_next:
                            body = b""  # else it would be held until the answer has ended
                    if not has_room:
                        max_context = serve.context
                        if context.max_context is not None:
                            max_context = min(context.max_context, max_context or context.max_context)
                        if (
                            max_context is not None and request.endpoint.has_tokens
                            and may_exceed(max_context, len(request.body), request.fields.output_budget())
                        ):  # fmt: skip
                            await client.counter.check_context(context, serve, request)
                        has_room = True
                    if hooks is not None:
                        reading = await hooks.reading(request)
                    if has_replicas := serve.has_replicas:
                        wish = await client.replica_wish(context, serve, request, wish)
                    if context.share.session is None and serve.name in leases.contested:
                        await client.find_session(context, request, wish.prompt)
                    lease = context.lease_now(leases, serve.name, request.endpoint.generates, wish)
                    if lease is None:
                        lease = await context.wait_for_lease()
                    if context.may_be_preempted:
                        leases.allow_preemption(lease, context.share.priority)
                    may_leave = None
                    if has_next or has_replicas:
                        at = at or Progress(Standing(candidate, has_next))
                        if has_replicas:
                            context.decision.replica = lease.serve
                            wish = wish._replace(avoid=wish.avoid | {lease.serve})
                            at.standing.has_replica = leases.has_another(serve.name, wish)
                        if has_next or at.standing.has_replica:
                            may_leave = partial(leaves, at=at.standing)
                    if serve.keep_conversations:
                        await client.attach_conversation(context, serve, lease, request)
                    await client.send(context, candidate, lease, request, reading, may_leave)
                    break
                except StokerError as error:
                    at = at or Progress(Standing(candidate, has_next))
                    at.request, at.has_room, at.wish = request, has_room, wish
                    following = await self._go_on(context, plan, at, error, hooks)
                    if following is None:
                        raise
                    at = following
                    if at.is_answered:
                        break
                    candidate, has_next = at.standing.candidate, at.standing.has_next
                    if at.request is None and candidate.request is not None:
                        fields, body = candidate.request
                    request, has_room, wish = at.request, at.has_room, at.wish
            if at is not None and at.log is not None:
                self._end_attempt(context, at, context.reply.error)
        finally:
            if at is not None and at.log is not None and at.log.is_open:  # the client left, or Stoker shuts down
                relay = context.relay
                context.was_answered = relay is not None and relay.has_sent_end
                self._end_attempt(context, at, None, "served" if context.was_answered else "left")

    # -- after a failure ---------------------------------------------------------------------------------------------

    async def _go_on(
        self, context: RequestContext, plan: Plan, at: Progress, error: StokerError, hooks: AttemptHooks | None
    ) -> Progress | None:
        """What the next attempt begins with; None: there is none, the error ends the request."""
        upstream_client, decision, serve = self._upstream_client, context.decision, at.standing.candidate.serve
        step, code = await self._judge(context, at, error, hooks)
        if step is Next.END:
            if at.log is not None:
                self._end_attempt(context, at, error)
            return None
        if step is not Next.REPLICA and step is not Next.CANDIDATE:
            context.raise_if_ended()
        at.standing.has_replica = False  # until a replica is leased: if none can be, there is none
        if step is Next.REPAIR and hooks is not None and at.request is not None and at.log is not None:
            upstream_client.release(context)
            at.log.add_tokens()
            decision.input_tokens = decision.output_tokens = None  # they are added, and count once
            decision.cached_tokens = decision.cache_write_tokens = None
            at.standing.can_repair, at.has_room, at.wish = False, False, NO_WISH
            try:
                at.request = await hooks.repair(at.request)
                at.is_answered = at.request is None
                at.standing.has_next = at.standing.has_next and not hooks.is_pinned
            except StokerError as failure:
                following = await self._go_on(context, plan, at, failure, hooks)
                if following is None:
                    raise
                return following
        elif step is Next.AGAIN:
            pause = EXIT_NOTICED_WITHIN
            if is_busy(error):
                at.standing.was_busy = True
                pause = min(error.retry_after or pause, LONGEST_PAUSE)
            else:
                at.standing.was_unreachable = True
            upstream_client.release(context)
            if at.wish is not NO_WISH:
                at.wish = at.wish._replace(avoid=at.wish.avoid - {decision.replica})
            await context.run_cancellable(asyncio.sleep(pause))
            context.raise_if_ended()
        elif step is Next.LESS_OUTPUT:
            at.standing.was_lowered = True
            upstream_client.release(context)
            decision.translation, at.wish = "", NO_WISH
        elif step is Next.REPLICA:
            log = self._log_of(context, at)
            if hooks is None:
                self._end_attempt(context, at, error, code)
                context.raise_if_ended()
                log.begin(at.standing.candidate)
                at.replica = ""
            context.raise_if_ended()
            upstream_client.release(context)
            log.drop(decision.replica, code, serve)
        else:
            log = self._log_of(context, at)
            self._end_attempt(context, at, error, code)
            context.raise_if_ended()
            place = at.place + 1
            at = Progress(Standing(plan[place], place + 1 < len(plan)), place, log)
            log.drop(serve.name, code, at.standing.candidate.serve)
            if hooks is None:
                context.reply.set_header(b"x-stoker-fallback", f"{serve.name}: {code}".encode())
                log.begin(at.standing.candidate)
        return at

    async def _judge(
        self, context: RequestContext, at: Progress, error: StokerError, hooks: AttemptHooks | None
    ) -> tuple[Next, str]:
        """What follows, and the failure's code for the record."""
        upstream_client, request, code = self._upstream_client, at.request, recorded_code(error)
        at.standing.has_begun = context.reply.first_byte_at is not None
        if hooks is not None and hooks.is_pinned:
            relay = context.relay
            at.standing.must_go_on = relay is not None and not relay.has_begun_answer
        is_rejected = error.code == REJECTED and isinstance(error, UpstreamError)
        if hooks is not None and request is not None and (is_rejected or _is_too_long(error, hooks)):
            at.standing.can_repair = hooks.can_repair(request, at.standing.has_begun)
        step = after_failure(error, at.standing)
        if step is Next.LESS_OUTPUT and isinstance(error, OutputLimitTooHigh) and request is not None:
            # Its context is not configured, or the serve counts otherwise than its counter.
            if await lower_output_limit(context, request, error.room):
                return step, code
            at.standing.was_lowered = True
            step = after_failure(error, at.standing)
        hears_why = at.standing.has_next and at.standing.candidate.causes is not None and not at.standing.has_begun
        if hears_why and isinstance(error, UpstreamError) and (step is Next.CANDIDATE or step is Next.END):
            at.replica = "" if context.lease is None else context.lease.serve
            upstream_client.release(context)  # the serve may have run out of memory and just exited
            await asyncio.sleep(EXIT_NOTICED_WITHIN)
            exit_code = upstream_client.leases.failure_code(at.standing.candidate.serve.name)
            step = after_failure(error, at.standing, exit_code)
            code = exit_code if exit_code in BEYOND_THE_DEVICE else code
        return step, code

    # -- the record --------------------------------------------------------------------------------------------------

    def _log_of(self, context: RequestContext, at: Progress) -> AttemptLog:
        """Without hooks the record begins with the first failure; that attempt began when the request arrived."""
        if at.log is None:
            at.log = AttemptLog(context, context.decision.tried, self._upstream_client.now)
            at.log.begin(at.standing.candidate, context.received_at)
        return at.log

    def _end_attempt(self, context: RequestContext, at: Progress, error: StokerError | None, code: str = "") -> None:
        log, relay = at.log, context.relay
        replica = at.replica if context.lease is None else context.lease.serve
        pause = None if relay is None else relay.retry_after
        self._upstream_client.release(context)
        if log is not None:
            if log.hooks is None and replica:
                log.name_replica(replica)
            log.end(code or ("served" if error is None else recorded_code(error)), error, pause)


def _is_too_long(error: StokerError, hooks: AttemptHooks) -> bool:
    """Whether the prompt, which the hooks have made longer, does not fit the context any more."""
    return hooks.is_pinned and isinstance(error, ContextExceeded)


class AttemptLog:
    """Keeps the attempts of one request in its decision."""

    def __init__(
        self,
        context: RequestContext,
        attempts: list[Attempt],
        now: Callable[[], float],
        hooks: AttemptHooks | None = None,
    ) -> None:
        self._context = context
        self._attempts = attempts
        self._now = now
        self.hooks = hooks
        self._dropped: list[Candidate] = [] if hooks is None else list(hooks.excluded)
        self._attempt: Attempt | None = None
        self._began_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether an attempt is under way."""
        return self._attempt is not None

    def begin(self, candidate: PlanCandidate, began_at: float | None = None) -> None:
        """A candidate is asked, since `began_at` (None: from now on). Raises what the hooks raise."""
        decision, serve = self._context.decision, candidate.serve
        attempt = self._attempt = Attempt(candidate.tier, serve=serve.name)
        self._attempts.append(attempt)
        self._began_at = self._now() if began_at is None else began_at
        self._show(serve)
        if began_at is None:  # else it is over already, and these are its own tokens
            decision.input_tokens = decision.output_tokens = None
            decision.cached_tokens = decision.cache_write_tokens = None
            decision.tokens_estimated = False
        if self.hooks is not None:
            self.hooks.begin(candidate, attempt)

    def name_replica(self, name: str) -> None:
        if self._attempt is not None:
            self._attempt.serve = name

    def add_tokens(self) -> None:
        """One call of the attempt is over: add what it used."""
        if self._attempt is not None:
            self._attempt.add_tokens(self._context.decision)

    def end(self, outcome: str, error: StokerError | None = None, retry_after: float | None = None) -> None:
        """The attempt is over, and what it held is given back."""
        self.add_tokens()
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.outcome, attempt.seconds = outcome, self._now() - self._began_at
            if self.hooks is not None:
                self.hooks.end(error, retry_after)

    def drop(self, name: str, code: str, following: Serve) -> None:
        """This serve or replica failed; `following` is asked."""
        self._dropped.append(Candidate(name, code))
        self._show(following)

    def _show(self, serve: Serve) -> None:
        self._context.decision.candidates = [*self._dropped, Candidate(serve.name)]
