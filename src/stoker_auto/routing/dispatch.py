"""Plans a request that names a task: the tiers that may answer it, in order.

    plan_tiers     count tokens if the prompt may be long, find the class, plan the tiers
    candidates     record the plan; `exchange.attempts` tries its tiers in order
    TierAttempts   what is done around each attempt: checks, cost, the tier's circuit

Before the client has a byte, a wrong answer is asked for once more, and then the next tier is tried. After text went
out, only a wrong tool call is asked for once more. The cost of answers that no client got is recorded, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.access.caller import Caller
from stoker.access.quota import expected_cost
from stoker.domain.decision import Attempt, Candidate, Routed
from stoker.domain.dialect import Dialect, Endpoint
from stoker.domain.errors import CapacityError, ClientError, StokerError
from stoker.domain.routing import AUTO, HEADER, UNKNOWN, is_reserved
from stoker.domain.serve import Serve
from stoker.domain.session import FORGOTTEN_AFTER
from stoker.domain.task import BYTES_PER_TOKEN
from stoker.domain.tier import HOLDING, Verify
from stoker.exchange.formatter import UpstreamRequest
from stoker.exchange.planner import Answer, Candidates, PlannedRequest, Planner, Renamed, Route
from stoker.exchange.request_context import RequestContext
from stoker.exchange.upstream_client import AnswerReading, UpstreamClient
from stoker.request.codec.body_fields import BodyFields
from stoker.request.decide.dialects import dialect_for
from stoker.request.decide.plan import Plan, PlanCandidate
from stoker.request.translate.neutral.protocols import Check
from stoker.request.translate.translate import AnswerTranslator
from stoker_auto.decide.explore import with_exploration
from stoker_auto.decide.in_loop import with_tier_kept
from stoker_auto.decide.policy import RATE_LIMITED, RoutePlan
from stoker_auto.routing.answer_recorder import AnswerRecorder
from stoker_auto.routing.collaborators import Collaborators, Grader
from stoker_auto.routing.health import TierHealth
from stoker_auto.routing.record import record_attempt, routed_of
from stoker_auto.routing.router import RoutingConstraints, TierRouter
from stoker_content.outline import outline
from stoker_content.verify.answer_check import CALL_FINDINGS, AnswerCheck


class Dispatcher(Planner):
    """Plans requests by one configuration. A reload makes another one; requests under way keep theirs."""

    def __init__(self, upstream_client: UpstreamClient, router: TierRouter, collaborators: Collaborators) -> None:
        self.router = router
        self.second_opinion = collaborators.second_opinion
        self._collaborators = collaborators
        self._upstream_client = upstream_client
        self.names = router.classes.names
        self._orchestrators = {one.name: one.orchestrator for one in router.settings.classes if one.orchestrator}
        """By class: who answers its requests instead of tiers."""

    # -- names ---------------------------------------------------------------------------------------------------------

    def means(self, model: str) -> bool:
        return is_reserved(model) or self.router.classes.task_name(model) is not None

    def describe(self, model: str, caller: Caller) -> Mapping[str, Any] | None:
        name = self.router.classes.task_name(model)
        return {"state": "routed"} if name is not None and caller.may_use_task(name) else None

    def concerns(self, model: str, caller: Caller) -> bool:
        """Also the name of a class that does not exist: it is refused."""
        name = self.router.classes.task_name(model)
        return name is None or caller.may_use_task(name)

    def listed(self, caller: Caller, aliases: bool) -> list[str]:
        listed = self.router.settings.listed
        return [name for name in listed if (aliases or is_reserved(name)) and caller.may_use_task(name)]

    # -- the seam ------------------------------------------------------------------------------------------------------

    async def plan(self, request: PlannedRequest) -> Candidates | Answer | Renamed | None:
        """The tiers, or what an orchestrator makes of a class that has one. Raises what `plan_tiers` and `candidates`
        raise, and ClientError for a class that is unknown, or that this caller may not ask for.
        """
        caller, model = request.caller, request.model
        name = self.router.classes.task_name(model)
        if name is None:
            if caller.may_use_task(AUTO):
                raise self.router.classes.unknown_class(model)
            return None
        if not request.is_renamed and not caller.may_use_task(name):
            return None
        plan = await self.plan_tiers(request)
        caller.check_class(plan.task.name)
        other = self._orchestrators.get(plan.task.name, "")
        orchestrator = request.planners.get(other)
        if orchestrator is not None and not request.is_renamed:
            asked = request._replace(model=other, is_renamed=True, route=self._route_of(plan))
            answer = await orchestrator.plan(asked)
            if isinstance(answer, Answer):
                return answer
        return self.candidates(plan, request)

    async def route(self, request: PlannedRequest) -> Route:
        return self._route_of(await self.plan_tiers(request))

    def _route_of(self, plan: RoutePlan) -> Route:
        tiers = ((self.router.serve_of(step.tier), step.tier.name) for step in plan.steps)
        workers = tuple(PlanCandidate(serve, tier) for serve, tier in tiers if serve is not None)
        return Route(plan.task.name, workers, self.router.health)

    def candidates(self, plan: RoutePlan, request: PlannedRequest) -> Candidates:
        """The tiers of the plan, to be tried until one answers or the client has got a byte.

        Raises ClientError 403 `no_tier`, or CapacityError 429 or 503 `rate_limited` if every tier that may serve the
        request asked for a pause.
        """
        call, caller, endpoint, fields, body = request[:5]
        kept = ""
        if plan.has_results and (session := call.share.session) is not None and endpoint.generates:
            is_recent = session.ended_at is None or self._upstream_client.now() - session.ended_at < FORGOTTEN_AFTER
            kept = session.tier if is_recent else ""
        plan = with_tier_kept(plan, kept) if kept else self._explored(plan, endpoint)
        recorder = None
        if self._collaborators.grader is not None:
            recorder = self._collaborators.grader.draw(plan, endpoint, caller.may_use_cloud(), len(body))
        verify = caller.key.defaults.verify
        if verify:
            plan = plan._replace(steps=tuple(step._replace(verify=Verify(verify)) for step in plan.steps))
        call.decision.routed = routed = routed_of(plan)
        serve_by_tier = {tier.name: tier.serve for tier in self.router.settings.tiers}
        excluded = tuple(Candidate(serve_by_tier[one.tier], one.code) for one in plan.excluded)
        if not plan.steps:
            call.decision.candidates = list(excluded)
            raise _refusal(plan)
        tiers = self._tiers(plan, fields, len(body))
        health, grader = self.router.health, self._collaborators.grader
        hooks = TierAttempts(self._upstream_client, health, grader, call, plan, routed, fields, len(body), recorder)
        hooks.excluded, hooks.kept_tier = excluded, kept
        return Candidates(tiers, hooks)

    def _tiers(self, plan: RoutePlan, fields: BodyFields, size: int) -> Plan:
        """Its tiers. While another one is left, a tier has a time of its own for the first byte."""
        prompt, streams = size // BYTES_PER_TOKEN, bool(fields.stream)
        last, found = plan.steps[-1], []
        for step in plan.steps:
            serve, seconds = self.router.serve_of(step.tier), None
            assert serve is not None, "a tier without a serve is never planned"
            if step is not last:
                seconds = self.router.next_tier_after(step.tier, prompt, fields.output_budget(), streams)
                seconds = math.inf if seconds is None else seconds
            must_read = step.verify in HOLDING
            found.append(PlanCandidate(serve, step.tier.name, first_byte_within=seconds, must_read=must_read))
        return tuple(found)

    # -- planning ----------------------------------------------------------------------------------------------------

    async def plan_tiers(self, request: PlannedRequest) -> RoutePlan:
        """The class of a request, and the tiers that may serve it, in order. Raises what ended the request."""
        call, caller, endpoint, fields, body = request[:5]
        classes = self.router.classes
        outlined, declared = await call.process(outline, endpoint.dialect, body)
        if classes.may_be_long(outlined):
            tokens = await self._count(call, endpoint, fields, body) if classes.needs_count(outlined) else None
            outlined = classes.with_tokens(outlined, tokens)
        budget = fields.output_budget()
        header = call.exchange.headers.get(HEADER.encode())
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
            target = self._upstream_client.target(serve.name)
            try:
                dialect_for(serve, endpoint.dialect, endpoint.path, None if target is None else target.speaks)
            except ClientError:
                return False
            return True

        plan = self.router.plan(task, outlined, RoutingConstraints(may_use_cloud, speaks, budget))
        is_spoken = endpoint.generates and endpoint.dialect is not Dialect.COMPLETIONS
        says_something = is_spoken and not outlined.may_be_empty and (budget is None or budget > 1)
        return plan._replace(refuses_empty=says_something, has_results=outlined.has_results)

    async def _count(self, context: RequestContext, endpoint: Endpoint, fields: BodyFields, body: bytes) -> int | None:
        """Prompt tokens, counted by the first loaded tier that has a place and a counter; None: there is none."""
        for serve in self.router.loaded():
            tokens = await self._upstream_client.counter.count_if_ready(context, serve, endpoint, fields, body)
            if tokens is not None:
                return tokens
        return None

    def _explored(self, plan: RoutePlan, endpoint: Endpoint) -> RoutePlan:
        """The plan to execute: `explore` may put another tier first."""
        collaborators, explore = self._collaborators, self.router.settings.explore
        if not endpoint.generates:
            return plan
        if collaborators.observer is not None:
            collaborators.observer.on_plan(plan)
        return with_exploration(plan, explore, collaborators.chance()) if explore else plan


class TierAttempts:
    """The attempts of one request at tiers: their checks, their cost, and what they say of each tier's health."""

    is_pinned = False

    def __init__(
        self, upstream_client: UpstreamClient, health: TierHealth, grader: Grader | None, context: RequestContext,
        plan: RoutePlan, routed: Routed, fields: BodyFields, size: int, recorder: AnswerRecorder | None,
    ) -> None:  # fmt: skip
        """`size`: bytes of the request's body."""
        self.attempts = routed.attempts
        self.excluded: Sequence[Candidate] = ()
        self.kept_tier = ""
        """That answers the loop of tool calls to which the request belongs; empty: it belongs to none."""
        self._context = context
        self._plan = plan
        self._routed = routed
        self._fields = fields
        self._size = size
        self._upstream_client = upstream_client
        self._health = health
        self._recorder = recorder
        """Keeps the answer for grading; None: it will not be graded."""
        self._grader = grader
        self._steps = {step.tier.name: step for step in plan.steps}
        self._step = plan.steps[0]
        self._attempt = Attempt()
        self._check: AnswerCheck | None = None
        """Reads the answer that is under way."""
        self._rejected: AnswerTranslator | None = None
        """The translator of the answer that was rejected last."""
        self._continues: AnswerTranslator | None = None
        self._pauses: list[float] = []
        """Seconds for which tiers asked not to be called (Retry-After)."""

    def begin(self, candidate: PlanCandidate, attempt: Attempt) -> None:
        """Raises StokerError if the caller's key may not spend what the tier costs."""
        self._step, self._attempt, self._continues = self._steps[candidate.tier], attempt, None
        tier, charge = self._step.tier, self._context.charge
        self._health.on_sent(tier.name)
        self._context.reply.set_header(b"x-stoker-tier", tier.name.encode())
        if self.kept_tier and tier.name != self.kept_tier:
            self._context.reply.set_header(b"x-stoker-fallback", f"{self.kept_tier}: {self._why_left()}".encode())
        if charge is not None and tier.cloud:
            charge.reserve_cost(expected_cost(tier.cost, self._size, self._fields.output_budget()))

    async def reading(self, request: UpstreamRequest) -> AnswerReading:
        step, recorder = self._step, self._recorder
        is_read = step.verify is not Verify.OFF or recorder is not None
        prompt = await self._context.process(self._upstream_client.formatter.prompt_of, request) if is_read else None
        check = None if prompt is None or step.verify is Verify.OFF else AnswerCheck(prompt, step.verify)
        continues, self._check = self._continues, check
        reader: Check | None = check
        if recorder is not None and prompt is not None:
            reader = recorder.wrap(check, prompt, continues is not None)
        return AnswerReading(reader, continues, self._plan.refuses_empty and continues is None)

    def can_repair(self, request: UpstreamRequest, has_begun: bool) -> bool:
        """Once; after the client has a part of the answer, only if it was a tool call alone that is wrong."""
        self._note_findings()
        relay = self._context.relay
        translator = None if relay is None else relay.translator
        if self._attempt.repairs or request.written is None or not isinstance(translator, AnswerTranslator):
            return False
        self._rejected = translator if has_begun else None
        return not has_begun or (translator.can_continue and CALL_FINDINGS.issuperset(self._attempt.findings))

    async def repair(self, request: UpstreamRequest) -> UpstreamRequest:
        self._attempt.repairs += 1
        self._continues = self._rejected
        self._context.token_count = "", None  # the repaired request is longer
        return await self._context.process(self._upstream_client.formatter.repair, request, self._attempt.findings)

    def end(self, error: StokerError | None, retry_after: float | None) -> None:
        """Record what the attempt cost, and report to the tier's circuit."""
        self._note_findings()
        attempt, tier = self._attempt, self._step.tier.name
        if error is not None:
            self._health.on_error(tier, error, retry_after)
            if retry_after is not None:
                self._pauses.append(retry_after)
            if isinstance(error, CapacityError) and self._pauses:
                error.retry_after = min(self._pauses)  # the client may try again when the first tier may be asked again
        elif attempt.outcome == "served":
            self._health.on_served(tier)
            if (session := self._context.share.session) is not None and session.has_called:
                session.tier = tier  # of what goes on
            if self._grader is not None and self._recorder is not None and self._context.reply.status == 200:
                self._grader.offer(self._recorder, tier, self._plan.task.name, self._context.decision.id)
        record_attempt(self._step, attempt, self._routed)

    def _why_left(self) -> str:
        """Why the tier that answered the loop so far does not go on."""
        failed = next((one.outcome for one in self.attempts if one.tier == self.kept_tier and one.outcome), "")
        dropped = (one.code for one in self._plan.excluded if one.tier == self.kept_tier)
        return failed or next(dropped, "not configured")

    def _note_findings(self) -> None:
        check, self._check = self._check, None
        if check is not None and (check.is_wrong or self._context.reply.first_byte_at is not None):
            self._attempt.checked = True
            self._attempt.findings = list(dict.fromkeys((*self._attempt.findings, *check.failed_checks())))


def _printable(name: str) -> bytes:
    """A client's own word, made fit for a header: at most 64 characters, `?` for what is not printable ASCII."""
    return "".join(one if " " <= one <= "~" else "?" for one in name[:64]).encode()


def _refusal(plan: RoutePlan) -> StokerError:
    if plan.pause is None:
        return ClientError(plan.refusal(), code="no_tier", status=403, param="model")
    error = CapacityError(plan.refusal(), code=RATE_LIMITED, retry_after=plan.pause)
    error.status = 429 if plan.pause_status == 429 else 503
    return error
