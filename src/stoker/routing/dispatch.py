"""Serves a request that names a task: plan, then one tier after the other until one answers.

    plan         count tokens if the prompt may be long, find the class, plan the tiers
    execute      record the plan, then try its tiers in order
    _run_step    one tier: ask it, record its cost, and report to its circuit
    _ask_tier    send the request, and once more if what was held back of the answer is wrong (repair)

Before the client has a byte, a wrong answer is asked for once more, and then the next tier is tried. After text went
out, only a wrong tool call is asked for once more. The cost of answers that no client got is recorded, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from stoker.access.caller import Caller
from stoker.access.quota import expected_cost
from stoker.domain.decision import Attempt, Candidate, Routed
from stoker.domain.dialect import Dialect, Endpoint
from stoker.domain.errors import REJECTED, CapacityError, ClientError, StokerError, UpstreamError
from stoker.domain.routing import HEADER, UNKNOWN
from stoker.domain.serve import Serve
from stoker.domain.task import BYTES_PER_TOKEN
from stoker.domain.tier import HOLDING, Verify
from stoker.exchange.call import Call
from stoker.exchange.carrier import Carrier
from stoker.exchange.check import CALL_FINDINGS, AnswerCheck
from stoker.exchange.formatter import UpstreamRequest
from stoker.request.codec.body_fields import BodyFields
from stoker.request.codec.outline import outline
from stoker.request.codec.upstream_errors import recorded_code
from stoker.request.decide.dialects import dialect_for
from stoker.request.decide.explore import with_exploration
from stoker.request.decide.failover import moves_on
from stoker.request.decide.policy import RATE_LIMITED, RoutePlan, RouteStep
from stoker.request.translate.translate import AnswerTranslator
from stoker.routing.collaborators import Collaborators
from stoker.routing.record import add_tokens, record_attempt, routed_of
from stoker.routing.router import RoutingConstraints, TierRouter


class RoutedRequest(NamedTuple):
    call: Call
    plan: RoutePlan
    routed: Routed
    endpoint: Endpoint
    fields: BodyFields
    body: bytes
    serve_by_tier: dict[str, str]
    """The serve of each tier at the time of planning: a reload may change it."""
    pauses: list[float]
    """Seconds for which tiers asked not to be called (Retry-After)."""

    def note_candidates(self, serve: str = "") -> None:
        """Bring the decision's candidates up to date: excluded tiers, failed ones, and `serve`, which is tried now."""
        decision = self.call.decision
        decision.candidates = [
            *(Candidate(self.serve_by_tier[one.tier], one.code) for one in self.plan.excluded),
            *(Candidate(self.serve_by_tier[one.tier], one.outcome) for one in self.routed.attempts),
            *([Candidate(serve)] if serve else []),
        ]


class Dispatcher:
    """Serves requests by one configuration. A reload makes another one; requests under way keep theirs."""

    def __init__(
        self, carrier: Carrier, router: TierRouter, collaborators: Collaborators, now: Callable[[], float]
    ) -> None:
        self.router = router
        self.second_opinion = collaborators.second_opinion
        self._collaborators = collaborators
        self._carrier = carrier
        self._now = now

    async def execute(
        self, plan: RoutePlan, call: Call, caller: Caller, endpoint: Endpoint, fields: BodyFields, body: bytes
    ) -> None:
        """Try the tiers of the plan, until one answers or the client has got a byte.

        Raises what the last of them failed with, ClientError 403 `no_tier`, or CapacityError 429 or 503 `rate_limited`
        if every tier that may serve the request asked for a pause.
        """
        plan = self._prepare(call, caller, plan, endpoint, len(body))
        verify = caller.key.defaults.verify
        if verify:
            plan = plan._replace(steps=tuple(step._replace(verify=Verify(verify)) for step in plan.steps))
        call.decision.routed = routed = routed_of(plan)
        serve_by_tier = {tier.name: tier.serve for tier in self.router.settings.tiers}
        request = RoutedRequest(call, plan, routed, endpoint, fields, body, serve_by_tier, [])
        request.note_candidates()
        if not plan.steps:
            raise _refusal(plan)
        serves = [self.router.serve_of(step.tier) for step in plan.steps]
        for step, serve in zip(plan.steps, serves, strict=True):
            assert serve is not None, "a tier without a serve is never planned"
            if await self._run_step(request, step, serve):
                return

    # -- planning ----------------------------------------------------------------------------------------------------

    async def plan(self, call: Call, caller: Caller, endpoint: Endpoint, fields: BodyFields, body: bytes) -> RoutePlan:
        """The class of a request, and the tiers that may serve it, in order. Raises what ended the request."""
        classes = self.router.classes
        outlined, declared = await call.process(outline, endpoint.dialect, body)
        if classes.may_be_long(outlined):
            tokens = await self._count(call, endpoint, fields, body) if classes.needs_count(outlined) else None
            outlined = classes.with_tokens(outlined, tokens)
        budget = fields.output_budget()
        is_spoken = endpoint.generates and endpoint.dialect is not Dialect.COMPLETIONS
        call.refuses_empty = is_spoken and not outlined.may_be_empty and (budget is None or budget > 1)
        header = call.wire.headers.get(HEADER.encode())
        declaration = classes.declaration(fields.model, None if header is None else header.decode("latin-1"), declared)
        if declaration.unknown:
            call.reply.set_header(UNKNOWN.encode(), _printable(declaration.unknown))
        task = classes.classify(outlined, declaration)
        may_use_cloud = caller.may_use_cloud()
        opinion = self.second_opinion
        if opinion is not None and endpoint.generates and opinion.wants(task):
            task = await call.run_cancellable(opinion.settle(task, outlined, may_use_cloud))
            call.raise_if_ended()

        def speaks(serve: Serve) -> bool:
            target = self._carrier.target(serve.name)
            try:
                dialect_for(serve, endpoint.dialect, endpoint.path, None if target is None else target.speaks)
            except ClientError:
                return False
            return True

        return self.router.plan(task, outlined, RoutingConstraints(may_use_cloud, speaks, budget))

    async def _count(self, call: Call, endpoint: Endpoint, fields: BodyFields, body: bytes) -> int | None:
        """Prompt tokens, counted by the first loaded tier that has a place and a counter; None: there is none."""
        for serve in self.router.loaded():
            tokens = await self._carrier.counter.count_if_ready(call, serve, endpoint, fields, body)
            if tokens is not None:
                return tokens
        return None

    def _prepare(self, call: Call, caller: Caller, plan: RoutePlan, endpoint: Endpoint, size: int) -> RoutePlan:
        """Show the plan to the collaborators. Returns the plan to execute; `explore` may put another tier first."""
        collaborators, explore = self._collaborators, self.router.settings.explore
        if endpoint.generates:
            if collaborators.observer is not None:
                collaborators.observer.on_plan(plan)
            if explore:
                plan = with_exploration(plan, explore, collaborators.chance())
        if collaborators.grader is not None:
            call.recorder = collaborators.grader.draw(plan, endpoint, caller.may_use_cloud(), size)
        return plan

    # -- one tier ------------------------------------------------------------------------------------------------------

    async def _run_step(self, request: RoutedRequest, step: RouteStep, serve: Serve) -> bool:
        """Try one tier. True: it answered. False: it failed, and the next tier may be tried. Raises the error that ends
        the request.
        """
        call, routed, tier = request.call, request.routed, step.tier.name
        decision, health = call.decision, self.router.health
        attempt = Attempt(tier)
        request.note_candidates(serve.name)
        routed.attempts.append(attempt)
        decision.input_tokens = decision.output_tokens = None  # an earlier attempt's
        decision.cached_tokens = decision.cache_write_tokens = None
        decision.tokens_estimated = False
        started_at = self._now()
        health.on_sent(tier)
        is_last = step is request.plan.steps[-1]
        if is_last:
            call.begin_attempt(None)
        else:
            call.begin_attempt(moves_on, self._next_tier_after(request, step))
        try:
            await self._ask_tier(request, serve, step, attempt)
            self._on_answer(request, step, attempt)
            return True
        except StokerError as error:
            self._on_failure(call, attempt, error)
            if call.retry_after is not None:
                request.pauses.append(call.retry_after)
            if is_last or not moves_on(error) or _has_begun(call):
                _set_retry_after(error, request.pauses)
                raise
            call.raise_if_ended()
            return False
        finally:
            self._carrier.release(call)
            attempt.seconds = self._now() - started_at
            record_attempt(step, attempt, routed, decision)

    def _next_tier_after(self, request: RoutedRequest, step: RouteStep) -> float:
        """Seconds without an answer that end the attempt."""
        prompt, fields = len(request.body) // BYTES_PER_TOKEN, request.fields
        seconds = self.router.next_tier_after(step.tier, prompt, fields.output_budget(), bool(fields.stream))
        return math.inf if seconds is None else seconds

    def _on_answer(self, request: RoutedRequest, step: RouteStep, attempt: Attempt) -> None:
        call, tier, health = request.call, step.tier.name, self.router.health
        reply = call.reply
        if reply.error is not None:
            self._on_failure(call, attempt, reply.error)
            return
        health.on_served(tier)
        attempt.outcome = "served"
        if self._collaborators.grader is not None and call.recorder is not None and reply.status == 200:
            self._collaborators.grader.offer(call.recorder, tier, request.plan.task.name, call.decision.id)

    def _on_failure(self, call: Call, attempt: Attempt, error: StokerError) -> None:
        attempt.outcome = recorded_code(error)
        self._carrier.release(call)  # also sets `call.retry_after`
        self.router.health.on_error(attempt.tier, error, call.retry_after)

    async def _ask_tier(self, request: RoutedRequest, serve: Serve, step: RouteStep, attempt: Attempt) -> None:
        """Ask one tier. If an answer or call that was held back is wrong, ask for it once more."""
        call, endpoint, fields = request.call, request.endpoint, request.fields
        if call.charge is not None and step.tier.cloud:
            call.charge.reserve_cost(expected_cost(step.tier.cost, len(request.body), fields.output_budget()))
        body = await self._carrier.images.inline(call, serve, endpoint, fields, request.body)
        upstream = await self._carrier.format(call, serve, endpoint, fields, body, must_read=step.verify in HOLDING)
        call.reply.set_header(b"x-stoker-tier", step.tier.name.encode())
        if upstream.written is not None and await self._carrier.load_or_count_only(call, serve, upstream, body):
            return
        try:
            await self._send_verified(call, serve, step, attempt, upstream)
        except UpstreamError as error:
            translator = None if call.relay is None else call.relay.translator
            if error.code != REJECTED or upstream.written is None or not isinstance(translator, AnswerTranslator):
                raise
            continues = _has_begun(call)
            if continues and not (translator.can_continue and CALL_FINDINGS.issuperset(attempt.findings)):
                raise
            call.raise_if_ended()
            self._carrier.release(call)
            add_tokens(attempt, call.decision)
            attempt.repairs += 1
            call.token_count = "", None  # the repaired request is longer
            call.continuation = translator if continues else None
            repaired = await call.process(self._carrier.formatter.repair, upstream, attempt.findings)
            await self._send_verified(call, serve, step, attempt, repaired)

    async def _send_verified(
        self, call: Call, serve: Serve, step: RouteStep, attempt: Attempt, request: UpstreamRequest
    ) -> None:
        recorder = call.recorder
        is_read = step.verify is not Verify.OFF or recorder is not None
        prompt = await call.process(self._carrier.formatter.prompt_of, request) if is_read else None
        check = None if prompt is None or step.verify is Verify.OFF else AnswerCheck(prompt, step.verify)
        call.verifier = check
        if recorder is not None and prompt is not None:
            call.verifier = recorder.wrap(check, prompt, call.continuation is not None)
        try:
            await self._carrier.lease_and_send(call, serve, request)
        finally:
            call.verifier = None
            if check is not None and (check.is_wrong or call.reply.first_byte_at is not None):
                attempt.checked = True
                attempt.findings = list(dict.fromkeys((*attempt.findings, *check.failed_checks())))


def _has_begun(call: Call) -> bool:
    """Whether the client has a part of an answer, which cannot be taken back. A 200 with pings alone is not a part."""
    return call.reply.first_byte_at is not None


def _printable(name: str) -> bytes:
    """A client's own word, made fit for a header: at most 64 characters, `?` for what is not printable ASCII."""
    return "".join(one if " " <= one <= "~" else "?" for one in name[:64]).encode()


def _refusal(plan: RoutePlan) -> StokerError:
    if plan.pause is None:
        return ClientError(plan.refusal(), code="no_tier", status=403, param="model")
    error = CapacityError(plan.refusal(), code=RATE_LIMITED, retry_after=plan.pause)
    error.status = 429 if plan.pause_status == 429 else 503
    return error


def _set_retry_after(error: StokerError, pauses: list[float]) -> None:
    """Set Retry-After to the shortest pause that a tier asked for, if the client may try again."""
    if isinstance(error, CapacityError) and pauses:
        error.retry_after = min(pauses)
