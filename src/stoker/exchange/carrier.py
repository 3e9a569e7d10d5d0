"""Carries a request to one serve: formats it, leases the serve, sends, streams the answer back, releases.

    format                      the request as this serve gets it; the decision names the serve from here on
    load_or_count_only          a load or a token count needs no answer of the model
    lease_and_send              check the context, take a lease (at once or after a wait), attach the kept conversation,
                                send; one more attempt if the serve turned out to be gone
    release                     give everything back: connection, conversation, lease. May be called at any time

Which serve is asked, and what follows an error, is decided by the callers: `gateway.flow` and `routing.dispatch`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from stoker.domain.access import FrontDoor, Media
from stoker.domain.conversation import ConversationSequences
from stoker.domain.decision import Candidate
from stoker.domain.dialect import Dialect, Endpoint, RequestForm
from stoker.domain.errors import ClientError, OutputLimitTooHigh, StokerError, UnsupportedInput, UpstreamError
from stoker.domain.lease import Lease, Target
from stoker.domain.prompt_chain import PromptChain
from stoker.domain.protocols import Clock, Leases
from stoker.domain.replica_wish import ReplicaWish
from stoker.domain.serve import Serve
from stoker.domain.usage import ServeUsage
from stoker.exchange.call import Call
from stoker.exchange.counting import EDITS, TokenCounter, lower_output_limit
from stoker.exchange.first_byte import FirstByteWatch, IsWorking, never_working
from stoker.exchange.formatter import EncodedRequest, Formatter, UpstreamRequest
from stoker.exchange.images import ImageInliner
from stoker.exchange.media import EncodedMedia, encode_media
from stoker.exchange.metering import estimated
from stoker.request.codec.body_fields import BodyFields
from stoker.request.codec.prompt_chain import prompt_chain
from stoker.request.codec.upstream_errors import KEY_REFUSED_STATUSES, is_about_seals, recorded_code
from stoker.request.codec.websocket import close_frame, handshake_headers
from stoker.request.decide.context import may_exceed
from stoker.request.decide.failover import moves_on
from stoker.request.relay.headers import FORWARDED, reply_headers, request_head, tunnel_head
from stoker.request.relay.image_fetcher import ImageFetcher
from stoker.request.relay.pool import ConnectionPool
from stoker.request.relay.relay import Limits, Relay
from stoker.request.relay.tunnel import session_refused
from stoker.request.translate.ollama.embed import empty_answer
from stoker.request.translate.ollama.request_fields import wants_unload
from stoker.request.translate.ollama.write_answer import load_answer

EXIT_NOTICED_WITHIN = 0.05
"""Seconds after which the exit of a serve's process has been noticed."""


class Carrier:
    """Used by all requests. `note(serve, text)` gets what operators should know about a serve."""

    def __init__(
        self,
        leases: Leases,
        pool: ConnectionPool,
        formatter: Formatter,
        clock: Clock,
        note: Callable[[str, str], None] = lambda serve, text: None,
        conversations: ConversationSequences | None = None,
        is_working: IsWorking = never_working,
    ) -> None:
        """`is_working(serve)`: whether an engine that has not begun its answer is working on it."""
        self.leases = leases
        self.formatter = formatter
        self.counter = TokenCounter(leases, pool, formatter)
        self.images = ImageInliner(leases, formatter, ImageFetcher(Media()))
        self._pool = pool
        self._clock = clock
        self._note = note
        self._conversations = conversations
        self._limits = Limits(0.0, 0.0)
        self.first_bytes = FirstByteWatch(is_working)
        self._received: defaultdict[str, int] = defaultdict(int)
        """Bytes received from each serve by calls that ended."""

    def configure(self, front_door: FrontDoor, image_fetcher: ImageFetcher, secrets: Iterable[str]) -> None:
        """Apply to the next request. `secrets`: what clients must not see in an engine's error texts."""
        self.images = ImageInliner(self.leases, self.formatter, image_fetcher)
        self._limits = Limits(front_door.keep_alive, front_door.stall_timeout)
        self.first_bytes.configure(front_door.stall_timeout)
        self.formatter.upstream_messages.configure(front_door.upstream_errors == "show", secrets)

    def target(self, serve: str) -> Target | None:
        """Where a serve answers; None: it is not ready."""
        return self.leases.target(serve)

    async def format(
        self, call: Call, serve: Serve, endpoint: Endpoint, fields: BodyFields, body: bytes, must_read: bool = False
    ) -> UpstreamRequest:
        """The request as this serve gets it; the decision names it from here on. Raises as `Formatter.format`."""
        decision = call.decision
        target = self.leases.target(serve.name)
        try:
            arguments, format = (serve, target, endpoint, fields, body, must_read), self.formatter.format
            request = await call.process(format, *arguments) if call.is_heavy else format(*arguments)
        except StokerError as error:
            decision.candidates = [*decision.candidates[:-1], Candidate(serve.name, error.code)]
            raise
        if not decision.candidates:
            decision.candidates = [Candidate(serve.name)]
        else:
            call.reply.remove_header(EDITS)  # an earlier serve's
        decision.serve = serve.name
        decision.translation = ""
        if call.notes:
            request.notes = (*call.notes, *request.notes)
        call.reply.remove_header(b"x-stoker-translation")  # an earlier serve's
        call.reply.set_header(b"x-stoker-serve", serve.name.encode())
        return request

    async def load_or_count_only(self, call: Call, serve: Serve, request: UpstreamRequest, body: bytes) -> bool:
        """Load a model or count tokens, if that is all that the client wants. False: it wants an answer."""
        if request.loads_only:
            await self._load(call, serve, request, body)
        elif request.counts_only:
            await self.counter.reply_with_count(call, serve, request)
        else:
            return False
        return True

    async def lease_and_send(self, call: Call, serve: Serve, request: UpstreamRequest) -> None:
        """One call of the serve; the answer goes to `call.reply`. The caller releases. A request that asks for more
        output than its prompt leaves is sent with as much as is left.
        """
        generates = request.endpoint.generates
        context = serve.context if call.context is None else min(call.context, serve.context or call.context)
        if context is not None and request.endpoint.has_tokens and may_exceed(
            context, len(request.body), request.fields.output_budget()
        ):  # fmt: skip
            await self.counter.check_context(call, serve, request)
        if serve.has_replicas:
            try:
                await self._send_to_a_replica(call, serve, request)
            except OutputLimitTooHigh as error:
                await self._ask_for_less(call, request, error)
                await self._send_to_a_replica(call, serve, request)
            return
        lease = call.lease_now(self.leases, serve.name, generates) or await call.wait_for_lease()
        if call.may_be_preempted:
            self.leases.allow_preemption(lease, call.share.priority)
        try:
            if serve.keep_conversations:
                await self._attach_conversation(call, serve, lease, request)
            await self._encode_and_relay(call, serve, lease, request)
        except OutputLimitTooHigh as error:
            await self._ask_for_less(call, request, error)
            lease = call.lease_now(self.leases, serve.name, generates) or await call.wait_for_lease()
            await self._encode_and_relay(call, serve, lease, request)
        except UpstreamError as error:
            if error.code != "unreachable":
                raise
            # Nothing was sent. If the serve's process has just exited, a lease taken a moment later starts it again.
            self.release(call)
            await asyncio.sleep(EXIT_NOTICED_WITHIN)
            lease = call.lease_now(self.leases, serve.name, generates) or await call.wait_for_lease()
            if serve.keep_conversations:
                await self._attach_conversation(call, serve, lease, request)
            await self._encode_and_relay(call, serve, lease, request)

    async def pass_through(
        self, call: Call, serve: Serve, takes_place: bool, method: str, path: str, body: bytes
    ) -> None:
        """One call of the serve with nothing changed. `takes_place`: it takes one of the serve's places."""
        lease = call.lease_now(self.leases, serve.name, takes_place) or await call.wait_for_lease()
        head = request_head(method.encode(), path, lease.target, call.sent_headers, len(body), plain=False)
        relay = self._relay(call, lease, serve, call.may_escalate)
        call.passed_on = len(body) if takes_place else None
        await relay.send(lease.target, head, body)

    async def tunnel(self, call: Call, serve: Serve, path: Callable[[Target], str]) -> None:
        """One WebSocket session, from the lease to its end. `path(target)`: the path with the query, at this serve.

        Raises StokerError if it did not come about, or did not end by itself. On cancel both sides are closed.
        """
        lease = call.lease_now(self.leases, serve.name) or await call.wait_for_lease()
        lease.on_cut = call.cut
        call.decision.attempts += 1
        target, wire = lease.target, call.wire
        tunnel = await call.run_cancellable(self._pool.open_tunnel(target, self._limits.stall_timeout))
        try:
            call.raise_if_ended()  # the request may be ended in the same moment in which a step is done
            head = tunnel_head(path(target), target, handshake_headers(wire.headers), wire.raw_headers)
            status, headers = await call.run_cancellable(tunnel.handshake(head))
            call.raise_if_ended()
            if status != 101:
                raise session_refused(status, await call.run_cancellable(tunnel.refusal(headers)))
            upgrade = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
            switch = partial(wire.switch_protocols, receive=tunnel.from_client, resume=tunnel.resume)
            call.reply.begin_tunnel([*upgrade, *reply_headers(headers)], switch)
            await call.run_cancellable(tunnel.relay(wire))
            call.reply.finish()
        except StokerError as error:
            if call.reply.is_committed and tunnel.boundary.is_between_frames:
                wire.write(close_frame(1001 if error.code in ("cut", "stalled") else 1011, error.message))
            raise
        finally:
            self._received[serve.name] += tunnel.received
            tunnel.abort()

    def release(self, call: Call) -> None:
        """Give back what the call holds: the connection, the conversation, then the lease."""
        relay, decision, lease = call.relay, call.decision, call.lease
        if relay is not None:
            call.relay = None
            self.first_bytes.end(call, relay)
            call.retry_after = relay.retry_after
            relay.close()
            self._received[decision.serve] += relay.received
            usage = relay.usage
            status = relay.upstream_status
            serve = decision.serve if lease is None else lease.serve
            if relay.is_complete and usage.input and usage.output:
                counted = ServeUsage(
                    serve, usage.input, usage.output, usage.cached, usage.reasoning, 0.0, usage.cache_written
                )
            else:
                counted = estimated(serve, call, relay)
            decision.input_tokens = counted.input
            decision.output_tokens = counted.output
            decision.cached_tokens = counted.cached
            decision.cache_write_tokens = counted.cache_written
            decision.tokens_estimated = counted.is_estimated
            if call.trace is not None:
                call.trace.end_try(self._clock.now(), status, usage)
            if call.media is not None and status == 200 and relay.received:
                call.media.audio_seconds = usage.audio_seconds
                decision.media = call.media
            if relay.translator is not None:
                decision.translation = relay.translator.describe_changes().decode() or decision.translation
            if status != 200 and (status >= 500 or status in KEY_REFUSED_STATUSES):
                self._note(decision.serve, f"HTTP {status} to {decision.id}")
        sequence, call.sequence_lease = call.sequence_lease, None
        if sequence is not None:
            sequence.release(None if relay is None else _tokens(relay))
        if lease is not None:
            call.lease = None
            if relay is not None:
                lease.usage = counted
                call.usages.append(counted)
            lease.release()

    def received(self, serve: str) -> int:
        """Bytes received from a serve by calls that ended."""
        return self._received.get(serve, 0)

    # -- steps -------------------------------------------------------------------------------------------------------

    async def _send_to_a_replica(self, call: Call, serve: Serve, request: UpstreamRequest) -> None:
        """As `lease_and_send`. Where a replica fails before the first byte of its answer, the next one is asked. Which
        failures move on: `request.decide.failover`.
        """
        generates, may_escalate = request.endpoint.generates, call.may_escalate
        wish = ReplicaWish(await self._prompt(call, serve, request), is_forwarded=FORWARDED in call.wire.headers)
        failed = call.decision.candidates[:-1]  # what was tried before this serve
        while True:
            lease = call.lease_now(self.leases, serve.name, generates, wish) or await call.wait_for_lease()
            if call.may_be_preempted:
                self.leases.allow_preemption(lease, call.share.priority)
            call.decision.replica = lease.serve
            wish = wish._replace(avoid=wish.avoid | {lease.serve})
            has_another = self.leases.has_another(serve.name, wish)
            call.may_escalate = moves_on if has_another else may_escalate
            try:
                await self._encode_and_relay(call, serve, lease, request)
                return
            except StokerError as error:
                if not has_another or not moves_on(error) or call.reply.first_byte_at is not None:
                    raise
                failed.append(Candidate(lease.serve, recorded_code(error)))
                call.decision.candidates = [*failed, Candidate(serve.name)]
                call.raise_if_ended()
                self.release(call)
            finally:
                call.may_escalate = may_escalate

    async def _ask_for_less(self, call: Call, request: UpstreamRequest, error: OutputLimitTooHigh) -> None:
        """The serve refuses the output limit: its context is not configured, or it counts otherwise than its counter.
        Lower the limit, and give back what the first try holds. Raises `error` if a second one cannot help.
        """
        if call.reply.first_byte_at is not None or not await lower_output_limit(call, request, error.room):
            raise error
        self.release(call)
        call.decision.translation = ""

    async def _prompt(self, call: Call, serve: Serve, request: UpstreamRequest) -> PromptChain | None:
        """By which a replica is chosen; None: there is no choice, or no prompt."""
        if not request.endpoint.generates or not self.leases.has_choice(serve.name):
            return None
        return await call.process(prompt_chain, call.decision.key, request.body)

    async def _load(self, call: Call, serve: Serve, request: UpstreamRequest, body: bytes) -> None:
        """An Ollama client wants a model loaded or unloaded. Stoker loads it, but decides itself what is unloaded."""
        unloads = await call.process(wants_unload, body)
        if not unloads:
            call.lease_now(self.leases, serve.name, takes_place=False) or await call.wait_for_lease()
        generate = request.client.dialect is Dialect.OLLAMA_GENERATE
        if request.client.dialect is Dialect.OLLAMA_EMBED:
            answer = empty_answer(request.fields.model, request.client.path)
        else:
            answer = load_answer(request.fields.model, int(self._clock.wall()), unloads, generate)
        call.reply.send_whole(200, [(b"content-type", b"application/json")], msgspec.json.encode(answer))

    async def _attach_conversation(self, call: Call, serve: Serve, lease: Lease, request: UpstreamRequest) -> None:
        keeper = self._conversations
        if keeper is not None and request.endpoint.generates:
            lease.on_cut = call.cut
            arguments = serve, lease.target, call.decision.key, request.endpoint.dialect, request.body
            call.sequence_lease = await call.process(keeper.begin, *arguments)
            if call.sequence_lease is not None:
                await call.run_cancellable(call.sequence_lease.prepare())
                call.raise_if_ended()

    async def _encode_and_relay(self, call: Call, serve: Serve, lease: Lease, request: UpstreamRequest) -> None:
        target, decision = lease.target, call.decision
        sequence = call.sequence_lease.sequence if call.sequence_lease is not None else None
        is_read = call.is_answer_read or call.reply.is_committed  # the client was promised an uncompressed stream
        arguments = request, target, call.sent_headers, decision.id, sequence, call.verifier, is_read
        if call.is_heavy:
            lease.on_cut = call.cut
            encoded: EncodedRequest | EncodedMedia = await call.process(self.formatter.encode, *arguments)
        elif request.client.form is not RequestForm.JSON:
            encoded = encode_media(call, request, target)
        else:
            encoded = self.formatter.encode(*arguments)
        translator = encoded.translator
        if call.continuation is not None:
            translator = call.continuation
            call.continuation.continue_with(call.verifier)
        if encoded.notes and not decision.translation:
            decision.translation = ",".join(encoded.notes)
            call.reply.set_header(b"x-stoker-translation", decision.translation.encode())
        endpoint = request.endpoint
        relay = self._relay(
            call,
            lease,
            serve,
            _or_about_seals(call.may_escalate) if request.may_drop_thinking else call.may_escalate,
        )
        call.request = request
        completion = relay.send(
            target,
            encoded.head,
            encoded.body,
            endpoint.dialect,
            encoded.remove_usage,
            translator,
            endpoint.generates,
            on_flowing=request.drop_body,
            inputs=request.inputs,
        )
        del encoded  # its body, for as long as the answer takes
        try:
            await completion
        except UnsupportedInput as error:
            error.name(decision.model or serve.name, serve.modalities)
            raise
        except ClientError as error:
            if not request.may_drop_thinking or not is_about_seals(error):
                raise
            again = await call.process(self.formatter.without_thinking, request)
            if again is None:
                raise
            self.first_bytes.end(call, relay)
            relay.close()
            decision.translation = ""
            await self._encode_and_relay(call, serve, lease, again)

    def _relay(
        self, call: Call, lease: Lease, serve: Serve, may_escalate: Callable[[StokerError], bool] | None
    ) -> Relay:
        if lease.target.key is not None:  # a serve that Stoker starts may have a new key
            self.formatter.upstream_messages.add_secret(lease.target.key)
        relay = call.relay = Relay(call.reply, self._pool, self._limits, may_escalate)
        if call.refuses_empty:
            relay.refuses_empty = call.continuation is None
        self.first_bytes.begin(call, serve)
        call.sent_at = self._clock.now()
        if call.trace is not None:
            call.begin_try(call.trace, lease)
        lease.on_cut = relay.cut
        call.decision.attempts += 1
        return relay


def _tokens(relay: Relay) -> int | None:
    """Tokens of prompt and answer; None: the serve did not report them."""
    usage = relay.usage
    return None if usage.input is None or usage.output is None else usage.input + usage.output


def _or_about_seals(may_escalate: Callable[[StokerError], bool] | None) -> Callable[[StokerError], bool]:
    return lambda error: is_about_seals(error) or (may_escalate is not None and may_escalate(error))
