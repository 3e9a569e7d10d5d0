"""One inference request, step by step.

    accept    who asks, for what, how large is it              -> Caller, Endpoint, body
    read      what does the body say                           -> BodyFields
    decide    a serve: it, then its fallback                   -> Plan
              another name: `exchange.planner` says who answers -> Plan, or the answer
    carry     one candidate after the other: `exchange.attempts`
    finally   release what is still held; seal the decision, which happens only here: `_guard`

Whatever fails on the way is a StokerError, reported once, in the caller's dialect. A client that leaves ends its
request at whatever it is waiting for: `Call.leave`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from stoker.access.caller import Caller
from stoker.access.limits import LIMIT_REACHED
from stoker.access.quota import expected_cost
from stoker.access.usage import UsageTotals, amounts_of
from stoker.domain.decision import Decision
from stoker.domain.dialect import Dialect, Endpoint
from stoker.domain.errors import CapacityError, ClientLeft, OurBug, StokerError
from stoker.domain.lease import Target
from stoker.domain.protocols import Clock
from stoker.domain.routing import is_reserved
from stoker.domain.serve import Serve
from stoker.domain.trace import Tracer
from stoker.exchange.attempts import AttemptHooks, Attempts
from stoker.exchange.call import Call
from stoker.exchange.carrier import Carrier
from stoker.exchange.loading_notes import LoadingNotes
from stoker.exchange.planner import Answer, Candidates, PlannedRequest, Renamed
from stoker.exchange.waiting_bodies import WaitingBodies
from stoker.gateway.key_rules import apply_rules, show_limits
from stoker.gateway.media import read_media, requested_units
from stoker.gateway.outcome import first_token, record_answer, report_failure
from stoker.gateway.response_turns import ResponseTurns, WarmUpTurn
from stoker.gateway.responses import owner_of
from stoker.gateway.settings import FlowSettings, keys_of
from stoker.request.accept.bodies import BodyBudget, BodyWorker
from stoker.request.accept.connection import Wire, wait_for_body
from stoker.request.codec.body_fields import BodyFields, read_body_fields
from stoker.request.codec.bounds import HEAVY, is_heavy
from stoker.request.codec.own_replies import NAMES_MODEL
from stoker.request.codec.request_defaults import apply_defaults
from stoker.request.decide.plan import Plan, plan_for
from stoker.request.relay.reply import Reply
from stoker.request.translate.translate import read_prompt

log = logging.getLogger("stoker.flow")
_PLAIN_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,64}\Z")


class Flow:
    """Serves inference requests. `configure` applies to the next request."""

    def __init__(
        self,
        settings: FlowSettings,
        carrier: Carrier,
        clock: Clock,
        seal: Callable[[Decision], None],
        usage: UsageTotals | None = None,
        turns: ResponseTurns | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """`seal(decision)` gets the record of every request, once, when it is over. `usage` gets what it consumed.
        `tracer`: None if telemetry is off.
        """
        self.active: dict[str, Call] = {}
        self.bodies = BodyBudget(settings.body_budget)
        self.waiting_bodies = WaitingBodies()
        self.is_draining = False
        self._carrier = carrier
        self._attempts = Attempts(carrier)
        self._clock = clock
        self._seal = seal
        self._usage = usage or UsageTotals(clock.wall)
        self._turns = turns
        self._tracer = tracer
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(1)
        self._prefix = f"req_{os.urandom(6).hex()}_"
        self._body_worker = BodyWorker()
        self.configure(settings)

    def configure(self, settings: FlowSettings) -> None:
        self.settings = settings
        self._body_limit = settings.front_door.body_limit
        self._plans: dict[str, Plan] = {}
        """Of serves without a fallback, by name."""
        self._has_planners = bool(settings.planners)
        """Whether `model` may name something else than a serve."""
        self.bodies.resize(settings.body_budget)
        self.waiting_bodies.configure(settings.front_door.queue_bytes)
        secrets = (*keys_of(settings.front_door, settings.names.serves), *settings.secrets)
        self._carrier.configure(settings.front_door, settings.image_fetcher, secrets)

    def set_draining(self, is_draining: bool) -> None:
        """Refuse new requests, or admit them again."""
        self.is_draining = is_draining

    def close(self) -> None:
        """Stop the thread for large bodies. Waits for nothing."""
        self._body_worker.close()

    def open(self, wire: Wire) -> Call:
        """A request has arrived. The client's own request id is kept if it is plain and not in use."""
        given = wire.headers.get(b"x-request-id", b"")
        request_id = given.decode() if given and _PLAIN_ID.match(given) else ""
        if not request_id or request_id in self.active:  # requests with the same id could not be told apart
            request_id = f"{self._prefix}{next(self._ids):x}"
        reply = Reply(wire, None, request_id, self._loop, self._clock.now, self._carrier.formatter.upstream_messages)
        decision = Decision(id=request_id, at=self._clock.wall(), endpoint=wire.path)
        return Call(wire, reply, decision, self._clock.now(), self._body_worker, self.waiting_bodies)

    def serve(self, call: Call, caller: Caller, endpoint: Endpoint) -> Coroutine[Any, Any, None]:
        """One inference request, from its body to its sealed decision. Raises nothing but CancelledError."""
        call.reply.set_dialect(endpoint.dialect)
        call.decision.endpoint = endpoint.path
        return self._guard(call, caller, self._infer(call, caller, endpoint))

    def pass_through(
        self, call: Call, caller: Caller, serve: Serve, takes_place: bool, method: str, path: str, body: bytes
    ) -> Coroutine[Any, Any, None]:
        """One request of /upstream/SERVE/PATH, unchanged. Raises nothing but CancelledError."""
        return self._guard(call, caller, self._carrier.pass_through(call, serve, takes_place, method, path, body))

    def tunnel(
        self, call: Call, caller: Caller, serve: Serve, path: Callable[[Target], str]
    ) -> Coroutine[Any, Any, None]:
        """One WebSocket session; see `Carrier.tunnel`. Raises nothing but CancelledError."""
        return self._guard(call, caller, self._carrier.tunnel(call, serve, path))

    async def _infer(self, call: Call, caller: Caller, endpoint: Endpoint) -> None:
        settings = self.settings
        if endpoint.is_media:
            fields, body = await read_media(call, caller, endpoint, settings)
            await self._answer(call, caller, endpoint, fields, body)
            return
        body = call.wire.take_whole_body(self._body_limit) or await self._read_body(call)
        call.is_heavy = is_heavy(body)
        arguments = body, endpoint.streams_unasked, settings.front_door, caller.needs_model
        fields = await call.process(read_body_fields, *arguments) if call.is_heavy else read_body_fields(*arguments)
        if caller.has_defaults:
            body, fields = await self._apply_defaults(call, caller, endpoint, fields, body)
        turns, turn = self._turns, None
        if turns is not None and turns.concerns(call, endpoint, body):
            owner, serve = owner_of(call, caller), settings.names.find(fields.model)
            turn = await turns.begin(call, owner, endpoint, body, self._body_limit, serve)
        if turns is None or turn is None:
            answer = self._answer(call, caller, endpoint, fields, body)
            del body, arguments  # else they would be held until the answer has ended
            await answer
            return
        call.is_heavy = is_heavy(turn.body)
        expanded = turn.body, endpoint.streams_unasked, settings.front_door
        fields = await call.process(read_body_fields, *expanded)
        with turn.open(call):
            if isinstance(turn, WarmUpTurn):
                self._check_model(call, caller, turn.endpoint, fields)
                prompt, _ = await call.process(read_prompt, Dialect.RESPONSES, turn.body)
                turn.reply(call, self._carrier.formatter.answer_writer(prompt, call.decision.id, fields.model))
                return
            await self._answer(call, caller, turn.endpoint, fields, turn.body)
            await turns.finish(call, turn)

    async def _answer(self, call: Call, caller: Caller, endpoint: Endpoint, fields: BodyFields, body: bytes) -> None:
        """Answers the request with what its `model` names."""
        self._begin_reply(call, endpoint, fields)
        call.share = caller.share
        is_media = endpoint.is_media
        if is_media:
            call.media = requested_units(call, endpoint, body)
        if caller.has_rules or fields.service_tier is not None:
            apply_rules(call, caller, endpoint, fields, len(body))
        plan: Plan | None = None
        hooks: AttemptHooks | None = None
        serve: Serve | None = None
        settings = self.settings
        if self._has_planners and not is_media and settings.may_be_planned(fields.model):
            planned = await self._ask_planners(call, caller, endpoint, fields, body)
            if isinstance(planned, Answer):
                answer = planned.write()
                body = b""
                await answer
                return
            if isinstance(planned, Candidates):
                plan, hooks = planned
            else:
                serve = planned
        if plan is None:
            serve = serve or settings.names.resolve(fields.model, caller.may_use)
            if call.charge is not None and serve.name in self._usage.costs:
                cost = expected_cost(self._usage.costs[serve.name], len(body), fields.output_budget())
                call.charge.reserve_cost(cost)
            plan = self._plans.get(serve.name)
            if plan is None or plan[0].serve is not serve:
                plan = plan_for(serve, settings.names, caller.may_use, endpoint)
                if serve.fallback is None:  # else it depends on who asks, and for what
                    self._plans[serve.name] = plan
        answer = self._attempts.carry_out(call, plan, endpoint, fields, body, hooks)
        body = b""  # else it would be held until the answer has ended
        await answer

    def _check_model(self, call: Call, caller: Caller, endpoint: Endpoint, fields: BodyFields) -> None:
        """A request that its model need not answer: it names one that its key may use, or is refused as any other."""
        self._begin_reply(call, endpoint, fields)
        if not self._has_meaning(fields.model, caller):
            self.settings.names.resolve(fields.model, caller.may_use)

    async def _ask_planners(
        self, call: Call, caller: Caller, endpoint: Endpoint, fields: BodyFields, body: bytes
    ) -> Candidates | Answer | Serve:
        """How a request is answered whose `model` means no serve; a serve, if the name stands for it after all."""
        settings = self.settings
        model, planners = fields.model, settings.planner_by_name
        request = PlannedRequest(call, caller, endpoint, fields, body, settings.names, planners, model)
        planner = settings.planner_of(model)
        asked = {planner: model}
        while planner is not None:
            try:
                planned = await planner.plan(request)
            except SystemExit as error:
                raise RuntimeError(f"the planner of {request.model[:100]!r} ended with SystemExit") from error
            if planned is None:
                break
            if not isinstance(planned, Renamed):
                return planned
            fields.model = planned.model
            request = request._replace(model=planned.model, is_renamed=True)
            following = settings.planner_of(fields.model)
            if following is not None and following is not planner and following in asked:
                raise _endless(model, [*asked.values(), fields.model])
            planner = None if following is planner else following
            asked[planner] = fields.model
        may_use: Callable[[Serve], bool] = _any_serve if request.is_renamed else caller.may_use
        return settings.names.resolve(fields.model, may_use, settings.listed(caller, aliases=True))

    async def _guard(self, call: Call, caller: Caller, work: Coroutine[Any, Any, None]) -> None:
        """Run one request: admit it, report how it ended, release what it still holds, and seal its decision."""
        wire, reply, decision = call.wire, call.reply, call.decision
        entered = has_begun = False
        self.active[decision.id] = call
        wire.on_lost = call.leave
        if self._tracer is not None:
            call.trace = self._tracer.begin(wire.method, wire.scheme, wire.headers, call.received_at)
        if wire.is_lost:
            call.leave()
        try:
            if self.is_draining:
                raise CapacityError(
                    "Stoker is draining and admits no new requests: try again later", code="draining", retry_after=5.0
                )
            decision.key = caller.name
            call.charge = caller.enter()
            entered = has_begun = True
            await work
            record_answer(call)
        except StokerError as error:
            if error.code == LIMIT_REACHED and error.source == "stoker":
                show_limits(call, caller)
            report_failure(call, error)
            error.__traceback__ = None  # see ClientLeft
        except ClientLeft as gone:
            # Some clients hang up as soon as they have read the end, before the connection reports it.
            was_answered = call.was_answered or (call.relay is not None and call.relay.has_sent_end)
            decision.outcome = "served" if was_answered else "client_left"
            reply.abandon()
            # A Future that was awaited keeps its error, the error keeps its frames, and a frame keeps the Future and
            # the body: without this the bodies would stay until the garbage collector looks for cycles.
            gone.__traceback__ = None
        except asyncio.CancelledError:
            decision.outcome = "cut"
            reply.fail(CapacityError("Stoker is shutting down", code="shutting_down", retry_after=5.0))
            raise
        except Exception:
            log.exception("request %s broke inside Stoker", decision.id)
            report_failure(call, OurBug(f"Stoker failed on this request; its log has the details under {decision.id}"))
        finally:
            if not has_begun:
                work.close()
            self._carrier.release(call)
            if call.upload is not None:
                call.upload.close()
            if entered:
                caller.leave(call.charge, amounts_of(call.usages, self._usage.costs) if call.charge else None)
            wire.on_lost = None
            if self.active.get(decision.id) is call:
                del self.active[decision.id]
            self._finish(call)
            self._usage.record(caller.key, decision, call.usages)

    def cancel(self, request_id: str) -> bool:
        """End a request for the operator. False if no such request is under way."""
        call = self.active.get(request_id)
        if call is None:
            return False
        call.end(CapacityError("the request was cancelled by the operator", code="cut"))
        return True

    def load_of(self, serve: str) -> tuple[int, int]:
        """Requests that wait for a serve now, and bytes received from it so far.

        A request whose client does not read does not wait for the serve.
        """
        waiting, size = 0, self._carrier.received(serve)
        for call in self.active.values():
            if call.relay is not None and call.decision.serve == serve:
                waiting += not call.wire.is_paused
                size += call.relay.received
        return waiting, size

    # -- steps -----------------------------------------------------------------------------------------------------

    async def _read_body(self, call: Call) -> bytes:
        await wait_for_body(call.wire, self._body_limit)
        call.is_heavy = call.wire.received >= HEAVY
        return await call.process(call.wire.take_body)

    def _begin_reply(self, call: Call, endpoint: Endpoint, fields: BodyFields) -> None:
        decision, front_door = call.decision, self.settings.front_door
        decision.model = fields.model[:200]
        decision.stream = bool(fields.stream)
        if fields.stream and endpoint.dialect in NAMES_MODEL:
            call.reply.model, call.reply.created = decision.model, int(self._clock.wall())
        if fields.stream and endpoint.streams and front_door.loading != "off":
            if front_door.loading == "reasoning" and endpoint.dialect is Dialect.CHAT:
                notes = LoadingNotes(call, self._carrier.leases, self._clock)
                call.reply.expect_announced_stream(front_door.commit_after, notes.next_event)
            else:
                call.reply.expect_stream(front_door.commit_after, front_door.keep_alive)

    async def _apply_defaults(
        self, call: Call, caller: Caller, endpoint: Endpoint, fields: BodyFields, body: bytes
    ) -> tuple[bytes, BodyFields]:
        """The body with the defaults of the caller's key, and its fields."""
        defaults = caller.key.defaults
        model = defaults.model if defaults.model and not self._has_meaning(fields.model, caller) else None
        edited, call.notes = await call.process(
            apply_defaults, body, endpoint.dialect, defaults, caller.key.max_output, model
        )
        if not call.notes:
            return body, fields
        arguments = edited, endpoint.streams_unasked, self.settings.front_door
        return edited, await call.process(read_body_fields, *arguments)

    def _has_meaning(self, model: str, caller: Caller) -> bool:
        """Whether a name in `model` means anything to this caller."""
        settings = self.settings
        concerns = settings.concerns_planner(model, caller) if self._has_planners else None
        is_unknown_class = concerns is None and is_reserved(model)
        return concerns or is_unknown_class or settings.names.means(model, caller.may_use)

    def _finish(self, call: Call) -> None:
        reply, decision = call.reply, call.decision
        decision.status = reply.status
        decision.ttft = first_token(call)
        decision.latency = self._clock.now() - call.received_at
        self._seal(decision)
        if call.trace is not None and self._tracer is not None:
            self._tracer.finish(call.trace, decision)


def _endless(model: str, names: Sequence[str]) -> OurBug:
    """Two planners, or more, rename to each other."""
    first, *others = [repr(name[:100]) for name in names]
    return OurBug(f"model {model[:100]!r} has no end: {first} stands for {', which stands for '.join(others)}")


def _any_serve(serve: Serve) -> bool:
    return True
