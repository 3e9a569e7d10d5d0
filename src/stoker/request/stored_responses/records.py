"""What is stored of a response and of a conversation. The records are JSON in the store's file."""

from __future__ import annotations

import msgspec

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
