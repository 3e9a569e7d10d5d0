"""Which conversation a request continues, and the protocol of the keeper of conversations.

A conversation is identified by its beginning: the instructions and the user's first message. Every later
request of the conversation repeats them. The client's key is part of the identity, so no client can continue the
conversation of another one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from stoker.domain.dialect import Dialect, DialectSpec
from stoker.domain.lease import Target
from stoker.domain.serve import Serve

DIGITS = 32
"""Hex digits of an identity."""


class SequenceLease(Protocol):
    """One request's use of a sequence of the engine. The caller of `begin` has to release it, however the request
    ends.
    """

    @property
    def sequence(self) -> int | None:
        """The engine's `id_slot` for this request; None: `prepare` has not ended."""

    @property
    def restored(self) -> int | None:
        """Tokens that were restored from disk for this request; None: nothing was restored."""

    async def prepare(self) -> None:
        """Wait for a free sequence, and load the conversation into it. Raises UpstreamError `unreachable`.

        On cancel, `release` still gives the sequence back.
        """

    def release(self, tokens: int | None) -> None:
        """The request is over. `tokens`: prompt and answer together; None: it was aborted. A second call does
        nothing.
        """


class ConversationSequences(Protocol):
    """Gives each conversation a sequence of its own: what requests need of the fleet's `ConversationKeeper`."""

    def begin(self, serve: Serve, target: Target, key: str, dialect: Dialect, body: bytes) -> SequenceLease | None:
        """The use of a sequence by a request; its body must be valid JSON. None: this request, or this serve, has none.

        Takes no sequence before `prepare`. Linear in the body. `key`: the name of the caller's key.
        """


class _Message(msgspec.Struct):
    role: Any = None
    content: Any = None


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_turns = msgspec.json.Decoder(str | list[msgspec.Raw]).decode
_value = msgspec.json.Decoder().decode
_message = msgspec.json.Decoder(_Message).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def identity(secret: bytes, launch: str, key: str, dialect: Dialect, body: bytes) -> str | None:
    """The identity of the conversation: DIGITS hex digits. None: the body has no beginning of a conversation.

    `launch`: the serve and how it is started. `key`: the caller's key. A keyed hash, so that nobody can guess a
    beginning from its identity. Linear in the body; the messages after the beginning are skipped.
    """
    try:
        beginning = _beginning(dialect.spec, body)
    except msgspec.MsgspecError:
        return None
    if beginning is None:
        return None
    text = _encode([launch, key, dialect.value, beginning])
    return hmac.new(secret, text, hashlib.sha256).hexdigest()[:DIGITS]


def _beginning(spec: DialectSpec, body: bytes) -> list[Any] | None:
    if not spec.is_target:
        return None
    fields = _fields(body)
    turns = _turns(fields.get(spec.turns, b"[]"))
    if isinstance(turns, str):
        first = [["user", _parts(turns)]] if spec.turns_or_text else None
    else:
        first = _to_first_user(turns)
    if first is None or not spec.system:
        return first
    return [_parts(_value(fields.get(spec.system, b"null"))), first]


def _to_first_user(messages: Sequence[msgspec.Raw]) -> list[Any] | None:
    """The messages up to and including the user's first one; None: the user has written none."""
    found: list[Any] = []
    for raw in messages:
        message = _message(raw)
        found.append([message.role, _parts(message.content)])
        if message.role == "user":
            return found
    return None


def _parts(content: Any) -> list[Any]:
    """The content in a form that is the same for the same text.

    A client that marks the end of the cached part (`cache_control`) moves the mark with every request, and writes a
    part without a mark as plain text.
    """
    if content is None:
        return []
    parts = content if isinstance(content, list) else [content]
    return [_part(part) for part in parts]


def _part(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    text = part.get("text")
    if isinstance(text, str):
        return text
    return {name: value for name, value in part.items() if name != "cache_control"}
