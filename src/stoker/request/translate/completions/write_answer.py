"""An answer as a text completion, or its chunks: text alone, whatever else the model did."""

from __future__ import annotations

from typing import Any

from stoker.domain.answer import (
    Answer,
    Began,
    BlockKind,
    Counted,
    Ended,
    Event,
    Failed,
    Finished,
    Grew,
    Opened,
    StopReason,
    Tokens,
)
from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError
from stoker.domain.prompt import Redacted, Refusal, Text, Thinking
from stoker.request.codec.own_replies import error_event, ping
from stoker.request.translate.chat.write_answer import note_stop, usage_of
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import encode
from stoker.request.translate.neutral.protocols import AnswerContext, is_known, prefixed

STOPS = {
    StopReason.END: "stop",
    StopReason.SEQUENCE: "stop",
    StopReason.PAUSED: "stop",
    StopReason.CALLS: "stop",
    StopReason.LENGTH: "length",
    StopReason.CONTEXT: "length",
    StopReason.FILTERED: "content_filter",
}
_LOST = {
    BlockKind.THINKING: "thinking",
    BlockKind.REDACTED: "thinking_redacted",
    BlockKind.CALL: "call",
    BlockKind.REFUSAL: "refusal",
}
"""What of a block is lost: a refusal its name, the others all."""
_SAID = (BlockKind.TEXT, BlockKind.REFUSAL)
_CHUNK = b'%b"choices":[{"index":0,"text":%b,"logprobs":null,"finish_reason":%b}]%b}\n\n'


class CompletionsAnswerWriter:
    """Chunks end with `[DONE]`; usage comes in a chunk of its own before it, if the client asked for it."""

    content_type = b"text/event-stream; charset=utf-8"

    __slots__ = ("_context", "_finish", "_head", "_is_said", "_tail", "_tokens", "losses")

    def __init__(self, context: AnswerContext, losses: Losses) -> None:
        self.losses = losses
        self._context = context
        self._head = b""
        """What every chunk begins with."""
        self._tail = b',"usage":null' if context.prompt.wants_usage else b""
        self._is_said = False
        """The open block is text."""
        self._tokens = Tokens()
        self._finish: Finished | None = None

    def write(self, event: Event) -> bytes:
        match event:
            case Grew(text=text):
                return self._chunk(text) if self._is_said else b""
            case Opened(kind=kind):
                self._open(kind)
            case Began():
                self._begin(event)
            case Counted(tokens=tokens):
                self._tokens.update(tokens)
            case Finished():
                note_stop(event, self.losses)
                self._finish = event
            case Failed(error=error):
                return self.fail(error)
            case Ended():
                return self._end()
        return b""

    def fail(self, error: StokerError) -> bytes:
        return error_event(error, Dialect.COMPLETIONS, self._context.request_id)

    def ping(self) -> bytes:
        return ping(Dialect.COMPLETIONS)

    def write_whole(self, answer: Answer) -> dict[str, Any]:
        texts: list[str] = []
        for block in answer.blocks:
            match block:
                case Text(text=text):
                    texts.append(text)
                case Refusal(text=text):
                    self._open(BlockKind.REFUSAL)
                    texts.append(text)
                case Thinking():
                    self._open(BlockKind.THINKING)
                case Redacted():
                    self._open(BlockKind.REDACTED)
                case _:
                    self._open(BlockKind.CALL)
        note_stop(Finished(answer.stop, answer.sequence), self.losses)
        choice = {"index": 0, "text": "".join(texts), "logprobs": None, "finish_reason": STOPS[answer.stop]}
        out = self._frame(answer.id, answer.model) | {"choices": [choice]}
        return out | {"usage": usage_of(answer.tokens)} if is_known(answer.tokens) else out

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _begin(self, event: Began) -> None:
        self._head = b"data: %b," % encode(self._frame(event.id, event.model))[:-1]
        if event.tokens is not None:
            self._tokens.update(event.tokens)

    def _frame(self, id: str, model: str) -> dict[str, Any]:
        context = self._context
        id = prefixed(id, "cmpl-", context.request_id)
        return {"id": id, "object": "text_completion", "created": context.created, "model": model or context.model}

    def _open(self, kind: BlockKind) -> None:
        self._is_said = kind in _SAID
        if kind in _LOST:
            self.losses.add(_LOST[kind])

    def _chunk(self, text: str, finish: str | None = None) -> bytes:
        return _CHUNK % (self._head, encode(text), encode(finish), self._tail)

    def _end(self) -> bytes:
        stop = self._finish.stop if self._finish is not None else StopReason.END
        out = self._chunk("", STOPS[stop])
        if self._context.prompt.wants_usage and is_known(self._tokens):
            out += b'%b"choices":[],"usage":%b}\n\n' % (self._head, encode(usage_of(self._tokens)))
        return out + b"data: [DONE]\n\n"
