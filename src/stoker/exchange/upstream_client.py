"""Carries a request to one serve: formats it, sends it, streams the answer back, releases.

    format                      the request as this serve gets it; the decision names the serve from here on
    load_or_count_only          a load or a token count needs no answer of the model
    attach_conversation         the kept conversation that the request continues
    send                        one call of the serve, under a lease
    release                     give everything back: connection, conversation, lease. May be called at any time

Which serve is asked, and what follows a failure: `exchange.attempts`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from stoker.domain.access import ListenSettings, Media
from stoker.domain.answer import Event
from stoker.domain.conversation import ConversationSequences
from stoker.domain.decision import Candidate
from stoker.domain.dialect import Dialect, Endpoint, RequestForm
from stoker.domain.errors import ClientError, StokerError, UnsupportedInput, forwarded_twice
from stoker.domain.lease import Lease, Target
from stoker.domain.prompt_chain import PromptChain
from stoker.domain.protocols import Clock, Leases
from stoker.domain.replica_wish import NO_WISH, ReplicaWish
from stoker.domain.serve import Serve, box_of
from stoker.domain.usage import ServeUsage
from stoker.exchange.counting import EDITS, TokenCounter
from stoker.exchange.first_byte import FirstByteWatch, IsWorking, never_working
from stoker.exchange.formatter import EncodedRequest, Formatter, UpstreamRequest
from stoker.exchange.images import ImageInliner
from stoker.exchange.media import EncodedMedia, encode_media
from stoker.exchange.metering import estimated
from stoker.exchange.request_context import RequestContext
from stoker.exchange.sessions import Sessions
from stoker.request.codec.body_fields import BodyFields
from stoker.request.codec.prompt_chain import prompt_chain
from stoker.request.codec.upstream_errors import KEY_REFUSED_STATUSES, is_about_seals
from stoker.request.codec.websocket import close_frame, handshake_headers
from stoker.request.decide.plan import PlanCandidate
from stoker.request.relay.headers import FORWARDED, reply_headers, request_head, tunnel_head
from stoker.request.relay.image_fetcher import ImageFetcher
from stoker.request.relay.pool import ConnectionPool
from stoker.request.relay.relay import Limits, Relay, ServeConnections
from stoker.request.relay.tunnel import session_refused
from stoker.request.translate.neutral.protocols import Check
from stoker.request.translate.ollama.embed import empty_answer
from stoker.request.translate.ollama.write_answer import load_answer, wants_unload
from stoker.request.translate.translate import AnswerTranslator


class AnswerReading(NamedTuple):
    """How an answer is read on its way to the client."""

    check: Check | None = None
    """May hold it back, and reject it; None: it passes unchecked."""
    continues: AnswerTranslator | None = None
    """The translator of an answer whose beginning the client has already."""
    refuses_empty: bool = False
    """An answer that says nothing is a failure."""
    follows: AnswerTranslator | None = None
    """The translator of an answer that this one goes on with, after Stoker has run the tools that it called."""
    told: Sequence[Event] = ()
    """What the client has of this answer already: Stoker itself has said it, before any serve was asked."""


PASSED_ON: Final = AnswerReading()
"""Nothing is done with it."""


class UpstreamClient:
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
        self.now = clock.now
        self._note = note
        self._conversations = conversations
        self._limits = Limits(0.0, 0.0)
        self.sessions = Sessions()
        self.fetches_images = False
        """Whether images may be downloaded for serves that take no addresses."""
        self.first_bytes = FirstByteWatch(is_working)
        self._received: defaultdict[str, int] = defaultdict(int)
        """Bytes received from each serve by calls that ended."""

    def configure(self, front_door: ListenSettings, image_fetcher: ImageFetcher, secrets: Iterable[str]) -> None:
        """Apply to the next request. `secrets`: what clients must not see in an engine's error texts."""
        self.images = ImageInliner(self.leases, self.formatter, image_fetcher)
        self.fetches_images = image_fetcher.policy.fetch
        self._limits = Limits(front_door.keep_alive, front_door.stall_timeout)
        self.first_bytes.configure(front_door.stall_timeout)
        self.formatter.upstream_messages.configure(front_door.upstream_errors == "show", secrets)

    def target(self, serve: str) -> Target | None:
        """Where a serve answers; None: it is not ready."""
        return self.leases.target(serve)

    async def format(
        self,
        context: RequestContext,
        serve: Serve,
        endpoint: Endpoint,
        fields: BodyFields,
        body: bytes,
        must_read: bool = False,
    ) -> UpstreamRequest:
        """The request as this serve gets it; the decision names it from here on. Raises as `Formatter.format`."""
        decision = context.decision
        target = self.leases.target(serve.name)
        try:
            arguments, format = (serve, target, endpoint, fields, body, must_read), self.formatter.format
            request = await context.process(format, *arguments) if context.is_heavy else format(*arguments)
        except StokerError as error:
            decision.candidates = [*decision.candidates[:-1], Candidate(serve.name, error.code)]
            raise
        if not decision.candidates:
            decision.candidates = [Candidate(serve.name)]
        else:  # another serve may have been asked before
            decision.translation = ""
            context.reply.remove_header(b"x-stoker-translation")
            context.reply.remove_header(EDITS)
        decision.serve = serve.name
        if context.notes:
            request.notes = (*context.notes, *request.notes)
        context.reply.set_header(b"x-stoker-serve", serve.name.encode())
        return request

    async def load_or_count_only(
        self, context: RequestContext, serve: Serve, request: UpstreamRequest, body: bytes
    ) -> bool:
        """Load a model or count tokens, if that is all that the client wants. False: it wants an answer."""
        if request.loads_only:
            await self._load(context, serve, request, body)
        elif request.counts_only:
            await self.counter.reply_with_count(context, serve, request)
        else:
            return False
        return True

    async def replica_wish(
        self, context: RequestContext, serve: Serve, request: UpstreamRequest, wish: ReplicaWish
    ) -> ReplicaWish:
        """By what a replica is chosen: the prompt, if there is a choice. `wish`: as it is already."""
        if wish is not NO_WISH:
            return wish
        prompt = None
        if request.endpoint.generates and self.leases.has_choice(serve.name):
            prompt = await context.process(prompt_chain, context.decision.key, request.body)
        return ReplicaWish(prompt, is_forwarded=FORWARDED in context.exchange.headers)

    async def find_session(self, context: RequestContext, request: UpstreamRequest, prompt: PromptChain | None) -> None:
        """The session of a request that names none, by its prompt; for serves that are contested: there the scheduler
        decides by it. `prompt`: if it is known already.
        """
        if not request.endpoint.dialect.spec.answers:
            return
        key = context.decision.key
        chain = prompt or await context.process(prompt_chain, key, request.body)
        if chain is not None:
            context.join_session(self.sessions.of_prompt(chain, key))

    async def attach_conversation(
        self, context: RequestContext, serve: Serve, lease: Lease, request: UpstreamRequest
    ) -> None:
        keeper = self._conversations
        if keeper is not None and request.endpoint.generates:
            lease.on_cut = context.cut
            arguments = serve, lease.target, context.decision.key, request.endpoint.dialect, request.body
            context.sequence_lease = await context.process(keeper.begin, *arguments)
            if context.sequence_lease is not None:
                await context.run_cancellable(context.sequence_lease.prepare())
                context.raise_if_ended()

    async def send(
        self, context: RequestContext, candidate: PlanCandidate, lease: Lease, request: UpstreamRequest,
        reading: AnswerReading = PASSED_ON, may_leave: Callable[[StokerError], bool] | None = None,
    ) -> None:  # fmt: skip
        """One call of the serve; the answer goes to `context.reply`. The caller releases. `may_leave(error)`: whether
        another serve answers after a 4xx, which is raised then; any other passes through as it is.
        """
        target, decision, check = lease.target, context.decision, None
        is_passed_on = reading is PASSED_ON
        if not is_passed_on:
            check = reading.check
        sequence = context.sequence_lease.sequence if context.sequence_lease is not None else None
        is_read = context.is_answer_read or context.reply.is_committed  # the client was promised an uncompressed stream
        arguments = request, target, context.sent_headers, decision.id, sequence, check, is_read
        if context.is_heavy:
            lease.on_cut = context.cut
            encoded: EncodedRequest | EncodedMedia = await context.process(self.formatter.encode, *arguments)
        elif request.client.form is not RequestForm.JSON:
            encoded = encode_media(context, request, target)
        else:
            encoded = self.formatter.encode(*arguments)
        translator = encoded.translator
        if not is_passed_on:
            if reading.continues is not None:
                translator = reading.continues
                reading.continues.continue_with(check)
            elif reading.follows is not None:
                translator = reading.follows
                reading.follows.follow_with(check)
            elif reading.told and isinstance(translator, AnswerTranslator):
                translator.insert(reading.told)
        if encoded.notes and not decision.translation:
            decision.translation = ",".join(encoded.notes)
            context.reply.set_header(b"x-stoker-translation", decision.translation.encode())
        endpoint = request.endpoint
        leaves = _or_about_seals(may_leave) if request.may_drop_thinking else may_leave
        relay = self._relay(context, lease, candidate, check is not None, leaves)
        if not is_passed_on and reading.refuses_empty:
            relay.refuse_empty()
        context.request = request
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
            error.name(decision.model or candidate.serve.name, candidate.serve.modalities)
            raise
        except ClientError as error:
            if not request.may_drop_thinking or not is_about_seals(error):
                raise
            again = await context.process(self.formatter.without_thinking, request)
            if again is None:
                raise
            self.first_bytes.end(context, relay)
            relay.close()
            decision.translation = ""
            await self.send(context, candidate, lease, again, reading, may_leave)

    async def pass_through(
        self, context: RequestContext, serve: Serve, takes_place: bool, method: str, path: str, body: bytes
    ) -> None:
        """One call of the serve with nothing changed. `takes_place`: it takes one of the serve's places."""
        lease = context.lease_now(self.leases, serve.name, takes_place) or await context.wait_for_lease()
        head = request_head(method.encode(), path, lease.target, context.sent_headers, len(body), plain=False)
        relay = self._relay(context, lease, PlanCandidate(serve))
        context.passed_on = len(body) if takes_place else None
        await relay.send(lease.target, head, body)

    async def tunnel(self, context: RequestContext, serve: Serve, path: Callable[[Target], str]) -> None:
        """One WebSocket session, from the lease to its end. `path(target)`: the path with the query, at this serve.

        Raises StokerError if it did not come about, or did not end by itself. On cancel both sides are closed.
        """
        lease = context.lease_now(self.leases, serve.name) or await context.wait_for_lease()
        lease.on_cut = context.cut
        context.decision.attempts += 1
        target, wire = lease.target, context.exchange
        tunnel = await context.run_cancellable(self._pool.open_tunnel(target, self._limits.stall_timeout))
        try:
            context.raise_if_ended()  # the request may be ended in the same moment in which a step is done
            head = tunnel_head(path(target), target, handshake_headers(wire.headers), wire.raw_headers)
            status, headers = await context.run_cancellable(tunnel.handshake(head))
            context.raise_if_ended()
            if status != 101:
                raise session_refused(status, await context.run_cancellable(tunnel.refusal(headers)))
            upgrade = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
            switch = partial(wire.switch_protocols, receive=tunnel.from_client, resume=tunnel.resume)
            context.reply.begin_tunnel([*upgrade, *reply_headers(headers)], switch)
            await context.run_cancellable(tunnel.relay(wire))
            context.reply.finish()
        except StokerError as error:
            if context.reply.is_committed and tunnel.boundary.is_between_frames:
                wire.write(close_frame(1001 if error.code in ("cut", "stalled") else 1011, error.message))
            raise
        finally:
            self._received[serve.name] += tunnel.received
            tunnel.abort()

    def release(self, context: RequestContext) -> None:
        """Give back what the call holds: the connection, the conversation, then the lease."""
        relay, decision, lease = context.relay, context.decision, context.lease
        if relay is not None:
            context.relay = None
            self.first_bytes.end(context, relay)
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
                counted = estimated(serve, context, relay)
            if context.share.session is not None:
                counted.calls_tool = usage.calls_tool
                if decision.stream and context.reply.first_byte_at is not None:
                    counted.reading_seconds = max(context.reply.first_byte_at - context.sent_at, 0.0)
            decision.input_tokens = counted.input
            decision.output_tokens = counted.output
            decision.cached_tokens = counted.cached
            decision.cache_write_tokens = counted.cache_written
            decision.tokens_estimated = counted.is_estimated
            if context.trace is not None:
                context.trace.end_try(self.now(), status, usage)
            if context.media is not None and status == 200 and relay.received:
                context.media.audio_seconds = usage.audio_seconds
                decision.media = context.media
            if relay.translator is not None:
                decision.translation = relay.translator.describe_changes().decode() or decision.translation
            if status != 200 and (status >= 500 or status in KEY_REFUSED_STATUSES):
                self._note(decision.serve, f"HTTP {status} to {decision.id}")
        sequence, context.sequence_lease = context.sequence_lease, None
        if sequence is not None:
            sequence.release(None if relay is None else _tokens(relay))
        if lease is not None:
            context.lease = None
            if relay is not None:
                lease.usage = counted
                context.usages.append(counted)
            lease.release()

    def received(self, serve: str) -> int:
        """Bytes received from a serve by calls that ended."""
        return self._received.get(serve, 0)

    # -- steps -------------------------------------------------------------------------------------------------------

    async def _load(self, context: RequestContext, serve: Serve, request: UpstreamRequest, body: bytes) -> None:
        """An Ollama client wants a model loaded or unloaded. Stoker loads it, but decides itself what is unloaded."""
        unloads = await context.process(wants_unload, body)
        if not unloads:
            wish = NO_WISH
            if serve.has_replicas:
                wish = await self.replica_wish(context, serve, request, wish)
            elif FORWARDED in context.exchange.headers and box_of(serve.slot or ""):
                raise forwarded_twice(serve.name)
            context.lease_now(self.leases, serve.name, False, wish) or await context.wait_for_lease()
        generate = request.client.dialect is Dialect.OLLAMA_GENERATE
        if request.client.dialect is Dialect.OLLAMA_EMBED:
            answer = empty_answer(request.fields.model, request.client.path)
        else:
            answer = load_answer(request.fields.model, int(self._clock.wall()), unloads, generate)
        context.reply.send_whole(200, [(b"content-type", b"application/json")], msgspec.json.encode(answer))

    def _relay(
        self, context: RequestContext, lease: Lease, candidate: PlanCandidate, is_checked: bool = False,
        may_leave: Callable[[StokerError], bool] | None = None,
    ) -> Relay:  # fmt: skip
        if lease.target.key is not None:  # a serve that Stoker starts may have a new key
            self.formatter.upstream_messages.add_secret(lease.target.key)
        pool: ServeConnections = self._pool
        if context.recording is not None:
            pool = context.recording.connections(lease.serve, pool)
        relay = context.relay = Relay(context.reply, pool, self._limits, may_leave)
        self.first_bytes.begin(context, candidate)
        context.sent_at = self.now()
        if context.trace is not None:
            context.begin_try(context.trace, lease, is_checked)
        lease.on_cut = relay.cut
        context.decision.attempts += 1
        return relay


def _tokens(relay: Relay) -> int | None:
    """Tokens of prompt and answer; None: the serve did not report them."""
    usage = relay.usage
    return None if usage.input is None or usage.output is None else usage.input + usage.output


def _or_about_seals(may_leave: Callable[[StokerError], bool] | None) -> Callable[[StokerError], bool]:
    return lambda error: is_about_seals(error) or (may_leave is not None and may_leave(error))
