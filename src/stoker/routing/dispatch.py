"""A request that names a task: its class, the tiers that may serve it, and one attempt after the other.

Before the client has a byte, an answer that was proved wrong is asked for once more, and then the next tier is tried.
After text went out, a wrong call alone is asked for once more. What nobody got is accounted, and told nowhere else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from stoker.domain.decision import Attempt, Candidate
from stoker.domain.dialect import Endpoint
from stoker.domain.errors import REJECTED, CapacityError, ClientError, StokerError, UpstreamError
from stoker.domain.lease import Target
from stoker.domain.routing import HEADER, UNKNOWN
from stoker.domain.serve import Serve
from stoker.domain.task import BYTES_PER_TOKEN, Outline, Task
from stoker.domain.tier import HOLDING, Verify
from stoker.exchange.call import Call
from stoker.exchange.check import OF_CALLS, Checked
from stoker.exchange.formatter import Form, Speech
from stoker.exchange.recorder import Sample
from stoker.exchange.waiting import FirstByteTimer, IsWorking, unknown
from stoker.request.accept.door import Caller
from stoker.request.codec.frames import recorded_code
from stoker.request.codec.outline import outline
from stoker.request.codec.peek import Top
from stoker.request.decide.dialects import dialect_for
from stoker.request.decide.explore import explored
from stoker.request.decide.policy import RATE_LIMITED, Plan, Step
from stoker.request.translate.translate import AnswerTranslator
from stoker.routing.router import Asking, Routing

Found = TypeVar("Found")


class Carries(Protocol):
    """What it needs of flow, which owns leases, connections and the decision."""

    async def form(
        self, call: Call, serve: Serve, endpoint: Endpoint, top: Top, body: bytes, reads: bool = False
    ) -> Form: ...

    async def process(self, call: Call, work: Callable[..., Found], *args: Any) -> Found: ...

    async def with_images(self, call: Call, serve: Serve, endpoint: Endpoint, top: Top, body: bytes) -> bytes: ...

    async def counted(self, call: Call, serve: Serve, endpoint: Endpoint, top: Top, body: bytes) -> int | None: ...

    async def aside(self, call: Call, serve: Serve, form: Form, body: bytes) -> bool: ...

    async def ask(self, call: Call, question: Coroutine[Any, Any, Found]) -> Found: ...

    async def carry(self, call: Call, serve: Serve, form: Form) -> None: ...

    def release(self, call: Call) -> None: ...


class Grades(Protocol):
    """Draws requests whose answers are to be graded. Neither method waits or raises."""

    def draw(self, plan: Plan, endpoint: Endpoint, may_use_cloud: bool, size: int) -> Sample | None:
        """None: this one is not graded. `size`: bytes of its body."""

    def offer(self, sample: Sample, tier: str, task_class: str, request_id: str) -> None:
        """It was answered by this tier."""


class Classifies(Protocol):
    """A second opinion on the class."""

    def wants(self, task: Task) -> bool:
        """Whether it has something to say."""

    async def settle(self, task: Task, seen: Outline, may_use_cloud: bool) -> Task:
        """The class as both decide it, soon. Raises nothing but CancelledError."""


class Foresees(Protocol):
    """Brings in ahead of time what will be wanted."""

    def on_plan(self, plan: Plan) -> None:
        """A request is planned. Neither waits nor raises."""


class Chooser:
    """`grades`: None as long as nothing is graded; `companion`: as long as no model is asked for classes; `foresight`:
    where nothing is brought in ahead of time.
    """

    def __init__(
        self,
        flow: Carries,
        speech: Speech,
        target: Callable[[str], Target | None],
        now: Callable[[], float],
        chance: Callable[[], float] | None = None,
        most_silent: float = 0.0,
    ) -> None:
        """`most_silent`: seconds of silence that an engine which works may have; 0: any."""
        self.grades: Grades | None = None
        self.companion: Classifies | None = None
        self.foresight: Foresees | None = None
        self.is_working: IsWorking = unknown
        """Whether the engine of a serve works, though nothing comes of it."""
        self._most_silent = most_silent
        self._chance = chance or random.Random().random
        self._flow = flow
        self._speech = speech
        self._target = target
        self._now = now

    async def answer(
        self, call: Call, caller: Caller, routing: Routing, endpoint: Endpoint, top: Top, body: bytes
    ) -> None:
        """The tiers that may serve it, one after the other, until one answers or the client has got a byte. Raises what
        the last of them failed with, ClientError 403 `no_tier`, or CapacityError 429 or 503 `rate_limited` where every
        tier that may serve it asked for a pause.
        """
        plan = await self._plan(call, caller, routing, endpoint, top, body)
        if self.foresight is not None and endpoint.generates:
            self.foresight.on_plan(plan)
        if routing.router.explore and endpoint.generates:
            plan = explored(plan, routing.router.explore, self._chance())
        grades = self.grades
        if grades is not None:
            call.sample = grades.draw(plan, endpoint, caller.key.cloud, len(body))
        decision = call.decision
        decision.routed = routed = routing.record(plan)
        named = {tier.name: tier.serve for tier in routing.router.tiers}  # a reload may change them meanwhile
        serves = {step.tier.name: routing.serve(step.tier) for step in plan.steps}
        dropped = [Candidate(named[one.tier], one.code) for one in plan.dropped]
        decision.candidates = list(dropped)
        if not plan.steps:
            raise _refusal(plan)
        pauses: list[float] = []
        for step in plan.steps:
            is_last = step is plan.steps[-1]
            serve = serves[step.tier.name]
            assert serve is not None, "who is not configured is no step"
            attempt = Attempt(step.tier.name)
            routed.attempts.append(attempt)
            failed = [Candidate(named[one.tier], one.outcome) for one in routed.attempts[:-1]]
            decision.candidates = [*dropped, *failed, Candidate(serve.name)]
            decision.input_tokens = decision.output_tokens = decision.cached_tokens = None  # an earlier attempt's
            began = self._now()
            routing.on_sent(step.tier.name)
            if is_last:
                call.begin_attempt(None, None)
            else:
                call.begin_attempt(routing.moves_on, self._timer(routing, step, top, body))
            try:
                await self._attempt(call, serve, step, attempt, endpoint, top, body)
                if (refused := call.reply.error) is not None:  # passed on in the serve's own words
                    attempt.outcome = recorded_code(refused)
                    self._flow.release(call)
                    routing.on_error(step.tier.name, refused, call.retry_after)
                    return
                routing.on_served(step.tier.name)
                attempt.outcome = "served"
                if top.stream and call.reply.began is not None:
                    routing.on_first_byte(step.tier.name, call.reply.began - call.sent)
                if grades is not None and call.sample is not None and call.reply.status == 200:
                    grades.offer(call.sample, step.tier.name, plan.task.name, decision.id)
                return
            except StokerError as error:
                attempt.outcome = recorded_code(error)
                self._flow.release(call)
                routing.on_error(step.tier.name, error, call.retry_after)
                if call.retry_after is not None:
                    pauses.append(call.retry_after)
                if is_last or not routing.moves_on(error) or _is_seen(call):
                    _tell_pause(error, pauses)
                    raise
                call.check()
            finally:
                self._flow.release(call)
                attempt.seconds = self._now() - began
                routing.note(step, attempt, routed, decision)

    def _timer(self, routing: Routing, step: Step, top: Top, body: bytes) -> FirstByteTimer | None:
        """Ends the attempt at a tier from which nothing comes; None: it may take any time."""
        prompt = len(body) // BYTES_PER_TOKEN
        seconds = routing.first_byte_timeout(step.tier, prompt, top.output_budget(), bool(top.stream))
        if seconds is None:
            return None
        return FirstByteTimer(step.tier.serve, seconds, self._most_silent, self.is_working)

    async def _plan(
        self, call: Call, caller: Caller, routing: Routing, endpoint: Endpoint, top: Top, body: bytes
    ) -> Plan:
        seen, declared = await self._flow.process(call, outline, endpoint.dialect, body)
        if routing.may_be_long(seen):
            tokens = await self._tokens(call, routing, endpoint, top, body) if routing.is_counted(seen) else None
            seen = routing.counted(seen, tokens)
        header = call.wire.headers.get(HEADER.encode())
        says = routing.declaration(top.model, None if header is None else header.decode("latin-1"), declared)
        if says.unknown:
            call.reply.tell(UNKNOWN.encode(), _printable(says.unknown))
        task = routing.classified(seen, says)

        companion = self.companion
        if companion is not None and endpoint.generates and companion.wants(task):
            task = await self._flow.ask(call, companion.settle(task, seen, caller.key.cloud))
            call.check()

        def speaks(serve: Serve) -> bool:
            target = self._target(serve.name)
            try:
                dialect_for(serve, endpoint.dialect, endpoint.path, None if target is None else target.speaks)
            except ClientError:
                return False
            return True

        return routing.plan(task, seen, Asking(caller.key.cloud, speaks, top.output_budget()))

    async def _tokens(self, call: Call, routing: Routing, endpoint: Endpoint, top: Top, body: bytes) -> int | None:
        """Of the prompt, counted by the first tier that runs, has a place and can count; None: there is none."""
        for serve in routing.loaded():
            if (tokens := await self._flow.counted(call, serve, endpoint, top, body)) is not None:
                return tokens
        return None

    async def _attempt(
        self, call: Call, serve: Serve, step: Step, attempt: Attempt, endpoint: Endpoint, top: Top, body: bytes
    ) -> None:
        """One tier; where what is held back of its answer is found wrong, once more: whole, or the call alone."""
        body = await self._flow.with_images(call, serve, endpoint, top, body)
        form = await self._flow.form(call, serve, endpoint, top, body, reads=step.verify in HOLDING)
        call.reply.tell(b"x-stoker-tier", step.tier.name.encode())
        if form.written is not None and await self._flow.aside(call, serve, form, body):
            return
        try:
            await self._checked(call, serve, step, attempt, form)
        except UpstreamError as error:
            answer = None if call.relay is None else call.relay.answer
            if error.code != REJECTED or form.written is None or not isinstance(answer, AnswerTranslator):
                raise
            goes_on = _is_seen(call)
            if goes_on and not (answer.can_go_on and OF_CALLS.issuperset(attempt.findings)):
                raise
            call.check()
            self._flow.release(call)
            attempt.input_tokens, attempt.output_tokens = call.decision.input_tokens, call.decision.output_tokens
            attempt.repairs += 1
            call.counted = "", None  # what is asked now is longer
            call.goes_on = answer if goes_on else None
            again = await self._flow.process(call, self._speech.again, form, attempt.findings)
            await self._checked(call, serve, step, attempt, again)

    async def _checked(self, call: Call, serve: Serve, step: Step, attempt: Attempt, form: Form) -> None:
        sample = call.sample
        is_read = step.verify is not Verify.OFF or sample is not None
        prompt = await self._flow.process(call, self._speech.prompt, form) if is_read else None
        call.check_of = check = None if prompt is None or step.verify is Verify.OFF else Checked(prompt, step.verify)
        if sample is not None and prompt is not None:
            call.check_of = sample.before(check, prompt, call.goes_on is not None)
        try:
            await self._flow.carry(call, serve, form)
        finally:
            call.check_of = None
            if check is not None and (check.is_wrong or call.reply.began is not None):
                attempt.checked = True
                attempt.findings = list(dict.fromkeys((*attempt.findings, *check.told())))


def _is_seen(call: Call) -> bool:
    """Whether the client has anything of an answer: then nothing can be taken back. A 200 with pings is nothing yet."""
    return call.reply.began is not None


def _printable(name: str) -> bytes:
    """A caller's own word, so that it can stand in a header: at most 64 characters, others than ASCII's as `?`."""
    return "".join(one if " " <= one <= "~" else "?" for one in name[:64]).encode()


def _refusal(plan: Plan) -> StokerError:
    if plan.pause is None:
        return ClientError(plan.refusal(), code="no_tier", status=403, param="model")
    error = CapacityError(plan.refusal(), code=RATE_LIMITED, retry_after=plan.pause)
    error.status = 429 if plan.pause_status == 429 else 503
    return error


def _tell_pause(error: StokerError, pauses: list[float]) -> None:
    """Whoever may ask again is told when the first of the tiers that asked for a pause may be asked."""
    if isinstance(error, CapacityError) and pauses:
        error.retry_after = min(pauses)
