"""Pages of stored responses and conversations: clients read, change and delete what `response_turns` stores.

    GET, DELETE        /v1/responses/ID            GET          /v1/responses/ID/input_items
    POST               /v1/conversations           GET, POST    /v1/conversations/ID/items
    GET, POST, DELETE  /v1/conversations/ID        GET, DELETE  /v1/conversations/ID/items/ITEM

Every record belongs to the name of a key, and does not exist for other keys. All requests without a key share one
owner, and so do all requests over the control socket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stoker.access.caller import Caller
from stoker.domain.errors import ClientError
from stoker.domain.key import Scope
from stoker.exchange.request_context import RequestContext
from stoker.gateway.operations import Operation
from stoker.request.accept.routes import RouteKind, wrong_method
from stoker.request.codec.tolerant_json import decode_fields
from stoker.request.stored_responses.items import (
    Raw,
    StoredConversation,
    encode,
    is_id,
    listed,
    new_id,
    page,
    page_of,
    read_conversation,
    read_items,
    read_response,
    to_store,
)
from stoker.request.stored_responses.replay import (
    not_stored,
    unknown_conversation,
)
from stoker.store.responses import EntryKind, ResponseStore

Document = dict[str, Any]


def owner_of(context: RequestContext, caller: Caller) -> str:
    """The owner of the responses that a request can reach. No key can have the control socket's name."""
    return "(local)" if context.exchange.is_local else caller.key.name


class _ConversationFields(msgspec.Struct):
    items: Raw = Raw(b"null")
    metadata: dict[str, str] | None = None


_PAGE = ("after", "limit", "order")
OPERATIONS: tuple[Operation, ...] = tuple(
    Operation(method, path, summary, Scope.INFERENCE, query=query)
    for method, path, summary, query in (
        ("GET", "/v1/responses/{response}", "A stored response.", ()),
        ("DELETE", "/v1/responses/{response}", "Forget a stored response.", ()),
        ("GET", "/v1/responses/{response}/input_items", "What a stored response answered.", _PAGE),
        ("POST", "/v1/conversations", "Make a conversation.", ()),
        ("GET", "/v1/conversations/{conversation}", "A conversation.", ()),
        ("POST", "/v1/conversations/{conversation}", "Change its metadata.", ()),
        ("DELETE", "/v1/conversations/{conversation}", "Forget a conversation.", ()),
        ("GET", "/v1/conversations/{conversation}/items", "Its items.", _PAGE),
        ("POST", "/v1/conversations/{conversation}/items", "Add items.", ()),
        ("GET", "/v1/conversations/{conversation}/items/{item}", "One item.", ()),
        ("DELETE", "/v1/conversations/{conversation}/items/{item}", "Remove one item.", ()),
    )
)


class StoredResponses:
    """See the module's docstring."""

    def __init__(self, store: ResponseStore, wall: Callable[[], float]) -> None:
        self._store = store
        self._wall = wall

    @property
    def is_on(self) -> bool:
        return self._store.is_open

    @property
    def offers_websocket(self) -> bool:
        """Whether the API is spoken over WebSocket, too."""
        return self._store.offers_websocket

    async def handle(
        self, owner: str, method: str, kind: RouteKind, rest: str, query: Mapping[str, str], body: bytes
    ) -> Document:
        """`rest`: the path below /v1/responses or /v1/conversations. Raises StokerError."""
        is_conversation = kind is RouteKind.CONVERSATIONS
        if not self.is_on:
            raise not_stored("/v1/conversations" if is_conversation else "/v1/responses/ID")
        id, _, below = rest.partition("/")
        if is_conversation:
            return await self._conversation(owner, method, id, below, query, body)
        return await self._response(owner, method, id, below, query)

    async def _response(self, owner: str, method: str, id: str, below: str, query: Mapping[str, str]) -> Document:
        if below not in ("", "input_items"):
            raise ClientError(f"there is no path /v1/responses/ID/{below[:60]}", code="no_route", status=404)
        if method == "DELETE" and not below:
            if not is_id(id) or not await self._store.delete(owner, EntryKind.RESPONSE, id):
                raise _not_found("Response", id)
            return {"id": id, "object": "response", "deleted": True}
        if method != "GET":
            raise wrong_method(f"this path does not accept {method}", "GET", *(() if below else ("DELETE",)))
        if query.get("stream") == "true":
            text = "a stored response is not streamed again: leave out 'stream'"
            raise ClientError(text, code="bad_field", param="stream")
        record = await self._store.read(owner, EntryKind.RESPONSE, id) if is_id(id) else None
        if record is None:
            raise _not_found("Response", id)
        stored = read_response(record)
        return page_of(stored.items, query) if below else dict(decode_fields(stored.response))

    async def _conversation(
        self, owner: str, method: str, id: str, below: str, query: Mapping[str, str], body: bytes
    ) -> Document:
        if not id:
            if method != "POST":
                raise wrong_method(f"/v1/conversations does not accept {method}: use POST", "POST")
            return await self._create(owner, _read_fields(body))
        if below:
            items, _, item = below.partition("/")
            if items != "items" or "/" in item:
                raise ClientError(f"there is no path /v1/conversations/ID/{below[:60]}", code="no_route", status=404)
            return await self._items(owner, method, id, item, query, body)
        match method:
            case "GET":
                return _shown(await self._read(owner, id))
            case "POST":
                metadata = _read_fields(body).metadata or {}
                return _shown(
                    await self._change(owner, id, lambda one: msgspec.structs.replace(one, metadata=metadata))
                )
            case "DELETE":
                if not is_id(id) or not await self._store.delete(owner, EntryKind.CONVERSATION, id):
                    raise unknown_conversation(id)
                return {"id": id, "object": "conversation.deleted", "deleted": True}
        raise wrong_method(f"/v1/conversations/ID does not accept {method}", "GET", "POST", "DELETE")

    async def _items(
        self, owner: str, method: str, id: str, item: str, query: Mapping[str, str], body: bytes
    ) -> Document:
        if method == "GET":
            stored = (await self._read(owner, id)).items
            if not item:
                return page_of(stored, query)
            found = next((one for one in stored if one.id == item), None)
            if found is None:
                raise _not_found("Item", item)
            return listed(found)
        if method == "POST" and not item:
            new = to_store(read_items(_read_fields(body).items, "items"))
            await self._change(owner, id, lambda one: msgspec.structs.replace(one, items=[*one.items, *new]))
            return page(new)
        if method == "DELETE" and item:

            def drop(one: StoredConversation) -> StoredConversation:
                return msgspec.structs.replace(one, items=[old for old in one.items if old.id != item])

            return _shown(await self._change(owner, id, drop))
        raise wrong_method(f"this path does not accept {method}", "GET", "DELETE" if item else "POST")

    async def _create(self, owner: str, fields: _ConversationFields) -> Document:
        items = to_store(read_items(fields.items, "items"))
        one = StoredConversation(new_id("conv_"), int(self._wall()), fields.metadata or {}, items)
        if not await self._store.write(owner, EntryKind.CONVERSATION, one.id, lambda: encode(one)):
            text = "the conversation is larger than responses.max_bytes: create it with fewer items"
            raise ClientError(text, code="too_large", status=413)
        return _shown(one)

    async def _read(self, owner: str, id: str) -> StoredConversation:
        record = await self._store.read(owner, EntryKind.CONVERSATION, id) if is_id(id) else None
        if record is None:
            raise unknown_conversation(id)
        return read_conversation(record)

    async def _change(
        self, owner: str, id: str, change: Callable[[StoredConversation], StoredConversation]
    ) -> StoredConversation:
        def work(record: bytes) -> tuple[bytes, StoredConversation]:
            changed = change(read_conversation(record))
            return encode(changed), changed

        found = await self._store.change(owner, EntryKind.CONVERSATION, id, work) if is_id(id) else None
        if found is None:
            raise unknown_conversation(id)
        return found


def _read_fields(body: bytes) -> _ConversationFields:
    try:
        return msgspec.json.decode(body or b"{}", type=_ConversationFields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ClientError(f"the body is invalid: {error}", code="bad_json") from None


def _shown(one: StoredConversation) -> Document:
    return {"id": one.id, "object": "conversation", "created_at": one.created_at, "metadata": one.metadata}


def _not_found(what: str, id: str) -> ClientError:
    return ClientError(f"{what} with id '{id[:140]}' not found.", code="not_found", status=404)
