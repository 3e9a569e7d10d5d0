"""One request on one screen.

    accept   who is it, what is asked, how large is it            -> Caller, Route, body
    codec    what does the body say                               -> Top
    decide   which serve is meant                                 -> Serve
    speech   as it came, or in another dialect                    -> Form
    lease    may it run now                                       -> Lease, at once or after a wait
    relay    the upstream call, streamed both ways
    finally  the lease is released, the decision sealed: here and nowhere else

Whatever goes wrong on the way is a StokerError, told once, in the caller's dialect. A client that leaves ends the
request wherever it stands: `Call.leave`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from stoker.domain.access import FrontDoor, Media
from stoker.domain.conversation import ConversationKeeper
from stoker.domain.decision import Candidate, Decision
from stoker.domain.dialect import Dialect, Endpoint
from stoker.domain.errors import (
    BEYOND_THE_DEVICE,
    CapacityError,
    ClientLeft,
    OurBug,
    StartFailed,
    StokerError,
    UpstreamError,
)
from stoker.domain.lease import Lease
from stoker.domain.protocols import Clock, Leases
from stoker.domain.routing import AUTO, is_reserved
from stoker.domain.serve import Serve
from stoker.exchange.call import Call
from stoker.exchange.formatter import Form, Speech
from stoker.exchange.leasing import granted
from stoker.request.accept.body import arrive, whole_body
from stoker.request.accept.budget import BodyBudget, budget_for
from stoker.request.accept.door import Caller
from stoker.request.accept.reader import BodyReader
from stoker.request.accept.wire import Wire
from stoker.request.codec.bounds import HEAVY, is_heavy
from stoker.request.codec.frames import recorded_code
from stoker.request.codec.peek import Top, peek
from stoker.request.codec.upstream import Words
from stoker.request.decide.context import check_context, may_exceed
from stoker.request.decide.dialects import dialect_for
from stoker.request.decide.names import Names
from stoker.request.relay.headers import request_head
from stoker.request.relay.pictures import Pictures
from stoker.request.relay.pool import Pool
from stoker.request.relay.relay import Limits, Relay
from stoker.request.relay.reply import Reply
from stoker.request.relay.tokens import count, count_by_asking
from stoker.request.translate.neutral.thinking import Signer
from stoker.request.translate.ollama.asking import wants_unload
from stoker.request.translate.ollama.write_answer import load_answer
from stoker.request.translate.remote import addresses, inlined
from stoker.routing.dispatch import Chooser
from stoker.routing.router import Routing

log = logging.getLogger("stoker.flow")
NOTICED_WITHIN = 0.05
"""Seconds after which the end of a serve's process has been noticed."""
_SILENT = (408, 504)
"""Statuses of `stalled`: the client, or the serve, was silent for too long."""
Found = TypeVar("Found")
_GIVEN_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}\Z")


class Flow:
    """Serves inference requests. `cancel(request_id)` ends one from outside."""

    def __init__(
        self,
        front_door: FrontDoor,
        names: Names,
        leases: Leases,
        pool: Pool,
        clock: Clock,
        seal: Callable[[Decision], None],
        note: Callable[[str, str], None] = lambda serve, text: None,
        conversations: ConversationKeeper | None = None,
        signer: Signer | None = None,
        pictures: Pictures | None = None,
    ) -> None:
        self.names = names
        self.front_door = front_door
        self.active: dict[str, Call] = {}
        self.is_draining = False
        self._leases = leases
        self._pool = pool
        self._clock = clock
        self._seal = seal
        self._note = note
        self._conversations = conversations
        self.pictures = pictures or Pictures(Media())
        self.routing: Routing | None = None
        """Who serves a request that names a task; None: every request names its model."""
        self.words = Words(front_door.upstream_errors == "show", keys_of(front_door, names.serves))
        self._speech = Speech(signer or Signer((os.urandom(32),)), clock.wall, self.words)
        self.chooser = Chooser(self, self._speech, leases.target, clock.now, most_silent=front_door.stall_timeout)
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(1)
        self._prefix = f"req_{os.urandom(6).hex()}_"
        self.bodies = BodyBudget(budget_for(front_door, None))
        self.reader = BodyReader()
        self._relayed: dict[str, int] = {}
        self._limits = Limits(front_door.keep_alive, front_door.stall_timeout)

    def configure(self, front_door: FrontDoor, serves: Iterable[Serve], secrets: Iterable[str]) -> None:
        """Serve the next request by this front door. `secrets`: what clients may not see beside the keys."""
        self.front_door = front_door
        self.words.configure(front_door.upstream_errors == "show", [*keys_of(front_door, serves), *secrets])
        self._limits = Limits(front_door.keep_alive, front_door.stall_timeout)

    def open(self, wire: Wire) -> Call:
        """A request has come; its decision is open. The client's own request id is kept if it is plain."""
        given = wire.headers.get(b"x-request-id", b"")
        request_id = given.decode() if given and _GIVEN_ID.match(given) else ""
        if not request_id or request_id in self.active:  # two at once would be ended, and counted, as one
            request_id = f"{self._prefix}{next(self._ids):x}"
        reply = Reply(wire, None, request_id, self._loop, self._clock.now, self.words)
        decision = Decision(id=request_id, at=self._clock.wall(), endpoint=wire.path)
        return Call(wire, reply, decision, self._clock.now())

    def serve(self, call: Call, caller: Caller, endpoint: Endpoint) -> Coroutine[Any, Any, None]:
        """One inference request, from its body to its sealed decision. Never raises but CancelledError."""
        call.reply.dialect = endpoint.dialect
        call.decision.endpoint = endpoint.path
        return self._guarded(call, caller, self._infer(call, caller, endpoint))

    def upstream(
        self, call: Call, caller: Caller, serve: Serve, counted: bool, method: str, path: str, body: bytes
    ) -> Coroutine[Any, Any, None]:
        """One request of /upstream/SERVE/PATH, passed on as it is. Never raises but CancelledError."""
        return self._guarded(call, caller, self._pass(call, serve, counted, method, path, body))

    async def _infer(self, call: Call, caller: Caller, endpoint: Endpoint) -> None:
        body = whole_body(call.wire, self.front_door.body_limit) or await self._arrived(call)
        call.is_heavy = is_heavy(body)
        top = await self.process(call, peek, body, endpoint.streams_unasked, self.front_door)
        self._expect(call, endpoint, top)
        if self.routing is not None:
            name = self.routing.meant(top.model)
            if name is not None and caller.may_choose(name):
                await self.chooser.answer(call, caller, self.routing, endpoint, top, body)
                return
            if name is None and is_reserved(top.model) and caller.may_choose(AUTO):
                raise self.routing.no_class(top.model)
        serve = self.names.resolve(top.model, caller.may_use)
        if self.pictures.policy.fetch:
            body = await self.with_images(call, serve, endpoint, top, body)
        form = await self.form(call, serve, endpoint, top, body)
        if form.written is not None and await self.aside(call, serve, form, body):
            return
        try:
            await self.carry(call, serve, form)
        except StokerError as error:
            instead = await self._fallback(call, caller, serve, endpoint, error)
            if instead is None:
                raise
            await self.carry(call, instead, await self.form(call, instead, endpoint, top, body))

    async def _arrived(self, call: Call) -> bytes:
        """The body that comes in more than one read."""
        await arrive(call.wire, self.front_door.body_limit)
        call.is_heavy = call.wire.received >= HEAVY
        return await self.process(call, call.wire.take_body)

    async def process(self, call: Call, work: Callable[..., Found], *args: Any) -> Found:
        """Something that takes the longer the larger the request is. What is heavy is done by the thread for it.

        Raises what `work` does, and what the request was ended with meanwhile.
        """
        if not call.is_heavy:
            return work(*args)
        found = await self.reader.run(lambda: None if call.ending is not None else work(*args))
        call.check()
        return cast(Found, found)

    async def carry(self, call: Call, serve: Serve, form: Form) -> None:
        endpoint = form.endpoint
        if endpoint.generates and may_exceed(serve.context, len(form.body), form.top.output_budget()):
            await self._check_context(call, serve, form)
        lease = self._lease_now(call, serve, endpoint.generates) or await self._lease_later(call)
        try:
            if serve.keep_conversations:
                await self._settle(call, serve, lease, form)
            await self._send(call, lease, form)
        except UpstreamError as error:
            if error.code != "unreachable":
                raise
            # Nothing was sent. A serve that has just died is known to be gone a moment later, and started again.
            self.release(call)
            await asyncio.sleep(NOTICED_WITHIN)
            lease = self._lease_now(call, serve, endpoint.generates) or await self._lease_later(call)
            if serve.keep_conversations:
                await self._settle(call, serve, lease, form)
            await self._send(call, lease, form)

    async def aside(self, call: Call, serve: Serve, form: Form, body: bytes) -> bool:
        """What asks for no answer: a model is to be loaded, or tokens are to be counted. False: it asks for one."""
        if form.loads_only:
            await self._load(call, serve, form, body)
        elif form.counts_only:
            await self._count(call, serve, form)
        else:
            return False
        return True

    async def _load(self, call: Call, serve: Serve, form: Form, body: bytes) -> None:
        """An Ollama client wants a model loaded, or unloaded, and nothing said. Stoker itself decides what stays."""
        unloads = await self.process(call, wants_unload, body)
        if not unloads:
            self._lease_now(call, serve, counted=False) or await self._lease_later(call)
        generate = form.client.dialect is Dialect.OLLAMA_GENERATE
        said = load_answer(form.top.model, int(self._clock.wall()), unloads, generate)
        call.reply.whole(200, [(b"content-type", b"application/json")], msgspec.json.encode(said))

    async def _count(self, call: Call, serve: Serve, form: Form) -> None:
        """A Messages client wants its tokens counted, and the serve has no path for that: the engine's own counter for
        the request as it would be sent; else what the engine counts when it is sent, for one token of answer.
        """
        source, tokens = "engine", await self._counted(call, serve, form)
        if tokens is None:
            source, form = "generation", await self.process(call, self._speech.one_token, form)
            lease = self._lease_now(call, serve, counted=True) or await self._lease_later(call)
            asked = (await self.process(call, form.edited, lease.target.served_name)).body
            tokens = await self.ask(call, count_by_asking(self._pool, lease.target, form.endpoint.path, asked))
        call.check()
        if tokens is None:
            text = f"serve '{serve.name}' did not count the tokens: it has no counter, and its answer tells none"
            raise UpstreamError(text, code="not_counted", status=501)
        call.reply.tell(b"x-stoker-token-count", source.encode())
        call.reply.whole(200, [(b"content-type", b"application/json")], b'{"input_tokens":%d}' % tokens)

    async def _pass(self, call: Call, serve: Serve, counted: bool, method: str, path: str, body: bytes) -> None:
        lease = self._lease_now(call, serve, counted) or await self._lease_later(call)
        head = request_head(method.encode(), path, lease.target, call.wire.given, len(body), plain=False)
        await self._relay(call, lease).send(lease.target, head, body)

    async def _guarded(self, call: Call, caller: Caller, work: Coroutine[Any, Any, None]) -> None:
        """The frame around every request: who is counted in is counted out, and the lease ends, here."""
        wire, reply, decision = call.wire, call.reply, call.decision
        entered = False
        self.active[decision.id] = call
        wire.on_lost = call.leave
        if wire.is_lost:
            call.leave()
        try:
            if self.is_draining:
                raise CapacityError("Stoker is draining: nothing new is admitted", code="draining", retry_after=5.0)
            caller.enter()
            entered = True
            decision.key = caller.key.name
            await work
            self._answered(call)
        except StokerError as error:
            self._failed(call, error)
            error.__traceback__ = None  # see ClientLeft
        except ClientLeft as gone:
            # Some clients hang up as soon as they know the end, before the connection does.
            decision.outcome = "served" if call.relay is not None and call.relay.has_told_all else "client_left"
            reply.abandon()
            # A Future that somebody waited for keeps its error, the error its frames, and a frame both the Future and
            # the body: without this the bodies would stay until the collector looks for cycles, which it does rarely.
            gone.__traceback__ = None
        except asyncio.CancelledError:
            decision.outcome = "cut"
            reply.fail(CapacityError("Stoker is shutting down", code="shutting_down", retry_after=5.0))
            raise
        except Exception:
            log.exception("request %s broke inside Stoker", decision.id)
            self._failed(call, OurBug(f"Stoker failed on this request; its log has the details under {decision.id}"))
        finally:
            work.close()
            self.release(call)
            if entered:
                caller.leave()
            wire.on_lost = None
            if self.active.get(decision.id) is call:
                del self.active[decision.id]
            self._close(call)

    def cancel(self, request_id: str) -> bool:
        """End a request from outside (the operator). False if no such request is under way."""
        call = self.active.get(request_id)
        if call is None:
            return False
        call.end(CapacityError("the request was cancelled by the operator", code="cut"))
        return True

    def work(self, serve: str) -> tuple[int, int]:
        """Requests that wait for a serve just now, and bytes that came from it so far.

        One whose client does not read is not waiting for the serve.
        """
        waiting, size = 0, self._relayed.get(serve, 0)
        for call in self.active.values():
            if call.relay is not None and call.decision.serve == serve:
                waiting += not call.wire.is_paused
                size += call.relay.received
        return waiting, size

    # -- steps -----------------------------------------------------------------------------------------------------

    def _expect(self, call: Call, endpoint: Endpoint, top: Top) -> None:
        decision = call.decision
        decision.model = top.model[:200]
        decision.stream = bool(top.stream)
        if top.stream and endpoint.streams:
            call.reply.expect_stream(self.front_door.commit_after, self.front_door.keep_alive)

    async def form(
        self, call: Call, serve: Serve, endpoint: Endpoint, top: Top, body: bytes, reads: bool = False
    ) -> Form:
        """The request as this serve gets it; it is this serve's from here on."""
        decision = call.decision
        target = self._leases.target(serve.name)
        try:
            form = await self.process(call, self._speech.form, serve, target, endpoint, top, body, reads)
        except StokerError as error:
            decision.candidates = [*decision.candidates[:-1], Candidate(serve.name, error.code)]
            raise
        if not decision.candidates:
            decision.candidates = [Candidate(serve.name)]
        decision.serve = serve.name
        decision.translation = ""
        call.reply.tell(b"x-stoker-serve", serve.name.encode())
        return form

    async def with_images(self, call: Call, serve: Serve, endpoint: Endpoint, top: Top, body: bytes) -> bytes:
        """The body with the images in the place of their addresses, for a serve that does not take those.

        Its fallback is given them too, whatever that takes: an image is always right.
        """
        if not self.pictures.policy.fetch:
            return body
        target = self._leases.target(serve.name)
        if not self._speech.needs_images(serve, target, endpoint):
            return body
        urls = await self.process(call, addresses, endpoint.dialect, body)
        if not urls:
            return body
        try:
            found = await self.ask(call, self.pictures.fetch_all(urls))
        except StokerError as error:
            call.decision.candidates = [Candidate(serve.name, error.code)]
            raise
        call.check()
        top.model_at = None  # where it stood in the old body
        call.counted = "", None
        size = len(body) + sum(len(data) for _, data in found.values())
        call.is_heavy = call.is_heavy or size >= HEAVY  # the request is now as large as its images
        return await self.process(call, inlined, endpoint.dialect, body, found)

    async def _fallback(
        self, call: Call, caller: Caller, serve: Serve, endpoint: Endpoint, error: StokerError
    ) -> Serve | None:
        """The serve to use instead, where this one's device was not up to it and nothing was sent yet; or None."""
        if serve.fallback is None or call.reply.began is not None:
            return None
        self.release(call)
        code = error.code
        if isinstance(error, UpstreamError):  # it may have died of it just now
            await asyncio.sleep(NOTICED_WITHIN)
            code = self._leases.failure(serve.name)
        if code not in BEYOND_THE_DEVICE:
            return None
        call.check()
        try:
            instead = self.names.resolve(serve.fallback, caller.may_use)
            dialect_for(instead, endpoint.dialect, endpoint.path)
        except StokerError:
            return None  # the first error says more
        call.decision.candidates = [Candidate(serve.name, code), Candidate(instead.name)]
        call.reply.tell(b"x-stoker-fallback", f"{serve.name}: {code}".encode())
        return instead

    async def _check_context(self, call: Call, serve: Serve, form: Form) -> None:
        """Ask the engine to count before a place is taken; a cold serve is loaded first. Unknown counts pass."""
        form.tokens = tokens = await self._counted(call, serve, form)
        if tokens is not None and serve.context is not None:
            check_context(serve.name, serve.context, tokens, form.top.output_budget())

    async def counted(self, call: Call, serve: Serve, endpoint: Endpoint, top: Top, body: bytes) -> int | None:
        """Prompt tokens by this serve's own counter, where that loads nothing and nobody waits for it; None: it cannot
        tell. On cancel the question is given up, and its lease.
        """
        target = self._leases.target(serve.name)
        if target is None:
            return None
        try:
            form = await self.process(call, self._speech.form, serve, target, endpoint, top, body)
            lease = self._lease_now(call, serve, counted=False)
            if lease is None:
                if call.waiting is not None:
                    call.waiting.cancel()
                    call.waiting = None
                return None
            tokens = await self._told(call, lease, form)
        except StokerError:
            call.check()
            return None
        if tokens is not None:
            call.counted = serve.name, tokens
        return tokens

    async def _counted(self, call: Call, serve: Serve, form: Form) -> int | None:
        """Prompt tokens by the engine's own counter, without a place; None: it has none."""
        if call.counted[0] == serve.name:
            return call.counted[1]
        lease = self._lease_now(call, serve, counted=False) or await self._lease_later(call)
        return await self._told(call, lease, form)

    async def _told(self, call: Call, lease: Lease, form: Form) -> int | None:
        """The lease is given back."""
        try:
            asked = (await self.process(call, form.edited, lease.target.served_name)).body
            read = partial(self.process, call)
            tokens = await self.ask(call, count(self._pool, lease.target, form.endpoint.dialect, asked, read))
        finally:
            lease.release()
            call.lease = None
        call.check()
        return tokens

    async def _settle(self, call: Call, serve: Serve, lease: Lease, form: Form) -> None:
        """Where conversations are kept: a sequence of the engine for this one, with what was saved of it."""
        keeper = self._conversations
        if keeper is not None and form.endpoint.generates:
            lease.on_cut = call.cut
            given = serve, lease.target, call.decision.key, form.endpoint.dialect, form.body
            call.stay = await self.process(call, keeper.begin, *given)
            if call.stay is not None:
                await self.ask(call, call.stay.prepare())
                call.check()

    async def ask(self, call: Call, question: Coroutine[Any, Any, Found]) -> Found:
        """Ask the engine something before the call; ended with the request."""
        try:
            task = self._loop.create_task(question)
            call.asking = task
            return await task
        except asyncio.CancelledError:
            call.check()  # whoever ended the request cancelled the question, not the request
            raise
        finally:
            call.asking = None

    def _lease_now(self, call: Call, serve: Serve, counted: bool) -> Lease | None:
        """A lease; or None, and `call.waiting` will have it."""
        call.check()
        got = self._leases.acquire(serve.name, counted)
        if isinstance(got, Lease):
            call.lease = got
            return got
        call.waiting = got
        return None

    async def _lease_later(self, call: Call) -> Lease:
        waiting = call.waiting
        assert waiting is not None
        try:
            lease = call.lease = await granted(waiting)
        finally:
            call.waiting = None
        if lease.waited:
            call.decision.queued = (call.decision.queued or 0.0) + lease.waited
        call.check()
        return lease

    async def _send(self, call: Call, lease: Lease, form: Form) -> None:
        target, decision = lease.target, call.decision
        sequence = call.stay.sequence if call.stay is not None else None
        lease.on_cut = call.cut
        given = form, target, call.wire.given, decision.id, sequence, call.check_of
        sending = await self.process(call, self._speech.sending, *given)
        answer = sending.answer
        if call.goes_on is not None:
            answer = call.goes_on
            call.goes_on.go_on(call.check_of)
        if sending.words and not decision.translation:
            decision.translation = ",".join(sending.words)
            call.reply.tell(b"x-stoker-translation", decision.translation.encode())
        dialect = form.endpoint.dialect
        relay = self._relay(call, lease)
        await relay.send(
            target, sending.head, sending.body, dialect, sending.remove_usage, answer, form.endpoint.generates
        )

    def _relay(self, call: Call, lease: Lease) -> Relay:
        if lease.target.key is not None:  # a serve that Stoker starts may have a new one
            self.words.learn(lease.target.key)
        relay = call.relay = Relay(call.reply, self._pool, self._limits)
        if call.declines is not None:
            relay.declines = call.declines
        if call.first_byte is not None:
            call.first_byte.begin(relay)
        call.sent = self._clock.now()
        lease.on_cut = relay.cut
        call.decision.attempts += 1
        return relay

    def release(self, call: Call) -> None:
        """Whatever the call holds is given back: the upstream connection, then the lease."""
        relay, decision = call.relay, call.decision
        if call.first_byte is not None:
            call.first_byte.stop()
        if relay is not None:
            call.relay = None
            call.retry_after = relay.retry_after
            relay.close()
            self._relayed[decision.serve] = self._relayed.get(decision.serve, 0) + relay.received
            usage = relay.usage
            decision.input_tokens, decision.output_tokens = usage.input, usage.output
            decision.cached_tokens = usage.cached
            if relay.answer is not None:
                decision.translation = relay.answer.told().decode() or decision.translation
            if relay.upstream_status >= 500 or relay.upstream_status in (401, 403, 407):  # the serve's fault, or ours
                self._note(decision.serve, f"HTTP {relay.upstream_status} to {decision.id}")
        stay, call.stay = call.stay, None
        if stay is not None:
            stay.end(None if relay is None else _tokens(relay))
        lease, call.lease = call.lease, None
        if lease is not None:
            lease.release()

    def _answered(self, call: Call) -> None:
        """The reply is complete. One that is an error in the serve's own words is told as what it is."""
        reply, decision = call.reply, call.decision
        if reply.error is not None:
            decision.outcome, decision.reason = _outcome(reply.error), recorded_code(reply.error)
        else:
            decision.outcome = "served" if reply.status < 400 else "refused"

    def _failed(self, call: Call, error: StokerError) -> None:
        decision = call.decision
        decision.reason = recorded_code(error)
        if call.is_left:
            decision.outcome = "client_left"
            call.reply.abandon()
            return
        decision.outcome = _outcome(error)
        if decision.outcome == "refused" and call.reply.began is not None:
            decision.outcome = "upstream_failed"  # the client has a part of an answer
        call.reply.fail(error, close=decision.model == "")

    def _close(self, call: Call) -> None:
        reply, decision = call.reply, call.decision
        decision.status = reply.status
        decision.ttft = None if reply.began is None else reply.began - call.began
        decision.latency = self._clock.now() - call.began
        self._seal(decision)


def keys_of(front_door: FrontDoor, serves: Iterable[Serve]) -> list[str]:
    """Every key that is configured."""
    keys = [key.value for key in front_door.keys] + [serve.key for serve in serves if serve.key is not None]
    return [key.reveal() for key in keys]


def _tokens(relay: Relay) -> int | None:
    """Of prompt and answer; None: the serve did not come to say. Messages do not count the cached ones as input."""
    usage = relay.usage
    if usage.input is None or usage.output is None:
        return None
    return max(usage.input, usage.cached or 0) + usage.output


def _outcome(error: StokerError) -> str:
    """1. ended by Stoker or by silence  2. a bug  3. the serve failed, or did not start  4. it, or Stoker, refused.

    A serve's own words for its refusal are no reason of ours: only our errors are looked at by their code.
    """
    if (error.code == "cut" and isinstance(error, CapacityError)) or (
        error.code == "stalled" and error.status in _SILENT
    ):
        return error.code
    if isinstance(error, OurBug):
        return "bug"
    return "upstream_failed" if isinstance(error, UpstreamError | StartFailed) else "refused"
