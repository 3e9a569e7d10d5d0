"""The dialects (API formats) that clients and serves speak: what each is like, and its endpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class ApiFamily(StrEnum):
    """Whose API a dialect belongs to: errors, and the headers of replies, are written as there."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    OLLAMA = "ollama"


@dataclass(frozen=True)
class DialectSpec:
    """All that Stoker has to know of a dialect, and that is no code of its own. What does not apply is left out.

    The code is elsewhere: `request/translate/translate.py` names the readers and writers of each dialect, and
    `request/codec/reply_formats.py` how the answers of those are read that a serve speaks.
    """

    path: str
    """Where it is spoken. `ENDPOINTS` has all of its paths."""
    api: ApiFamily = ApiFamily.OPENAI
    is_spoken: bool = True
    """A serve can speak it. Requests in the others are translated."""
    is_media: bool = False
    """Of audio or images. Nothing is translated to or from it, and Stoker does not read the answers."""
    is_target: bool = False
    """Requests can be translated to it, from any other dialect that `translate.py` can read."""
    instead: tuple[Dialect, ...] = ()
    """What a serve that does not speak it is asked in: the dialect that loses least first."""

    # -- requests
    turns: str = ""
    """The field with the turns of the conversation."""
    turns_or_text: bool = False
    """That field may be the user's text instead."""
    system: str = ""
    """The field with the system prompt; empty: it is a turn, if there are turns."""
    options: str = ""
    """The field in which limit and sampling stand; empty: they are fields of the request."""
    limits: tuple[str, ...] = ()
    """The fields that limit output. If a request has none of them, the last one is set."""
    sampling: Mapping[str, str] = field(default_factory=dict)
    """How it calls the parameters that keys may set (`RequestDefaults.sampling`); it has no others."""
    thinking: Callable[[bool, object], Mapping[str, object]] | None = None
    """The fields that switch thinking on or off. It gets the request's limit, which may be anything."""
    also_says_thinking: tuple[str, ...] = ()
    """Other fields by which a request itself says something about thinking."""
    asks_usage: bool = False
    """A stream reports usage only if its request asks for that, by `stream_options`."""
    server_calls: tuple[bytes, ...] = ()
    """How calls of tools that its vendor runs, and what came of them, are written in a history."""
    may_hide_images: bool = False
    """Its images are not given by any of the usual keys, so that nothing is known of them before it is read."""
    needs_headers: tuple[tuple[bytes, bytes], ...] = ()
    """What a serve of it wants with a request that Stoker wrote."""
    canary: Mapping[str, object] | None = None
    """A cheap request, without its model."""
    counter: str = ""
    """Where engines count the tokens of a request."""

    # -- answers
    answers: str = ""
    """The field of a whole answer that lists its content."""
    piece: bytes = b""
    """What each streamed piece of an answer has once, and nothing else has."""
    ending: bytes = b"_reason"
    """The field with the word by which an answer ends. The whole name: a longer one is found with fewer comparisons."""
    has_response: bool = False
    """Answers are a response object: streams begin with it and repeat it, and a failure is written in it."""
    keeps_logprobs: bool = False
    """It has a place for log probabilities of tokens, as chat lists them."""
    fits_schema: bool = False
    """Its answers always fit the schema that is asked for."""
    nothing: bytes = b""
    """Its streams are lines of JSON, and this is how a line says nothing. Empty: they are events (SSE)."""

    @property
    def generates(self) -> bool:
        """Whether it asks a serve for a text."""
        return self.is_spoken and bool(self.limits)


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

    spec: DialectSpec
    """What it is like. An attribute, because to look it up by the dialect would take longer."""


def _chat_thinking(thinks: bool, limit: object) -> Mapping[str, object]:
    return {"chat_template_kwargs": {"enable_thinking": thinks}}


def _messages_thinking(thinks: bool, limit: object) -> Mapping[str, object]:
    if not thinks:
        return {"thinking": {"type": "disabled"}}
    if isinstance(limit, int) and limit > 2048:  # the budget has to be below the limit, and at least 1024
        return {"thinking": {"type": "enabled", "budget_tokens": max(1024, limit // 2)}}
    return {}


def _responses_thinking(thinks: bool, limit: object) -> Mapping[str, object]:
    return {"reasoning": {"effort": "medium" if thinks else "none"}}


def _ollama_thinking(thinks: bool, limit: object) -> Mapping[str, object]:
    return {"think": thinks}


def _same(*names: str) -> Mapping[str, str]:
    return {name: name for name in names}


_ASK = "Hi"
_TURN = ({"role": "user", "content": _ASK},)
_ENGINE_SAMPLING = _same("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_OLLAMA_SAMPLING = {**_ENGINE_SAMPLING, "repetition_penalty": "repeat_penalty"}

SPECS: Final[dict[Dialect, DialectSpec]] = {
    Dialect.CHAT: DialectSpec(
        "/v1/chat/completions",
        is_target=True,
        instead=(Dialect.RESPONSES, Dialect.MESSAGES),
        turns="messages",
        limits=("max_completion_tokens", "max_tokens"),
        sampling=_ENGINE_SAMPLING,
        thinking=_chat_thinking,
        also_says_thinking=("reasoning_effort",),
        asks_usage=True,
        canary={"messages": _TURN, "max_tokens": 1},
        counter="/v1/chat/completions/input_tokens",
        answers="choices",
        piece=b'"delta"',
        ending=b"finish_reason",
        keeps_logprobs=True,
    ),
    Dialect.COMPLETIONS: DialectSpec(
        "/v1/completions",
        instead=(Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES),
        limits=("max_tokens",),
        sampling=_ENGINE_SAMPLING,
        asks_usage=True,
        canary={"prompt": _ASK, "max_tokens": 1},
        answers="choices",
        piece=b'"text"',
        ending=b"finish_reason",
    ),
    Dialect.MESSAGES: DialectSpec(
        "/v1/messages",
        ApiFamily.ANTHROPIC,
        is_target=True,
        instead=(Dialect.CHAT, Dialect.RESPONSES),
        turns="messages",
        system="system",
        limits=("max_tokens",),
        sampling=_same("temperature", "top_p", "top_k"),
        thinking=_messages_thinking,
        server_calls=(b'"server_tool_use"', b'"mcp_tool_use"', b'_tool_result"'),
        needs_headers=((b"anthropic-version", b"2023-06-01"),),
        canary={"messages": _TURN, "max_tokens": 1},
        counter="/v1/messages/count_tokens",
        answers="content",
        piece=b'"content_block_delta"',
        ending=b"stop_reason",
        fits_schema=True,
    ),
    Dialect.RESPONSES: DialectSpec(
        "/v1/responses",
        is_target=True,
        instead=(Dialect.CHAT, Dialect.MESSAGES),
        turns="input",
        turns_or_text=True,
        system="instructions",
        limits=("max_output_tokens",),
        sampling=_same("temperature", "top_p"),
        thinking=_responses_thinking,
        server_calls=(b'"web_search_call"', b'"mcp_'),
        canary={"input": _ASK, "max_output_tokens": 16},  # some engines refuse fewer
        counter="/v1/responses/input_tokens",
        answers="output",
        piece=b'.delta"',
        has_response=True,
    ),
    Dialect.EMBEDDINGS: DialectSpec("/v1/embeddings", canary={"input": _ASK}),
    Dialect.RERANK: DialectSpec("/v1/rerank", canary={"query": _ASK, "documents": (_ASK,)}),
    Dialect.OLLAMA_CHAT: DialectSpec(
        "/api/chat",
        ApiFamily.OLLAMA,
        is_spoken=False,
        instead=(Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES),
        turns="messages",
        options="options",
        limits=("num_predict",),
        sampling=_OLLAMA_SAMPLING,
        thinking=_ollama_thinking,
        may_hide_images=True,
        keeps_logprobs=True,
        fits_schema=True,
        nothing=b'"message":{"role":"assistant","content":""}',
    ),
    Dialect.OLLAMA_GENERATE: DialectSpec(
        "/api/generate",
        ApiFamily.OLLAMA,
        is_spoken=False,
        instead=(Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES),
        system="system",
        options="options",
        limits=("num_predict",),
        sampling=_OLLAMA_SAMPLING,
        thinking=_ollama_thinking,
        may_hide_images=True,
        keeps_logprobs=True,
        fits_schema=True,
        nothing=b'"response":""',
    ),
    Dialect.OLLAMA_EMBED: DialectSpec("/api/embed", ApiFamily.OLLAMA, is_spoken=False, instead=(Dialect.EMBEDDINGS,)),
    Dialect.SPEECH: DialectSpec("/v1/audio/speech", is_media=True),
    Dialect.TRANSCRIPTION: DialectSpec("/v1/audio/transcriptions", is_media=True),
    Dialect.IMAGE: DialectSpec("/v1/images/generations", is_media=True),
}
"""In the order in which a serve that speaks several is asked for its canary."""
for _dialect, _spec in SPECS.items():
    _dialect.spec = _spec

SPOKEN: Final = frozenset(dialect for dialect in Dialect if dialect.spec.is_spoken)
"""The dialects that a serve can speak; requests in the others are translated."""
MEDIA: Final = frozenset(dialect for dialect in Dialect if dialect.spec.is_media)
TEXT: Final = SPOKEN - MEDIA
TARGETS: Final = tuple(dialect for dialect, spec in SPECS.items() if spec.is_target)
"""The dialects that requests can be translated to."""
OUTPUT_LIMITS: Final = tuple(
    dict.fromkeys(name for spec in SPECS.values() if spec.generates for name in reversed(spec.limits))
)
"""What the limit of output is called, by any dialect that a serve can speak."""


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
