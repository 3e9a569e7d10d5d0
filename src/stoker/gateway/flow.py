"""One inference request, step by step.

    accept    who asks, for what, how large is it              -> Caller, Endpoint, body
    read      what does the body say                           -> BodyFields
    decide    a serve: it, then its fallback                   -> Plan
              another name: `exchange.planner` says who answers -> Plan, or the answer
    carry     one candidate after the other: `exchange.attempts`
    finally   release what is still held; seal the decision, which happens only here: `_guard`

Whatever fails on the way is a StokerError, reported once, in the caller's dialect. A client that leaves ends its
request at whatever it is waiting for: `RequestContext.leave`.
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
from stoker.exchange.loading_notes import LoadingNotes
from stoker.exchange.planner import Answer, Candidates, PlannedRequest, Renamed
from stoker.exchange.request_context import RequestContext
from stoker.exchange.sessions import ANY_SESSION_HEADER, Sessions
from stoker.exchange.upstream_client import UpstreamClient
from stoker.exchange.waiting_bodies import WaitingBodies
from stoker.gateway.key_rules import apply_rules, show_limits
from stoker.gateway.media import read_media, requested_units
from stoker.gateway.outcome import first_token, record_answer, report_failure
from stoker.gateway.response_turns import ResponseTurns, WarmUpTurn
from stoker.gateway.responses import owner_of
from stoker.gateway.settings import FlowSettings, keys_of
from stoker.request.accept.bodies import BodyBudget, BodyWorker
from stoker.request.accept.connection import HttpExchange, wait_for_body
from stoker.request.codec.body_fields import BodyFields, read_body_fields
from stoker.request.codec.bounds import HEAVY, is_heavy
from stoker.request.codec.own_replies import names_model
from stoker.request.codec.request_defaults import apply_defaults
from stoker.request.codec.server_tools import holds_server_calls
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
        upstream_client: UpstreamClient,
        clock: Clock,
        seal: Callable[[Decision], None],
        usage: UsageTotals | None = None,
        turns: ResponseTurns | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """`seal(decision)` gets the record of every request, once, when it is over. `usage` gets what it consumed.
        `tracer`: None if telemetry is off.
        """
        self.active: dict[str, RequestContext] = {}
        self.bodies = BodyBudget(settings.body_budget)
        self.waiting_bodies = WaitingBodies()
        self.is_draining = False
        self._upstream_client = upstream_client
        self._attempts = Attempts(upstream_client)
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
        self._recorder = settings.recorder
        self._plans: dict[str, Plan] = {}
        """Of serves without a fallback, by name."""
        self._has_planners = bool(settings.planners)
        """Whether `model` may name something else than a serve."""
        self.bodies.resize(settings.body_budget)
        self.waiting_bodies.configure(settings.front_door.queue_bytes)
        secrets = (*keys_of(settings.front_door, settings.names.serves), *settings.secrets)
        self._upstream_client.configure(settings.front_door, settings.image_fetcher, secrets)

    def set_draining(self, is_draining: bool) -> None:
        """Refuse new requests, or admit them again."""
        self.is_draining = is_draining

    def close(self) -> None:
        """Stop the thread for large bodies. Waits for nothing."""
        self._body_worker.close()

    def open(self, exchange: HttpExchange) -> RequestContext:
        """A request has arrived. The client's own request id is kept if it is plain and not in use."""
        given = exchange.headers.get(b"x-request-id", b"")
        request_id = given.decode() if given and _PLAIN_ID.match(given) else ""
        if not request_id or request_id in self.active:  # requests with the same id could not be told apart
            request_id = f"{self._prefix}{next(self._ids):x}"
        reply = Reply(
            exchange, None, request_id, self._loop, self._clock.now, self._upstream_client.formatter.upstream_messages
        )
        decision = Decision(id=request_id, at=self._clock.wall(), endpoint=exchange.path)
        return RequestContext(exchange, reply, decision, self._clock.now(), self._body_worker, self.waiting_bodies)

    def serve(self, context: RequestContext, caller: Caller, endpoint: Endpoint) -> Coroutine[Any, Any, None]:
        """One inference request, from its body to its sealed decision. Raises nothing but CancelledError."""
        context.reply.set_dialect(endpoint.dialect)
        context.decision.endpoint = endpoint.path
        return self._guard(context, caller, self._infer(context, caller, endpoint))

    def pass_through(
        self,
        context: RequestContext,
        caller: Caller,
        serve: Serve,
        takes_place: bool,
        method: str,
        path: str,
        body: bytes,
    ) -> Coroutine[Any, Any, None]:
        """One request of /upstream/SERVE/PATH, unchanged. Raises nothing but CancelledError."""
        return self._guard(
            context, caller, self._upstream_client.pass_through(context, serve, takes_place, method, path, body)
        )

    def tunnel(
        self, context: RequestContext, caller: Caller, serve: Serve, path: Callable[[Target], str]
    ) -> Coroutine[Any, Any, None]:
        """One WebSocket session; see `UpstreamClient.tunnel`. Raises nothing but CancelledError."""
        return self._guard(context, caller, self._upstream_client.tunnel(context, serve, path))

    async def _infer(self, context: RequestContext, caller: Caller, endpoint: Endpoint) -> None:
        settings = self.settings
        if endpoint.is_media:
            fields, body = await read_media(context, caller, endpoint, settings)
            if self._recorder is not None:
                context.recording = self._recorder.begin(context, body if context.upload is None else b"")
            await self._answer(context, caller, endpoint, fields, body)
            return
        body = context.exchange.take_whole_body(self._body_limit) or await self._read_body(context)
        if self._recorder is not None:
            context.recording = self._recorder.begin(context, body)
        context.is_heavy = is_heavy(body)
        arguments = body, endpoint.streams_unasked, settings.front_door, caller.needs_model
        fields = (
            await context.process(read_body_fields, *arguments) if context.is_heavy else read_body_fields(*arguments)
        )
        if caller.has_defaults:
            body, fields = await self._apply_defaults(context, caller, endpoint, fields, body)
        turns, turn = self._turns, None
        if turns is not None and turns.concerns(context, endpoint, body):
            owner, serve = owner_of(context, caller), settings.names.find(fields.model)
            turn = await turns.begin(context, owner, endpoint, body, self._body_limit, serve)
        if turns is None or turn is None:
            answer = self._answer(context, caller, endpoint, fields, body)
            del body, arguments  # else they would be held until the answer has ended
            await answer
            return
        context.is_heavy = is_heavy(turn.body)
        expanded = turn.body, endpoint.streams_unasked, settings.front_door
        fields = await context.process(read_body_fields, *expanded)
        with turn.open(context):
            if isinstance(turn, WarmUpTurn):
                self._check_model(context, caller, turn.endpoint, fields)
                prompt, _ = await context.process(read_prompt, Dialect.RESPONSES, turn.body)
                turn.reply(
                    context, self._upstream_client.formatter.answer_writer(prompt, context.decision.id, fields.model)
                )
                return
            await self._answer(context, caller, turn.endpoint, fields, turn.body)
            await turns.finish(context, turn)

    async def _answer(
        self, context: RequestContext, caller: Caller, endpoint: Endpoint, fields: BodyFields, body: bytes
    ) -> None:
        """Answers the request with what its `model` names."""
        self._begin_reply(context, endpoint, fields)
        context.share = caller.share
        is_media = endpoint.is_media
        is_named = fields.session is not None or not ANY_SESSION_HEADER.isdisjoint(context.exchange.headers)
        if is_named and endpoint.streams and not is_media:  # what writes no text is no turn
            session = self._upstream_client.sessions.of_request(context.exchange.headers, fields, caller.name)
            if session is not None:
                context.join_session(session)
        if is_media:
            context.media = requested_units(context, endpoint, body)
        if caller.has_rules or fields.service_tier is not None:
            apply_rules(context, caller, endpoint, fields, len(body))
        plan: Plan | None = None
        hooks: AttemptHooks | None = None
        serve: Serve | None = None
        settings = self.settings
        if self._has_planners and not is_media and settings.may_be_planned(fields.model):
            planned = await self._ask_planners(context, caller, endpoint, fields, body)
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
            if context.charge is not None and serve.name in self._usage.costs:
                cost = expected_cost(self._usage.costs[serve.name], len(body), fields.output_budget())
                context.charge.reserve_cost(cost)
            plan = self._plans.get(serve.name)
            if plan is None or plan[0].serve is not serve:
                plan = plan_for(serve, settings.names, caller.may_use, endpoint)
                if serve.fallback is None:  # else it depends on who asks, and for what
                    self._plans[serve.name] = plan
        planner = None if is_media else settings.tool_planner
        if planner is not None and not fields.may_have_server_tools:
            may_hold = fields.may_hold_calls and bool(endpoint.dialect.spec.server_calls)
            if not (may_hold and await context.process(holds_server_calls, endpoint.dialect, body)):
                planner = None
        if planner is not None:
            request = PlannedRequest(
                context, caller, endpoint, fields, body, settings.names, settings.planner_by_name, fields.model
            )
            prepared = await planner.prepare(request, Candidates(plan, hooks))
            del request
            if isinstance(prepared, Answer):
                await prepared.write()
                return
            if prepared is not None:
                fields, body, (plan, hooks) = prepared
        answer = self._attempts.carry_out(context, plan, endpoint, fields, body, hooks)
        body = b""  # else it would be held until the answer has ended
        await answer

    def _check_model(self, context: RequestContext, caller: Caller, endpoint: Endpoint, fields: BodyFields) -> None:
        """A request that its model need not answer: it names one that its key may use, or is refused as any other."""
        self._begin_reply(context, endpoint, fields)
        if not self._has_meaning(fields.model, caller):
            self.settings.names.resolve(fields.model, caller.may_use)

    async def _ask_planners(
        self, context: RequestContext, caller: Caller, endpoint: Endpoint, fields: BodyFields, body: bytes
    ) -> Candidates | Answer | Serve:
        """How a request is answered whose `model` means no serve; a serve, if the name stands for it after all."""
        settings = self.settings
        model, planners = fields.model, settings.planner_by_name
        request = PlannedRequest(context, caller, endpoint, fields, body, settings.names, planners, model)
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

    async def _guard(self, context: RequestContext, caller: Caller, work: Coroutine[Any, Any, None]) -> None:
        """Run one request: admit it, report how it ended, release what it still holds, and seal its decision."""
        wire, reply, decision = context.exchange, context.reply, context.decision
        entered = has_begun = False
        self.active[decision.id] = context
        wire.on_lost = context.leave
        if self._tracer is not None:
            context.trace = self._tracer.begin(wire.method, wire.scheme, wire.headers, context.received_at)
        if wire.is_lost:
            context.leave()
        try:
            if self.is_draining:
                raise CapacityError(
                    "Stoker is draining and admits no new requests: try again later", code="draining", retry_after=5.0
                )
            decision.key = caller.name
            context.charge = caller.enter()
            entered = has_begun = True
            await work
            record_answer(context)
        except StokerError as error:
            if error.code == LIMIT_REACHED and error.source == "stoker":
                show_limits(context, caller)
            report_failure(context, error)
            error.__traceback__ = None  # see ClientLeft
        except ClientLeft as gone:
            # Some clients hang up as soon as they have read the end, before the connection reports it.
            was_answered = context.was_answered or (context.relay is not None and context.relay.has_sent_end)
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
            report_failure(
                context, OurBug(f"Stoker failed on this request; its log has the details under {decision.id}")
            )
        finally:
            if not has_begun:
                work.close()
            self._upstream_client.release(context)
            if context.upload is not None:
                context.upload.close()
            if entered:
                caller.leave(context.charge, amounts_of(context.usages, self._usage.costs) if context.charge else None)
            wire.on_lost = None
            if self.active.get(decision.id) is context:
                del self.active[decision.id]
            self._finish(context)
            self._usage.record(caller.key, decision, context.usages)

    @property
    def sessions(self) -> Sessions:
        return self._upstream_client.sessions

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
        waiting, size = 0, self._upstream_client.received(serve)
        for call in self.active.values():
            if call.relay is not None and call.decision.serve == serve:
                waiting += not call.exchange.is_paused
                size += call.relay.received
        return waiting, size

    # -- steps -----------------------------------------------------------------------------------------------------

    async def _read_body(self, context: RequestContext) -> bytes:
        await wait_for_body(context.exchange, self._body_limit)
        context.is_heavy = context.exchange.received >= HEAVY
        return await context.process(context.exchange.take_body)

    def _begin_reply(self, context: RequestContext, endpoint: Endpoint, fields: BodyFields) -> None:
        decision, front_door = context.decision, self.settings.front_door
        decision.model = fields.model[:200]
        decision.stream = bool(fields.stream)
        if fields.stream and names_model(endpoint.dialect):
            context.reply.model, context.reply.created = decision.model, int(self._clock.wall())
        if fields.stream and endpoint.streams and front_door.loading != "off":
            if front_door.loading == "reasoning" and endpoint.dialect is Dialect.CHAT:
                notes = LoadingNotes(context, self._upstream_client.leases, self._clock)
                context.reply.expect_announced_stream(front_door.commit_after, notes.next_event)
            else:
                context.reply.expect_stream(front_door.commit_after, front_door.keep_alive)

    async def _apply_defaults(
        self, context: RequestContext, caller: Caller, endpoint: Endpoint, fields: BodyFields, body: bytes
    ) -> tuple[bytes, BodyFields]:
        """The body with the defaults of the caller's key, and its fields."""
        defaults = caller.key.defaults
        model = defaults.model if defaults.model and not self._has_meaning(fields.model, caller) else None
        edited, context.notes = await context.process(
            apply_defaults, body, endpoint.dialect, defaults, caller.key.max_output, model
        )
        if not context.notes:
            return body, fields
        arguments = edited, endpoint.streams_unasked, self.settings.front_door
        return edited, await context.process(read_body_fields, *arguments)

    def _has_meaning(self, model: str, caller: Caller) -> bool:
        """Whether a name in `model` means anything to this caller."""
        settings = self.settings
        concerns = settings.concerns_planner(model, caller) if self._has_planners else None
        is_unknown_class = concerns is None and is_reserved(model)
        return concerns or is_unknown_class or settings.names.means(model, caller.may_use)

    def _finish(self, context: RequestContext) -> None:
        reply, decision = context.reply, context.decision
        decision.status = reply.status
        decision.ttft = first_token(context)
        decision.latency = self._clock.now() - context.received_at
        self._seal(decision)
        if context.trace is not None and self._tracer is not None:
            self._tracer.finish(context.trace, decision)


def _endless(model: str, names: Sequence[str]) -> OurBug:
    """Two planners, or more, rename to each other."""
    first, *others = [repr(name[:100]) for name in names]
    return OurBug(f"model {model[:100]!r} has no end: {first} stands for {', which stands for '.join(others)}")


def _any_serve(serve: Serve) -> bool:
    return True
