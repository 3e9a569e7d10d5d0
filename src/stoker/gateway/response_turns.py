"""Requests of the Responses API that use or change Stoker's state. A turn holds the request for the serve, and decides
what the client gets of the answer.

    1. /v1/responses/compact             the model is asked for a summary; OpenAI has the path itself
    2. nothing is stored or referred to  compaction items become their summaries, if there are any
    3. else                              stored items are put into the request, and its answer is stored
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from stoker.domain.dialect import ENDPOINTS, Dialect, Endpoint
from stoker.domain.errors import ClientError, StokerError, UpstreamError
from stoker.domain.serve import Serve
from stoker.exchange.call import Call
from stoker.request.stored_responses.capture import ResponseCapture
from stoker.request.stored_responses.compaction import (
    compacted,
    expand_compactions,
    may_hold_compaction,
    relayed_request,
    summary_of,
    summary_request,
)
from stoker.request.stored_responses.held_reply import HeldReply
from stoker.request.stored_responses.items import new_id, read_items, to_store
from stoker.request.stored_responses.records import (
    Raw,
    StoredItem,
    StoredResponse,
    encode,
    read_conversation,
)
from stoker.request.stored_responses.replay import (
    StatefulRequest,
    history_of_conversation,
    history_of_response,
    output_of,
    read_request,
    replay,
    unknown_conversation,
    unknown_response,
)
from stoker.request.stored_responses.settings import not_stored_field
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
    def open(self, call: Call) -> Iterator[None]:
        """Watches the reply, if it has to be read."""
        yield


@dataclass(frozen=True, slots=True)
class StoredTurn(ResponseTurn):
    """A turn whose answer is stored."""

    owner: str
    id: str
    conversation: str | None
    items: list[StoredItem]
    """The whole input; the last `own` of them are new."""
    own: int
    capture: ResponseCapture

    @contextmanager
    def open(self, call: Call) -> Iterator[None]:
        """If the request fails after its last event, the client gets that event, and the failure."""
        call.read_answer(self.capture)
        try:
            yield
        finally:
            self.capture.release({"store": False})


@dataclass(frozen=True, slots=True)
class CompactionTurn(ResponseTurn):
    """A turn whose answer is a summary. `items`: the whole conversation."""

    items: list[StoredItem]
    held: HeldReply

    @contextmanager
    def open(self, call: Call) -> Iterator[None]:
        call.read_answer(self.held)
        yield


class ResponseTurns:
    """See the module's docstring."""

    def __init__(self, store: ResponseStore, wall: Callable[[], float], seals: SummarySeals) -> None:
        self._store = store
        self._wall = wall
        self._seals = seals

    def concerns(self, endpoint: Endpoint, body: bytes) -> bool:
        """Whether `begin` may return a turn. Quick."""
        if endpoint.dialect is not Dialect.RESPONSES:
            return False
        return self._store.is_open or endpoint is COMPACT or may_hold_compaction(body)

    async def begin(
        self, call: Call, owner: str, endpoint: Endpoint, body: bytes, max_bytes: int, serve: Serve | None
    ) -> ResponseTurn | None:
        """Expand a request; None: it is sent as it is, and its answer is not read. `serve`: what its model names; None:
        no single serve. Raises StokerError.
        """
        turn: ResponseTurn | None
        if endpoint is COMPACT:
            turn = await self._begin_compaction(call, owner, body, max_bytes, serve)  # 1
        else:
            turn = await self._begin_response(call, owner, endpoint, body, max_bytes)
        if turn is not None and len(turn.body) > max_bytes:
            size = f"the request has {len(turn.body)} bytes with what it refers to"
            text = f"{size}; front_door.body_limit is {max_bytes}"
            raise ClientError(text, code="too_large", status=413)
        return turn

    async def finish(self, call: Call, turn: ResponseTurn) -> None:
        """The serve has answered: sends the client its part. Raises StokerError."""
        match turn:
            case CompactionTurn():
                await self._compact(call, turn)
            case StoredTurn():
                await self._keep(turn)

    # -- /v1/responses -----------------------------------------------------------------------------------------------

    async def _begin_response(
        self, call: Call, owner: str, endpoint: Endpoint, body: bytes, max_bytes: int
    ) -> ResponseTurn | None:
        request = await call.process(read_request, body) if self._store.is_open else None
        is_stored = request is not None and request.is_stored and endpoint.generates
        if request is None or not (is_stored or request.refers):
            if not may_hold_compaction(body):
                return None
            expanded = await call.process(expand_compactions, body, self._seals.open)  # 2
            return None if expanded is None else ResponseTurn(endpoint, expanded)
        history = await self._history(call, owner, request)
        made = await call.process(replay, request, history, self._seals.open)  # 3
        if not is_stored:
            return ResponseTurn(endpoint, made.body)
        id = new_id("resp_")
        conversation = None if request.conversation is None else {"id": request.conversation}
        fields = {
            "id": id, "store": True, "previous_response_id": request.previous, "conversation": conversation,
        }  # fmt: skip
        capture = ResponseCapture(call.wire, fields, max_bytes)
        return StoredTurn(endpoint, made.body, owner, id, request.conversation, made.items, made.own, capture)

    async def _keep(self, turn: StoredTurn) -> None:
        """Stores the response, then sends its end to the client."""
        capture = turn.capture
        if capture.response is None:
            return
        is_stored = False
        try:
            response = Raw(encode(capture.response))
            record = StoredResponse(response, turn.items)
            is_stored = await self._store.write(turn.owner, EntryKind.RESPONSE, turn.id, lambda: encode(record))
            if is_stored and turn.conversation is not None:
                new = [*turn.items[len(turn.items) - turn.own :], *output_of(response)]
                await self._extend(turn.owner, turn.conversation, new)
        except StokerError:
            pass  # the store has logged it, and the client reads `store: false`
        finally:
            capture.release(None if is_stored else {"store": False})

    async def _history(self, call: Call, owner: str, request: StatefulRequest) -> list[StoredItem]:
        if request.previous is not None:
            record = await self._store.read(owner, EntryKind.RESPONSE, request.previous)
            if record is None:
                raise unknown_response(request.previous)
            return await call.process(history_of_response, record)
        if request.conversation is not None:
            record = await self._store.read(owner, EntryKind.CONVERSATION, request.conversation)
            if record is None:
                raise unknown_conversation(request.conversation)
            return await call.process(history_of_conversation, record)
        return []

    async def _extend(self, owner: str, id: str, new: list[StoredItem]) -> None:
        def change(record: bytes) -> tuple[bytes, None]:
            conversation = read_conversation(record)
            return encode(msgspec.structs.replace(conversation, items=[*conversation.items, *new])), None

        await self._store.change(owner, EntryKind.CONVERSATION, id, change)

    # -- /v1/responses/compact ---------------------------------------------------------------------------------------

    async def _begin_compaction(
        self, call: Call, owner: str, body: bytes, max_bytes: int, serve: Serve | None
    ) -> ResponseTurn | None:
        request = await call.process(read_request, body)
        is_relayed = serve is not None and compacts_itself(serve)
        if request.refers and not self._store.is_open:
            if is_relayed:
                return None  # it refers to what OpenAI has stored
            name = "previous_response_id" if request.previous is not None else "conversation"
            raise not_stored_field(name)
        history = await self._history(call, owner, request)
        items = [*history, *await call.process(_own_items, request)]
        if is_relayed:
            relayed = await call.process(relayed_request, body, request.fields, items, self._seals.open)
            return None if relayed is body else ResponseTurn(COMPACT, relayed)
        if not items:
            text = "there is nothing to compact: send 'input' or 'previous_response_id'"
            raise ClientError(text, code="bad_field", param="input")
        asked = await call.process(summary_request, request.fields, items, self._seals.open)
        return CompactionTurn(RESPONSES, asked, items, HeldReply(call.wire, max_bytes))

    async def _compact(self, call: Call, turn: CompactionTurn) -> None:
        """Send the compacted conversation. Raises UpstreamError 502 if the model gave no summary."""
        if turn.held.body is None:
            return
        summary, usage = await call.process(summary_of, turn.held.body)
        call.reply.restart(call.wire)
        if not summary:
            text = "the model gave no complete summary, so the conversation was not compacted: try again"
            raise UpstreamError(text, code="no_summary", status=502)
        created = int(self._wall())
        answer = await call.process(compacted, turn.items, self._seals.seal(summary), created, usage)
        call.reply.send_whole(200, _JSON, answer)


def compacts_itself(serve: Serve) -> bool:
    """Whether the serve has a `/v1/responses/compact`: OpenAI, whose items only OpenAI can open."""
    if serve.base_url is None or Dialect.RESPONSES not in serve.dialects:
        return False
    return f".{urlsplit(serve.base_url).hostname or ''}".endswith(_COMPACTING_HOSTS)


def _own_items(request: StatefulRequest) -> list[StoredItem]:
    return to_store(read_items(request.fields.get("input"), "input"))
