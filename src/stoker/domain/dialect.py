"""The dialects (API formats) that clients and serves speak, and the endpoints of each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Dialect(StrEnum):
    """A format of requests and replies. A serve lists the dialects that it speaks."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    RERANK = "rerank"
    RESPONSES = "responses"
    MESSAGES = "messages"
    OLLAMA_CHAT = "ollama-chat"
    """Ollama's `/api/chat`: only clients speak it."""
    OLLAMA_GENERATE = "ollama-generate"
    """Ollama's `/api/generate`: only clients speak it."""
    OLLAMA_EMBED = "ollama-embed"
    """Ollama's `/api/embed`, and `/api/embeddings` before it: only clients speak it."""


OLLAMA: frozenset[Dialect] = frozenset((Dialect.OLLAMA_CHAT, Dialect.OLLAMA_GENERATE))
"""Ollama's dialects that ask for text."""
OLLAMA_API: frozenset[Dialect] = OLLAMA | {Dialect.OLLAMA_EMBED}
SPOKEN: frozenset[Dialect] = frozenset(Dialect) - OLLAMA_API
"""The dialects that a serve can speak; requests in the others are translated."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One inference path.

    `generates` says whether a request here takes one of the serve's `max_active` places;
    `streams` whether `"stream": true` is understood.
    """

    path: str
    dialect: Dialect
    generates: bool = True
    streams: bool = True
    streams_unasked: bool = False
    """Whether a request without `stream` gets a stream."""
    takes_parameters: bool = True
    """Whether a serve's request parameters apply: what only counts or compacts takes no others than its own."""
    must_read: bool = False
    """Whether Stoker reads and writes each request itself, because most engines do not have this path."""


ENDPOINTS: dict[str, Endpoint] = {
    e.path: e
    for e in (
        Endpoint("/v1/chat/completions", Dialect.CHAT),
        Endpoint("/v1/completions", Dialect.COMPLETIONS),
        Endpoint("/v1/embeddings", Dialect.EMBEDDINGS, streams=False),
        Endpoint("/v1/rerank", Dialect.RERANK, streams=False),
        Endpoint("/v1/responses", Dialect.RESPONSES),
        Endpoint("/v1/responses/compact", Dialect.RESPONSES, streams=False, takes_parameters=False),
        Endpoint("/v1/responses/input_tokens", Dialect.RESPONSES, generates=False, streams=False, must_read=True),
        Endpoint("/v1/messages", Dialect.MESSAGES),
        Endpoint("/v1/messages/count_tokens", Dialect.MESSAGES, False, streams=False, takes_parameters=False),
        Endpoint("/api/chat", Dialect.OLLAMA_CHAT, streams_unasked=True),
        Endpoint("/api/generate", Dialect.OLLAMA_GENERATE, streams_unasked=True),
        Endpoint("/api/embed", Dialect.OLLAMA_EMBED, streams=False),
        Endpoint("/api/embeddings", Dialect.OLLAMA_EMBED, streams=False),
    )
}
