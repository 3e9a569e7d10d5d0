"""Which conversation a request continues, and the protocol of whoever keeps conversations.

A conversation is identified by its beginning: the instructions and the user's first message. Every later request of it
repeats them. The client's key is part of the identity, so no client can continue the conversation of another one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.lease import Target
from stoker.domain.serve import Serve

DIGITS = 32
"""Hex digits of an identity."""


class SequenceLease(Protocol):
    """One request's use of an engine's sequence. Whoever got it releases it, however the request ended."""

    @property
    def sequence(self) -> int | None:
        """The engine's `id_slot` for this request; None: not prepared."""

    @property
    def restored(self) -> int | None:
        """Tokens that were restored from disk for it; None: none."""

    async def prepare(self) -> None:
        """Wait for a free sequence, and have the right contents in it. Raises UpstreamError `unreachable`.

        On cancel nothing is lost: `release` gives back what was taken.
        """

    def release(self, tokens: int | None) -> None:
        """The request is over. `tokens`: of prompt and answer; None: it was broken off. A second call does nothing."""


class ConversationKeeper(Protocol):
    """Gives each conversation a sequence of its own."""

    def begin(self, serve: Serve, target: Target, key: str, dialect: Dialect, body: bytes) -> SequenceLease | None:
        """For a request whose body is proved JSON. None: it takes no sequence, or none are kept for this serve.

        Takes nothing yet; linear in the body. `key` is the caller's key by its name.
        """


class _Message(msgspec.Struct):
    role: Any = None
    content: Any = None


class _Chat(msgspec.Struct):
    messages: list[msgspec.Raw] = []


class _Messages(msgspec.Struct):
    system: Any = None
    messages: list[msgspec.Raw] = []


class _Responses(msgspec.Struct):
    instructions: Any = None
    input: str | list[msgspec.Raw] = []


_chat = msgspec.json.Decoder(_Chat).decode
_messages = msgspec.json.Decoder(_Messages).decode
_responses = msgspec.json.Decoder(_Responses).decode
_message = msgspec.json.Decoder(_Message).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def identity(secret: bytes, launch: str, key: str, dialect: Dialect, body: bytes) -> str | None:
    """DIGITS hex digits for caller `key` on `launch` (a serve as it is started); None: it shows no beginning.

    A keyed hash: whoever has only the identity cannot try beginnings out. Linear in the body; later messages are
    skipped over.
    """
    try:
        beginning = _beginning(dialect, body)
    except msgspec.MsgspecError:
        return None
    if beginning is None:
        return None
    said = _encode([launch, key, dialect.value, beginning])
    return hmac.new(secret, said, hashlib.sha256).hexdigest()[:DIGITS]


def _beginning(dialect: Dialect, body: bytes) -> list[Any] | None:
    match dialect:
        case Dialect.CHAT:
            return _to_first_user(_chat(body).messages)
        case Dialect.MESSAGES:
            found = _messages(body)
            first = _to_first_user(found.messages)
            return None if first is None else [_parts(found.system), first]
        case Dialect.RESPONSES:
            asked = _responses(body)
            if isinstance(asked.input, str):
                return [_parts(asked.instructions), [["user", _parts(asked.input)]]]
            first = _to_first_user(asked.input)
            return None if first is None else [_parts(asked.instructions), first]
        case _:
            return None


def _to_first_user(messages: Sequence[msgspec.Raw]) -> list[Any] | None:
    """The messages up to and including the user's first one; None: there is none."""
    found: list[Any] = []
    for raw in messages:
        message = _message(raw)
        found.append([message.role, _parts(message.content)])
        if message.role == "user":
            return found
    return None


def _parts(content: Any) -> list[Any]:
    """The same for the same words: a client that marks the end of what is to be cached moves the mark with every
    request, and writes what has no mark any more as plain text.
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
