"""An answer as a chat completion, or its chunks."""

from __future__ import annotations

from typing import Any, ClassVar

from stoker.domain.answer import (
    Answer,
    Began,
    BlockKind,
    Closed,
    Counted,
    Ended,
    Event,
    Failed,
    Finished,
    Grew,
    Opened,
    Signed,
    StopReason,
    Tokens,
    ToolBegan,
    ToolEnded,
)
from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError
from stoker.domain.prompt import Redacted, Refusal, Text, Thinking, ToolCall
from stoker.domain.server_tools import McpListing, ServerCall, WebPage
from stoker.request.codec.own_replies import error_event
from stoker.request.translate.neutral.citations import citations
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import encode
from stoker.request.translate.neutral.protocols import AnswerContext, is_known, prefixed
from stoker.request.translate.neutral.thinking import note_signature

STOPS = {
    StopReason.END: "stop",
    StopReason.SEQUENCE: "stop",
    StopReason.PAUSED: "stop",
    StopReason.LENGTH: "length",
    StopReason.CONTEXT: "length",
    StopReason.CALLS: "tool_calls",
    StopReason.FILTERED: "content_filter",
}
_TEXT = b'"choices":[{"index":0,"delta":{"content":%b},"logprobs":null,"finish_reason":null}]%b}\n\n'


class ChunkWriter:
    """What both dialects with chunks do: these end with `[DONE]`, and usage comes in a chunk of its own before it, if
    the client asked for it.
    """

    content_type = b"text/event-stream; charset=utf-8"
    dialect: ClassVar[Dialect]
    id_prefix: ClassVar[str]
    whole_kind: ClassVar[str]
    chunk_kind: ClassVar[str]

    __slots__ = ("_context", "_head", "_stop", "_tail", "_tokens", "losses")

    def __init__(self, context: AnswerContext, losses: Losses) -> None:
        self.losses = losses
        self._context = context
        self._head = b""
        """What every chunk begins with."""
        self._tail = b',"usage":null' if context.prompt.wants_usage else b""
        self._tokens = Tokens()
        self._stop = StopReason.END

    def fail(self, error: StokerError) -> bytes:
        return error_event(error, self.dialect, self._context.request_id)

    def _begin(self, event: Began) -> None:
        self._head = b"data: %b," % encode(self._frame(self.chunk_kind, event.id, event.model))[:-1]
        if event.tokens is not None:
            self._tokens.update(event.tokens)

    def _frame(self, kind: str, id: str, model: str) -> dict[str, Any]:
        context = self._context
        id = prefixed(id, self.id_prefix, context.request_id)
        return {"id": id, "object": kind, "created": context.created, "model": model or context.model}

    def _on_finished(self, event: Finished) -> None:
        note_stop(event, self.losses)
        self._stop = event.stop

    def _end(self, last: bytes) -> bytes:
        """`last`: the chunk that says why the answer ended."""
        if self._context.prompt.wants_usage and is_known(self._tokens):
            last += b'%b"choices":[],"usage":%b}\n\n' % (self._head, encode(usage_of(self._tokens)))
        return last + b"data: [DONE]\n\n"

    def _whole(self, answer: Answer, choice: dict[str, Any]) -> dict[str, Any]:
        note_stop(Finished(answer.stop, answer.sequence), self.losses)
        out = self._frame(self.whole_kind, answer.id, answer.model) | {"choices": [choice]}
        return out | {"usage": usage_of(answer.tokens)} if is_known(answer.tokens) else out


class ChatAnswerWriter(ChunkWriter):
    dialect, id_prefix = Dialect.CHAT, "chatcmpl-"
    whole_kind, chunk_kind = "chat.completion", "chat.completion.chunk"

    __slots__ = ("_calls", "_is_custom", "_is_empty", "_kind", "_pages", "_said", "_said_before")

    def __init__(self, context: AnswerContext, losses: Losses) -> None:
        super().__init__(context, losses)
        self._kind: BlockKind | None = None
        self._calls = -1
        self._is_custom = False
        self._is_empty = False
        """The open call is of a function, and nothing of its arguments has come."""
        self._pages: list[WebPage] = []
        """What tools of Stoker brought."""
        self._said: list[str] = []
        """The text since then, in which they may be cited; and the characters before."""
        self._said_before = 0

    def write(self, event: Event) -> bytes:
        match event:
            case Grew(text=text, logprobs=logprobs):
                if logprobs is not None:
                    return self._chunk({"content": text}, logprobs={"content": logprobs, "refusal": None})
                return self._grow(text)
            case Opened(kind=kind):
                return self._open(kind, event)
            case Began():
                self._begin(event)
                return self._chunk({"role": "assistant", "content": ""})
            case Closed() if self._is_empty:
                return self._grow("{}")
            case Counted(tokens=tokens):
                self._tokens.update(tokens)
            case Signed(signature=signature):
                note_signature(signature, self.losses)
            case Finished():
                self._on_finished(event)
            case Failed(error=error):
                return self.fail(error)
            case ToolBegan(said=said) if not self._pages:
                self._said_before = said
            case ToolEnded(call=call):
                self._pages += call.pages
            case Ended():
                cited = _annotations("".join(self._said), self._pages, self._said_before)
                noted = self._chunk({"annotations": cited}) if cited else b""
                return noted + self._end(self._chunk({}, STOPS[self._stop]))
        return b""

    def write_whole(self, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        calls: list[dict[str, Any]] = []
        texts: list[str] = []
        thoughts: list[str] = []
        for block in answer.blocks:
            match block:
                case Text(text=text):
                    texts.append(text)
                case Thinking(text=text, signature=signature):
                    thoughts.append(text)
                    note_signature(signature, self.losses)
                case Redacted():
                    self.losses.add("thinking_redacted")
                case Refusal(text=text):
                    message["refusal"] = (message["refusal"] or "") + text
                case ServerCall(pages=pages):
                    self._pages += [page for page in pages if page.url]
                case McpListing():
                    pass
                case _:
                    calls.append(_call(block, "{}"))
        if texts:
            message["content"] = "".join(texts)
        if cited := _annotations(message["content"] or "", self._pages):
            message["annotations"] = cited
        if thoughts:
            message["reasoning_content"] = "".join(thoughts)
        if calls:
            message["tool_calls"] = calls
        logprobs = None if answer.logprobs is None else {"content": answer.logprobs, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": STOPS[answer.stop]}
        return self._whole(answer, choice)

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _open(self, kind: BlockKind, event: Opened) -> bytes:
        self._kind = kind
        if kind is BlockKind.REDACTED:
            self.losses.add("thinking_redacted")
        if kind is not BlockKind.CALL:
            return b""
        self._calls += 1
        self._is_custom, self._is_empty = event.custom, not event.custom
        call = _call(ToolCall(event.id, event.name, "", event.custom), "")
        return self._chunk({"tool_calls": [{"index": self._calls, **call}]})

    def _grow(self, text: str) -> bytes:
        match self._kind:
            case BlockKind.TEXT:
                if self._pages:
                    self._said.append(text)
                return self._head + _TEXT % (encode(text), self._tail)
            case BlockKind.THINKING:
                return self._chunk({"reasoning_content": text})
            case BlockKind.REFUSAL:
                return self._chunk({"refusal": text})
            case BlockKind.CALL:
                self._is_empty = False
                more = {"custom": {"input": text}} if self._is_custom else {"function": {"arguments": text}}
                return self._chunk({"tool_calls": [{"index": self._calls, **more}]})
        return b""

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, logprobs: Any = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return b'%b"choices":[%b]%b}\n\n' % (self._head, encode(choice), self._tail)


def _annotations(text: str, pages: list[WebPage], before: int = 0) -> list[dict[str, Any]]:
    return [{"type": "url_citation", "url_citation": one} for one in citations(text, pages, before)]


def note_stop(finished: Finished, losses: Losses) -> None:
    """What an OpenAI dialect cannot say of why the answer ended."""
    if finished.sequence is not None:
        losses.add("stop_string")


def usage_of(tokens: Tokens) -> dict[str, Any]:
    """Both totals are known; details only as far as they are."""
    out: dict[str, Any] = {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": (tokens.input or 0) + (tokens.output or 0),
    }
    cached = {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.written}
    if known := {name: count for name, count in cached.items() if count is not None}:
        out["prompt_tokens_details"] = known
    if tokens.reasoning is not None:
        out["completion_tokens_details"] = {"reasoning_tokens": tokens.reasoning}
    return out


def _call(call: ToolCall, nothing: str) -> dict[str, Any]:
    """`nothing`: how arguments are written that are not there."""
    if call.custom:
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    function = {"name": call.name, "arguments": call.arguments or nothing}
    return {"id": call.id, "type": "function", "function": function}
