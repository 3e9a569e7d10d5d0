"""An answer as Ollama's: one object, or one line of JSON for each piece, the last with `done` and the counts.

A call goes out whole, when it is closed: its arguments are an object. Durations are left out: only the engine knows
them, and the clients' types allow it.
"""

from __future__ import annotations

from typing import Any

from stoker.domain.answer import (
    Answer,
    Began,
    BlockKind,
    Closed,
    Counted,
    Event,
    Failed,
    Finished,
    Grew,
    Opened,
    Signed,
    StopReason,
    Tokens,
)
from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError
from stoker.domain.prompt import Redacted, Refusal, Text, Thinking, ToolCall
from stoker.domain.server_tools import McpListing, ServerCall
from stoker.request.codec.own_replies import error_event, rfc3339
from stoker.request.translate.chat.write_answer import note_stop
from stoker.request.translate.neutral.calls import as_object
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import encode, loose
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import note_signature

_LENGTH = (StopReason.LENGTH, StopReason.CONTEXT)


class OllamaAnswerWriter:
    """For /api/chat, and for /api/generate, whose answers are `response` and hold no calls."""

    content_type = b"application/x-ndjson"

    __slots__ = (
        "_call",
        "_calls",
        "_context",
        "_finish",
        "_generate",
        "_head",
        "_kind",
        "_pieces",
        "_tokens",
        "losses",
    )

    def __init__(self, context: AnswerContext, losses: Losses) -> None:
        self.losses = losses
        self._context = context
        self._generate = context.prompt.dialect is Dialect.OLLAMA_GENERATE
        self._head = self._start(context.model)
        """What every line begins with."""
        self._kind: BlockKind | None = None
        self._call: Opened | None = None
        self._pieces: list[str] = []
        self._calls = 0
        self._tokens = Tokens()
        self._finish = Finished(StopReason.END)

    def write(self, event: Event) -> bytes:
        match event:
            case Grew(text=text, logprobs=logprobs):
                return self._grow(text, logprobs)
            case Opened(kind=kind):
                self._kind = kind
                self._open(event)
            case Closed():
                return self._close()
            case Began():
                self._begin(event)
            case Counted(tokens=tokens):
                self._tokens.update(tokens)
            case Signed(signature=signature):
                note_signature(signature, self.losses)
            case Finished():
                self._finish = event
            case Failed(error=error):
                return self.fail(error)
            case _:
                return self._line(self._said() | self._end(self._finish, self._tokens))
        return b""

    def fail(self, error: StokerError) -> bytes:
        return error_event(error, self._context.prompt.dialect, self._context.request_id)

    def write_whole(self, answer: Answer) -> dict[str, Any]:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[dict[str, Any]] = []
        for block in answer.blocks:
            match block:
                case Text(text=text):
                    texts.append(text)
                case Refusal(text=text):
                    self.losses.add("refusal")
                    texts.append(text)
                case Thinking(text=text, signature=signature):
                    note_signature(signature, self.losses)
                    thoughts.append(text)
                case Redacted():
                    self.losses.add("thinking_redacted")
                case ToolCall() if self._generate:
                    self.losses.add("call")
                case ServerCall() | McpListing():
                    pass
                case _:
                    calls.append(self._called(len(calls), block.id, block.name, block.arguments))
        more: dict[str, Any] = {"thinking": "".join(thoughts)} if thoughts else {}
        said = self._said("".join(texts), more | ({"tool_calls": calls} if calls else {}))
        end = self._end(Finished(answer.stop, answer.sequence), answer.tokens)
        if answer.logprobs is not None:
            end["logprobs"] = answer.logprobs
        return _frame(answer.model or self._context.model, self._context.created) | said | end

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _begin(self, event: Began) -> None:
        self._head = self._start(event.model or self._context.model)
        if event.tokens is not None:
            self._tokens.update(event.tokens)

    def _open(self, event: Opened) -> None:
        match event.kind:
            case BlockKind.REDACTED:
                self.losses.add("thinking_redacted")
            case BlockKind.REFUSAL:
                self.losses.add("refusal")
            case BlockKind.CALL if self._generate:
                self.losses.add("call")
            case BlockKind.CALL:
                self._call = event

    def _grow(self, text: str, logprobs: list[Any] | None) -> bytes:
        match self._kind:
            case BlockKind.TEXT | BlockKind.REFUSAL:
                more = {"done": False} if logprobs is None else {"done": False, "logprobs": logprobs}
                return self._line(self._said(text) | more)
            case BlockKind.THINKING:
                return self._line(self._said("", {"thinking": text}) | {"done": False})
            case BlockKind.CALL if self._call is not None:
                self._pieces.append(text)
        return b""

    def _close(self) -> bytes:
        call, self._call = self._call, None
        if call is None:
            return b""
        arguments, self._pieces = "".join(self._pieces), []
        called = self._called(self._calls, call.id, call.name, arguments)
        self._calls += 1
        return self._line(self._said("", {"tool_calls": [called]}) | {"done": False})

    def _called(self, index: int, id: str, name: str, arguments: str) -> dict[str, Any]:
        """Why the answer ends is not known yet where a call closes: arguments may always be cut off."""
        function = {"index": index, "name": name, "arguments": as_object(arguments, self.losses, whole=False)}
        return {"id": id, "function": function} if id else {"function": function}

    def _said(self, text: str = "", more: dict[str, Any] | None = None) -> dict[str, Any]:
        more = more or {}
        if self._generate:
            return {"response": text, **more}
        return {"message": {"role": "assistant", "content": text, **more}}

    def _end(self, finished: Finished, tokens: Tokens) -> dict[str, Any]:
        note_stop(finished, self.losses)
        if finished.stop is StopReason.FILTERED:
            self.losses.add("stop_reason")
        out: dict[str, Any] = {"done": True, "done_reason": "length" if finished.stop in _LENGTH else "stop"}
        counts = {"prompt_eval_count": tokens.input, "eval_count": tokens.output}
        return out | {name: count for name, count in counts.items() if count is not None}

    def _start(self, model: str) -> bytes:
        return encode(_frame(model, self._context.created))[:-1] + b","

    def _line(self, rest: dict[str, Any]) -> bytes:
        return b"%b%b\n" % (self._head, encode(rest)[1:])


def wants_unload(body: bytes) -> bool:
    """Whether a request without anything to answer is to unload the model: `keep_alive` is 0, `"0"`, `"0s"`.

    For a body that was read already; raises nothing.
    """
    found = loose(body)
    value = found.get("keep_alive") if isinstance(found, dict) else None
    if isinstance(value, str):
        return "0" in value and not any(digit in value for digit in "123456789")
    return type(value) in (int, float) and value == 0


def load_answer(model: str, created: int, unload: bool, generate: bool) -> dict[str, Any]:
    """The one object that answers a request which only loads a model, or unloads it. `created`: Unix seconds."""
    said: dict[str, Any] = {"response": ""} if generate else {"message": {"role": "assistant", "content": ""}}
    return _frame(model, created) | said | {"done": True, "done_reason": "unload" if unload else "load"}


def _frame(model: str, created: int) -> dict[str, Any]:
    return {"model": model, "created_at": rfc3339(created)}
