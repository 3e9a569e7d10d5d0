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
    SPEECH = "speech"
    """Text to audio."""
    TRANSCRIPTION = "transcription"
    """Audio to text."""
    IMAGE = "image"
    """Images from text, or from other images."""


OLLAMA: frozenset[Dialect] = frozenset((Dialect.OLLAMA_CHAT, Dialect.OLLAMA_GENERATE))
"""Ollama's dialects that ask for text."""
OLLAMA_API: frozenset[Dialect] = OLLAMA | {Dialect.OLLAMA_EMBED}
SPOKEN: frozenset[Dialect] = frozenset(Dialect) - OLLAMA_API
"""The dialects that a serve can speak; requests in the others are translated."""
MEDIA: frozenset[Dialect] = frozenset((Dialect.SPEECH, Dialect.TRANSCRIPTION, Dialect.IMAGE))
"""Dialects of audio and images. Nothing is translated to or from them, and Stoker does not read the answers."""
TEXT: frozenset[Dialect] = SPOKEN - MEDIA


class RequestForm(StrEnum):
    """Where a request says which model it is for."""

    JSON = "json"
    """In its body, a JSON object."""
    MULTIPART = "multipart"
    """In a field of a form, `multipart/form-data`, which may have large files."""
    QUERY = "query"
    """In the query of its URL: it has no body."""


@dataclass(frozen=True)
class Endpoint:
    """One inference path.

    `generates` says whether a request here takes one of the serve's `max_active` places;
    `streams` whether `"stream": true` is understood by every serve: then Stoker may begin the stream itself.
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
    form: RequestForm = RequestForm.JSON
    is_media: bool = False
    may_lack_model: bool = False
    """Whether a request may leave its model out, if only one serve can be meant."""

    @property
    def has_tokens(self) -> bool:
        """Whether a request here has a prompt that has to fit the serve's context."""
        return self.generates and not self.is_media

    @property
    def method(self) -> str:
        return "GET" if self.form is RequestForm.QUERY else "POST"


def _media(path: str, dialect: Dialect, form: RequestForm = RequestForm.JSON) -> Endpoint:
    has_body = form is not RequestForm.QUERY
    return Endpoint(
        path, dialect, has_body, False, takes_parameters=has_body, form=form, is_media=True,
        may_lack_model=path.startswith("/sdapi/"),
    )  # fmt: skip


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
        _media("/v1/audio/speech", Dialect.SPEECH),
        _media("/v1/audio/voices", Dialect.SPEECH, RequestForm.QUERY),
        _media("/v1/audio/transcriptions", Dialect.TRANSCRIPTION, RequestForm.MULTIPART),
        _media("/v1/audio/translations", Dialect.TRANSCRIPTION, RequestForm.MULTIPART),
        _media("/v1/images/generations", Dialect.IMAGE),
        _media("/v1/images/edits", Dialect.IMAGE, RequestForm.MULTIPART),
        _media("/v1/images/variations", Dialect.IMAGE, RequestForm.MULTIPART),
        _media("/sdapi/v1/txt2img", Dialect.IMAGE),
        _media("/sdapi/v1/img2img", Dialect.IMAGE),
        _media("/sdapi/v1/options", Dialect.IMAGE, RequestForm.QUERY),
        _media("/sdapi/v1/samplers", Dialect.IMAGE, RequestForm.QUERY),
        _media("/sdapi/v1/sd-models", Dialect.IMAGE, RequestForm.QUERY),
        _media("/sdapi/v1/loras", Dialect.IMAGE, RequestForm.QUERY),
    )
}
