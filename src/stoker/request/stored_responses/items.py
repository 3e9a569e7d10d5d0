"""Items of the Responses API: reading them from a request, their ids, and pages of them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import msgspec

from stoker.domain.errors import ClientError
from stoker.request.codec.tolerant_json import NOT_JSON, decode_fields

Raw = msgspec.Raw


class StoredItem(msgspec.Struct, array_like=True):
    """One item. `body` is what the client or the model wrote; `id` is how clients refer to it."""

    id: str
    body: Raw


class StoredResponse(msgspec.Struct):
    """One response with all that it was asked, so that no other record is needed to continue it."""

    response: Raw
    """The response object, with its output."""
    items: list[StoredItem]
    """The whole input, earlier turns included; without `instructions`, which hold for one request only."""


class StoredConversation(msgspec.Struct):
    id: str
    created_at: int
    metadata: dict[str, str] = {}
    items: list[StoredItem] = []


encode = msgspec.json.encode
read_response = msgspec.json.Decoder(StoredResponse).decode
read_conversation = msgspec.json.Decoder(StoredConversation).decode


MAX_PAGE = 100
DEFAULT_PAGE = 20
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_PREFIXES = {
    "message": "msg_", "reasoning": "rs_", "function_call": "fc_", "function_call_output": "fco_",
    "custom_tool_call": "ctc_", "custom_tool_call_output": "ctco_", "compaction": "cmp_",
}  # fmt: skip
CALLS = ("function_call", "custom_tool_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output")
_NULL = Raw(b"null")
_TEXT_PARTS = {"assistant": "output_text"}
_PART_DEFAULTS: dict[str, dict[str, Any]] = {"output_text": {"annotations": []}, "input_image": {"detail": "auto"}}
"""Fields that a part of a message has in listings, by the part's type."""
_raws = msgspec.json.Decoder(list[Raw]).decode


class Head(msgspec.Struct):
    """What decides how an item is treated."""

    type: Any = None
    role: Any = None
    id: Any = None
    encrypted_content: Any = None
    call_id: Any = None


_head = msgspec.json.Decoder(Head).decode


def head_of(item: Raw) -> Head:
    """All fields are None if the item is no object: whoever reads the request refuses it."""
    try:
        return _head(item)
    except NOT_JSON:
        return Head()


def call_id(item: Raw, kinds: Collection[str]) -> str | None:
    """The id of the call that an item makes, or answers; None: it is of none of these kinds."""
    head = head_of(item)
    return head.call_id if head.type in kinds and isinstance(head.call_id, str) else None


def new_id(prefix: str) -> str:
    """An id that cannot be guessed."""
    return prefix + secrets.token_hex(24)


def is_id(text: object) -> TypeGuard[str]:
    """Whether this can be the id of anything stored."""
    return isinstance(text, str) and _ID.match(text) is not None


def read_items(value: Raw | None, name: str) -> list[Raw]:
    """The items of an `input`: text is a message of the user. Raises ClientError 400."""
    text = b"null" if value is None else bytes(value)
    if text[:1] == b'"':
        part = {"type": "input_text", "text": Raw(text)}
        return [Raw(encode({"type": "message", "role": "user", "content": [part]}))]
    if text == b"null":
        return []
    try:
        return _raws(text)
    except NOT_JSON:
        raise ClientError(f"'{name}' must be a text or a list of items", code="bad_field", param=name) from None


def to_store(items: Iterable[Raw]) -> list[StoredItem]:
    """Each with its id, or with a new one. Items that refer to other items are refused with ClientError 400."""
    stored = []
    for item in items:
        head = head_of(item)
        if head.type == "item_reference" or (head.type is None and head.role is None and head.id is not None):
            text = "an item_reference cannot be resolved: send the item itself, or previous_response_id"
            raise ClientError(text, code="item_reference", param="input")
        kind = head.type if isinstance(head.type, str) else "message"
        id = head.id if is_id(head.id) else new_id(_PREFIXES.get(kind, "item_"))
        stored.append(StoredItem(id, item))
    return stored


def listed(item: StoredItem) -> dict[str, Any]:
    """The item as listings show it: with its id, its type, and its content as parts."""
    try:
        fields: dict[str, Any] = dict(decode_fields(item.body))
    except NOT_JSON:
        return {"id": item.id, "type": "unknown"}
    fields["id"] = item.id
    if "type" not in fields:
        fields["type"] = "message"
    head = head_of(item.body)
    if head.role is not None:
        fields["content"] = _parts(fields.get("content", Raw(b"null")), str(head.role))
    if (head.role is not None or head.type in (*CALLS, *OUTPUTS)) and fields.get("status", _NULL) == _NULL:
        fields["status"] = "completed"
    return fields


def _parts(content: Raw, role: str) -> Any:
    """The content of a message as parts, each with what its type requires."""
    text = bytes(content)
    if text[:1] == b'"':
        kind = _TEXT_PARTS.get(role, "input_text")
        return [{"type": kind, "text": Raw(text), **_PART_DEFAULTS.get(kind, {})}]
    try:
        parts = [(head_of(part).type, decode_fields(part)) for part in _raws(text)]
    except NOT_JSON:
        return content
    return [{**_PART_DEFAULTS.get(str(kind), {}), **fields} for kind, fields in parts]


def page_of(items: Sequence[StoredItem], query: Mapping[str, str]) -> dict[str, Any]:
    """A page of a listing: `order` (desc by default), `after` (an item's id), `limit`. Raises ClientError 400."""
    order, limit = query.get("order", "desc"), query.get("limit", str(DEFAULT_PAGE))
    if order not in ("asc", "desc"):
        raise ClientError("'order' must be asc or desc", code="bad_field", param="order")
    if not (limit.isascii() and limit.isdigit() and len(limit) < 6 and 1 <= int(limit) <= MAX_PAGE):
        raise ClientError(f"'limit' must be a number from 1 to {MAX_PAGE}", code="bad_field", param="limit")
    ordered = items if order == "asc" else list(reversed(items))
    start = 0
    if after := query.get("after"):
        start = next((at + 1 for at, item in enumerate(ordered) if item.id == after), -1)
        if start < 0:
            raise ClientError("'after' is not the id of an item of this list", code="bad_field", param="after")
    shown = ordered[start : start + int(limit)]
    return page(shown, start + len(shown) < len(ordered))


def page(items: Sequence[StoredItem], has_more: bool = False) -> dict[str, Any]:
    ends = (items[0].id, items[-1].id) if items else (None, None)
    data = [listed(item) for item in items]
    return {"object": "list", "data": data, "first_id": ends[0], "last_id": ends[1], "has_more": has_more}
