"""Requests of the Responses API that use or change Stoker's state. A turn holds the request for the serve, and decides
what the client gets of the answer.

    1. /v1/responses/compact             the model is asked for a summary; OpenAI has the path itself
    2. a compaction trigger              the same, and the answer is a response with that summary, stored or not
    3. a warm-up (WebSocket)             the model is not asked; its response is what the next request goes on from
    4. nothing is stored or referred to  compaction items become their summaries, if there are any
    5. else                              stored items are put into the request, and its answer is stored; over a
                                         WebSocket, what is not stored is remembered until the next response
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from stoker.domain.answer import Answer, Tokens
from stoker.domain.dialect import ENDPOINTS, Dialect, Endpoint
from stoker.domain.errors import ClientError, StokerError, UpstreamError
from stoker.domain.serve import Serve
from stoker.exchange.request_context import RequestContext
from stoker.gateway.silent_reply import SilentReply
from stoker.request.accept.message_wire import LastResponse, MessageExchange
from stoker.request.stored_responses.capture import ResponseCapture
from stoker.request.stored_responses.compaction import (
    asks_for_compaction,
    compacted,
    compaction_item,
    expand_compactions,
    may_hold_compaction,
    relayed_request,
    summary_of,
    summary_request,
)
from stoker.request.stored_responses.items import (
    Raw,
    StoredItem,
    StoredResponse,
    encode,
    new_id,
    read_conversation,
    read_items,
    to_store,
)
from stoker.request.stored_responses.replay import (
    StatefulRequest,
    history_of_conversation,
    history_of_response,
    not_stored_field,
    output_of,
    read_request,
    replay,
    unknown_conversation,
    unknown_response,
)
from stoker.request.translate.neutral.protocols import AnswerWriter
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.store.responses import EntryKind, ResponseStore

RESPONSES = ENDPOINTS["/v1/responses"]
COMPACT = ENDPOINTS["/v1/responses/compact"]
_COMPACTING_HOSTS = (".api.openai.com", ".openai.azure.com")
"""Hosts, and parent domains of hosts, that have a `/v1/responses/compact`."""
_SEALER = "compaction"
_JSON = [(b"content-type", b"application/json")]


class SummarySeals:
    """Seals the summaries in compaction items, and opens them."""

    def __init__(self, signer: ThinkingSigner) -> None:
        self._signer = signer

    def seal(self, summary: str) -> str:
        return self._signer.seal(_SEALER, summary)

    def open(self, sealed: str) -> str | None:
        """The summary; None if Stoker did not seal it."""
        opened = self._signer.open(sealed)
        return None if opened is None else opened.get("text")


@dataclass(frozen=True, slots=True)
class ResponseTurn:
    """One request under way: the serve gets `body`, at `endpoint`."""

    endpoint: Endpoint
    body: bytes

    @contextmanager
    def open(self, context: RequestContext) -> Iterator[None]:
        """Watches the reply, if it has to be read."""
        yield


@dataclass(frozen=True, slots=True)
class StoredAs:
    """Where the response of a turn is stored, and what else of the turn."""

    owner: str
    id: str
    conversation: str | None
    items: list[StoredItem]
    """The whole input; the last `own` of them are new."""
    own: int


@dataclass(frozen=True, slots=True)
class StoredTurn(ResponseTurn):
    """A turn whose answer is stored."""

    capture: ResponseCapture
    stored_as: StoredAs

    @contextmanager
    def open(self, context: RequestContext) -> Iterator[None]:
        """If the request fails after its last event, the client gets that event, and the failure."""
        context.read_answer(self.capture)
        try:
            yield
        finally:
            self.capture.release({"store": False})


@dataclass(frozen=True, slots=True)
class RememberedTurn(ResponseTurn):
    """A turn whose answer its connection remembers. `items`: the whole input."""

    capture: ResponseCapture
    last_response: LastResponse
    items: list[StoredItem]
    previous: str | None

    @contextmanager
    def open(self, context: RequestContext) -> Iterator[None]:
        """If the request fails, what it should have continued is forgotten, as at OpenAI."""
        context.read_answer(self.capture)
        try:
            yield
        finally:
            if self.previous is not None:  # if there is a new response, this one is not remembered any more
                self.last_response.forget(self.previous)
            self.capture.release()


@dataclass(frozen=True, slots=True)
class WarmUpTurn(ResponseTurn):
    """A turn that prepares the next one: `"generate": false`. `items`: the whole input."""

    last_response: LastResponse
    items: list[StoredItem]

    def reply(self, context: RequestContext, writer: AnswerWriter) -> None:
        """Send a response without output."""
        response = writer.write_whole(Answer("", "", tokens=Tokens(input=0, output=0)))
        self.last_response.keep(response["id"], self.items)
        context.reply.send_whole(200, _JSON, encode(response))


@dataclass(frozen=True, slots=True)
class SummaryTurn(ResponseTurn):
    """A turn whose answer is a summary, which the client gets sealed."""

    items: list[StoredItem]
    """The conversation."""
    silent: SilentReply
    capture: ResponseCapture
    stored_as: StoredAs | None = None
    is_triggered: bool = False
    """The client gets a response; else a compacted conversation."""
    last_response: LastResponse | None = None
    """Of the connection that remembers the response; None: it does not."""

    @contextmanager
    def open(self, context: RequestContext) -> Iterator[None]:
        context.read_answer(self.capture)
        try:
            yield
        finally:
            self.capture.discard()  # an error that follows goes to the client


class ResponseTurns:
    """See the module's docstring."""

    def __init__(self, store: ResponseStore, wall: Callable[[], float], seals: SummarySeals) -> None:
        self._store = store
        self._wall = wall
        self._seals = seals

    def concerns(self, context: RequestContext, endpoint: Endpoint, body: bytes) -> bool:
        """Whether `begin` may return a turn. Quick."""
        if endpoint.dialect is not Dialect.RESPONSES:
            return False
        is_special = endpoint is COMPACT or may_hold_compaction(body) or isinstance(context.exchange, MessageExchange)
        return is_special or self._store.is_open

    async def begin(
        self, context: RequestContext, owner: str, endpoint: Endpoint, body: bytes, max_bytes: int, serve: Serve | None
    ) -> ResponseTurn | None:
        """Expand a request; None: it is sent as it is, and its answer is not read. `serve`: what its model names; None:
        no single serve. Raises StokerError.
        """
        turn: ResponseTurn | None
        if endpoint is COMPACT:
            turn = await self._begin_compaction(context, owner, body, max_bytes, serve)  # 1
        else:
            turn = await self._begin_response(context, owner, endpoint, body, max_bytes, serve)
        if turn is not None and len(turn.body) > max_bytes:
            size = f"the request has {len(turn.body)} bytes with what it refers to"
            text = f"{size}; front_door.body_limit is {max_bytes}"
            raise ClientError(text, code="too_large", status=413)
        return turn

    async def finish(self, context: RequestContext, turn: ResponseTurn) -> None:
        """The serve has answered: sends the client its part. Raises StokerError."""
        match turn:
            case SummaryTurn():
                await self._compact(context, turn)
            case StoredTurn():
                await self._keep(turn.capture, turn.stored_as)
            case RememberedTurn():
                _remember(turn.last_response, turn.capture, turn.items)
                turn.capture.release()

    # -- /v1/responses -----------------------------------------------------------------------------------------------

    async def _begin_response(
        self, context: RequestContext, owner: str, endpoint: Endpoint, body: bytes, max_bytes: int, serve: Serve | None
    ) -> ResponseTurn | None:
        may_compact = may_hold_compaction(body)
        may_trigger = may_compact and endpoint.generates and (serve is None or not compacts_itself(serve))
        if may_trigger and await context.process(asks_for_compaction, body):
            return await self._begin_triggered(context, owner, body, max_bytes)  # 2
        last_response = context.exchange.last_response if isinstance(context.exchange, MessageExchange) else None
        is_read = self._store.is_open or last_response is not None
        request = await context.process(read_request, body) if is_read else None
        is_stored = request is not None and self._store.is_open and request.is_stored and endpoint.generates
        if request is None or not (is_stored or request.refers or last_response is not None):
            if not may_compact:
                return None
            expanded = await context.process(expand_compactions, body, self._seals.open)  # 4
            return None if expanded is None else ResponseTurn(endpoint, expanded)
        if last_response is not None and self._is_openais(request, last_response, serve):
            return None  # it refers to what OpenAI has stored
        try:
            history = await self._history(context, owner, request)
            made = await context.process(replay, request, history, self._seals.open)  # 5
        except StokerError:
            if last_response is not None and request.previous is not None:
                last_response.forget(request.previous)  # as `RememberedTurn` does
            raise
        if last_response is not None and _is_warm_up(request):
            return WarmUpTurn(endpoint, made.body, last_response, made.items)  # 3
        if is_stored:
            stored_as = StoredAs(owner, new_id("resp_"), request.conversation, made.items, made.own)
            capture = ResponseCapture(context.reply.exchange, _stored_fields(request, stored_as.id), max_bytes)
            return StoredTurn(endpoint, made.body, capture, stored_as)
        if last_response is None:
            return ResponseTurn(endpoint, made.body)
        fields = {"previous_response_id": request.previous, "store": False}
        capture = ResponseCapture(context.reply.exchange, fields, max_bytes)
        return RememberedTurn(endpoint, made.body, capture, last_response, made.items, request.previous)

    def _is_openais(self, request: StatefulRequest, last_response: LastResponse, serve: Serve | None) -> bool:
        """Whether what the request refers to may be stored at OpenAI."""
        is_ours = self._store.is_open or last_response.items_of(request.previous) is not None
        return request.refers and not is_ours and serve is not None and compacts_itself(serve)

    async def _keep(self, capture: ResponseCapture, stored_as: StoredAs) -> None:
        """Stores the response, then sends its end to the client."""
        if capture.response is None:
            return
        is_stored = False
        try:
            response = Raw(encode(capture.response))
            record = StoredResponse(response, stored_as.items)
            kind = EntryKind.RESPONSE
            is_stored = await self._store.write(stored_as.owner, kind, stored_as.id, lambda: encode(record))
            if is_stored and stored_as.conversation is not None:
                new = [*stored_as.items[len(stored_as.items) - stored_as.own :], *output_of(response)]
                await self._extend(stored_as.owner, stored_as.conversation, new)
        except StokerError:
            pass  # the store has logged it, and the client reads `store: false`
        finally:
            capture.release(None if is_stored else {"store": False})

    async def _history(self, context: RequestContext, owner: str, request: StatefulRequest) -> list[StoredItem]:
        last_response = context.exchange.last_response if isinstance(context.exchange, MessageExchange) else None
        if last_response is not None and request.previous is not None:
            remembered = last_response.items_of(request.previous)
            if remembered is not None:
                return remembered
            if not self._store.is_open:
                raise unknown_response(request.previous)
        if request.refers and not self._store.is_open:
            raise not_stored_field("previous_response_id" if request.previous is not None else "conversation")
        if request.previous is not None:
            record = await self._store.read(owner, EntryKind.RESPONSE, request.previous)
            if record is None:
                raise unknown_response(request.previous)
            return await context.process(history_of_response, record)
        if request.conversation is not None:
            record = await self._store.read(owner, EntryKind.CONVERSATION, request.conversation)
            if record is None:
                raise unknown_conversation(request.conversation)
            return await context.process(history_of_conversation, record)
        return []

    async def _extend(self, owner: str, id: str, new: list[StoredItem]) -> None:
        def change(record: bytes) -> tuple[bytes, None]:
            conversation = read_conversation(record)
            return encode(msgspec.structs.replace(conversation, items=[*conversation.items, *new])), None

        await self._store.change(owner, EntryKind.CONVERSATION, id, change)

    # -- compaction --------------------------------------------------------------------------------------------------

    async def _begin_compaction(
        self, context: RequestContext, owner: str, body: bytes, max_bytes: int, serve: Serve | None
    ) -> ResponseTurn | None:
        request = await context.process(read_request, body)
        is_relayed = serve is not None and compacts_itself(serve)
        if is_relayed and request.refers and not self._store.is_open:
            return None  # it refers to what OpenAI has stored
        history = await self._history(context, owner, request)
        items = [*history, *await context.process(_own_items, request)]
        if is_relayed:
            relayed = await context.process(relayed_request, body, request.fields, items, self._seals.open)
            return None if relayed is body else ResponseTurn(COMPACT, relayed)
        asked = await context.process(summary_request, request.fields, items, self._seals.open)
        silent = SilentReply(context.reply.exchange)
        return SummaryTurn(RESPONSES, asked, items, silent, ResponseCapture(silent, {}, max_bytes))

    async def _begin_triggered(self, context: RequestContext, owner: str, body: bytes, max_bytes: int) -> ResponseTurn:
        request = await context.process(read_request, body)
        own = await context.process(_own_items, request)
        items = [*await self._history(context, owner, request), *own]
        asked = await context.process(summary_request, request.fields, items, self._seals.open, ("stream",))
        stored_as: StoredAs | None = None
        fields: dict[str, object] = {"store": False, "previous_response_id": request.previous}
        last_response = context.exchange.last_response if isinstance(context.exchange, MessageExchange) else None
        if self._store.is_open and request.is_stored:
            stored_as = StoredAs(owner, new_id("resp_"), request.conversation, items, len(own))
            fields = _stored_fields(request, stored_as.id)
        silent = SilentReply(context.reply.exchange)
        capture = ResponseCapture(silent, fields, max_bytes)
        return SummaryTurn(RESPONSES, asked, items, silent, capture, stored_as, True, last_response)

    async def _compact(self, context: RequestContext, turn: SummaryTurn) -> None:
        """Send what the client gets of the summary. Raises UpstreamError 502 if the model gave none."""
        response = turn.capture.response
        if response is None and not turn.silent.has_dropped:
            return  # the client has an error
        summary, usage = await context.process(summary_of, response or {})
        if not summary:
            context.reply.restart(turn.silent.inner, turn.silent.is_stream)
            text = "the model gave no complete summary, so the conversation was not compacted: try again"
            raise UpstreamError(text, code="no_summary", status=502)
        sealed = self._seals.seal(summary)
        if not turn.is_triggered:
            context.reply.restart(turn.silent.inner)
            answer = await context.process(compacted, turn.items, sealed, int(self._wall()), usage)
            context.reply.send_whole(200, _JSON, answer)
            return
        turn.capture.replace(turn.silent.inner, compaction_item(sealed))
        if turn.stored_as is not None:
            await self._keep(turn.capture, turn.stored_as)
        else:
            _remember(turn.last_response, turn.capture, turn.items)
            turn.capture.release()


def compacts_itself(serve: Serve) -> bool:
    """Whether the serve has a `/v1/responses/compact`: OpenAI, whose items only OpenAI can open."""
    if serve.base_url is None or Dialect.RESPONSES not in serve.dialects:
        return False
    return f".{urlsplit(serve.base_url).hostname or ''}".endswith(_COMPACTING_HOSTS)


def _own_items(request: StatefulRequest) -> list[StoredItem]:
    return to_store(read_items(request.fields.get("input"), "input"))


def _is_warm_up(request: StatefulRequest) -> bool:
    return bytes(request.fields.get("generate", b"")) == b"false"


def _remember(last_response: LastResponse | None, capture: ResponseCapture, items: list[StoredItem]) -> None:
    """Keep the response that was captured, if there is one, for the connection's next request."""
    response = capture.response
    if last_response is not None and response is not None:
        id = msgspec.json.decode(response.get("id", b"null"))
        last_response.keep(id if isinstance(id, str) else "", [*items, *output_of(Raw(encode(response)))])


def _stored_fields(request: StatefulRequest, id: str) -> dict[str, object]:
    """What the response object says of its storage."""
    conversation = None if request.conversation is None else {"id": request.conversation}
    return {"id": id, "store": True, "previous_response_id": request.previous, "conversation": conversation}
