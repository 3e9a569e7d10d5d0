"""What clients and serves speak."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Dialect(StrEnum):
    """A request and reply format. A serve lists the ones that it speaks."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    RERANK = "rerank"
    RESPONSES = "responses"
    MESSAGES = "messages"


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


ENDPOINTS: dict[str, Endpoint] = {
    e.path: e
    for e in (
        Endpoint("/v1/chat/completions", Dialect.CHAT),
        Endpoint("/v1/completions", Dialect.COMPLETIONS),
        Endpoint("/v1/embeddings", Dialect.EMBEDDINGS, streams=False),
        Endpoint("/v1/rerank", Dialect.RERANK, streams=False),
        Endpoint("/v1/responses", Dialect.RESPONSES),
        Endpoint("/v1/messages", Dialect.MESSAGES),
        Endpoint("/v1/messages/count_tokens", Dialect.MESSAGES, generates=False, streams=False),
    )
}
