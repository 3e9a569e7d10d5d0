"""A Messages answer as events. Its blocks open and close themselves; usage is a running total."""

from __future__ import annotations

from typing import Any

from stoker.domain.answer import (
    Answer,
    Began,
    Closed,
    Counted,
    Ended,
    Event,
    Failed,
    Finished,
    Grew,
    Kind,
    Opened,
    Said,
    Signed,
    Stop,
    Tokens,
)
from stoker.domain.prompt import Call, Redacted, Text, Thinking
from stoker.request.codec.frames import as_error, is_error
from stoker.request.translate.corners import Losses
from stoker.request.translate.dialogue import number, part
from stoker.request.translate.json_text import encode

STOPS = {
    "end_turn": Stop.END, "max_tokens": Stop.LENGTH, "stop_sequence": Stop.SEQUENCE, "tool_use": Stop.CALLS,
    "pause_turn": Stop.PAUSED, "refusal": Stop.FILTERED, "model_context_window_exceeded": Stop.CONTEXT,
}  # fmt: skip
_KINDS = {
    "text": Kind.TEXT, "thinking": Kind.THINKING, "redacted_thinking": Kind.REDACTED, "tool_use": Kind.CALL,
}  # fmt: skip
_PIECES = {
    "text_delta": (Kind.TEXT, "text"), "thinking_delta": (Kind.THINKING, "thinking"),
    "input_json_delta": (Kind.CALL, "partial_json"),
}  # fmt: skip
_LATE = 1 << 32
"""Numbers of blocks that the serve never opened."""


class AnswerReader:
    """Blocks of kinds that nobody else knows are dropped. A delta whose block is of another kind, or was never opened,
    goes into a block of its own: nothing is lost.
    """

    __slots__ = ("_began", "_finish", "_is_over", "_late", "_open", "_tokens", "losses")

    def __init__(self, losses: Losses) -> None:
        self.losses = losses
        self._began = False
        self._is_over = False
        self._open: dict[int, Kind | None] = {}
        """Kind by index; None: a block that is dropped."""
        self._late = _LATE
        self._finish: Finished | None = None
        self._tokens = Tokens()

    def read(self, payload: dict[str, Any]) -> list[Event]:
        if self._is_over:
            return []
        if is_error(payload):
            self._is_over = True
            return [Failed(as_error(payload))]
        match payload.get("type"):
            case "content_block_delta":
                return self._grow(_index(payload), _object(payload.get("delta")))
            case "content_block_start":
                return self._start(_index(payload), _object(payload.get("content_block")))
            case "content_block_stop":
                return self._close(_index(payload))
            case "message_start":
                return self._begin(_object(payload.get("message")))
            case "message_delta":
                return self._change(payload)
            case "message_stop":
                return self.end()
        return []

    def end(self) -> list[Event]:
        if self._is_over or self._finish is None:
            return []
        self._is_over = True
        out: list[Event] = []
        for index in list(self._open):
            out += self._close(index)
        return [*out, self._finish, Ended()]

    def whole(self, payload: dict[str, Any]) -> Answer:
        answer = Answer(_text(payload.get("id")), _text(payload.get("model")))
        content = payload.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and (said := self._said(block)) is not None:
                answer.blocks.append(said)
        answer.stop = STOPS.get(_text(payload.get("stop_reason")), Stop.END)
        answer.sequence = payload["stop_sequence"] if isinstance(payload.get("stop_sequence"), str) else None
        if isinstance(payload.get("stop_details"), dict):
            self.losses.add("stop_details")
        answer.tokens = tokens_of(_object(payload.get("usage")))
        return answer

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _begin(self, message: dict[str, Any]) -> list[Event]:
        if self._began:
            return []
        self._began = True
        self._tokens.update(_early(_object(message.get("usage"))))
        return [Began(_text(message.get("id")), _text(message.get("model")), self._copy())]

    def _start(self, index: int, block: dict[str, Any]) -> list[Event]:
        out = self._close(index) if index in self._open else []
        kind = _KINDS.get(_text(block.get("type")))
        self._open[index] = kind
        match kind:
            case None:
                self.losses.add("foreign_block")
            case Kind.REDACTED:
                out += (Opened(index, kind), _grew(index, block, "data"))
            case Kind.CALL:
                out.append(Opened(index, kind, _text(block.get("id")), _text(block.get("name"))))
                given = block.get("input")
                if isinstance(given, dict) and given:  # some engines put the arguments here, and send no delta
                    out.append(Grew(index, encode(given).decode()))
            case Kind.TEXT:
                out.append(Opened(index, kind))
                if block.get("text"):
                    out.append(_grew(index, block, "text"))
                if block.get("citations"):
                    self.losses.add("citations")
            case _:
                out.append(Opened(index, kind))
                if block.get("thinking"):
                    out.append(_grew(index, block, "thinking"))
        return [event for event in out if not isinstance(event, Grew) or event.text]

    def _grow(self, index: int, delta: dict[str, Any]) -> list[Event]:
        name = _text(delta.get("type"))
        known = self._open.get(index, Kind.REFUSAL)  # a kind that no delta has
        if known is None:
            return []
        if name == "signature_delta":
            signature = _text(delta.get("signature"))
            return [Signed(index, signature)] if known is Kind.THINKING and signature else []
        if name == "citations_delta":
            self.losses.add("citations")
        if name not in _PIECES:
            return []
        kind, field = _PIECES[name]
        text = _text(delta.get(field))
        if not text:
            return []
        if known is kind:
            return [Grew(index, text)]
        self._late += 1
        return [Opened(self._late, kind), Grew(self._late, text), Closed(self._late)]

    def _close(self, index: int) -> list[Event]:
        return [Closed(index)] if self._open.pop(index, None) is not None else []

    def _change(self, payload: dict[str, Any]) -> list[Event]:
        delta = _object(payload.get("delta"))
        reason = _text(delta.get("stop_reason"))
        if reason:
            sequence = delta.get("stop_sequence")
            stop = STOPS.get(reason, Stop.END)
            self._finish = Finished(stop, sequence if isinstance(sequence, str) else None)
        if isinstance(delta.get("stop_details"), dict):
            self.losses.add("stop_details")
        usage = payload.get("usage")
        if not isinstance(usage, dict):
            return []
        self._tokens.update(_later(usage, self._tokens))
        return [Counted(self._copy())]

    def _copy(self) -> Tokens:
        tokens = Tokens()
        tokens.update(self._tokens)
        return tokens

    def _said(self, block: dict[str, Any]) -> Said | None:
        match block.get("type"):
            case "text":
                if block.get("citations"):
                    self.losses.add("citations")
                return Text(_text(block.get("text")))
            case "thinking":
                return Thinking(_text(block.get("thinking")), _text(block.get("signature")))
            case "redacted_thinking":
                return Redacted(_text(block.get("data")))
            case "tool_use":
                given = block.get("input")
                arguments = encode(given).decode() if isinstance(given, dict) else "{}"
                return Call(_text(block.get("id")), _text(block.get("name")), arguments)
        self.losses.add("foreign_block")
        return None


def tokens_of(usage: dict[str, Any]) -> Tokens:
    """Messages counts what was cached apart; here the input is the whole prompt."""
    tokens = Tokens(
        cached=number(usage.get("cache_read_input_tokens")),
        written=number(usage.get("cache_creation_input_tokens")),
        output=number(usage.get("output_tokens")),
        reasoning=part(usage, "output_tokens_details", "thinking_tokens"),
    )
    fresh = number(usage.get("input_tokens"))
    if fresh is not None:
        tokens.input = fresh + (tokens.cached or 0) + (tokens.written or 0)
    return tokens


def _early(usage: dict[str, Any]) -> Tokens:
    """What `message_start` says; its output count is none yet."""
    tokens = tokens_of(usage)
    tokens.output = None
    return tokens


def _later(usage: dict[str, Any], before: Tokens) -> Tokens:
    """What `message_delta` says: only what it names is new, and its input is without what was cached before."""
    given = dict(usage)
    given.setdefault("cache_read_input_tokens", before.cached)
    given.setdefault("cache_creation_input_tokens", before.written)
    return tokens_of(given)


def _grew(index: int, block: dict[str, Any], name: str) -> Grew:
    return Grew(index, _text(block.get(name)))


def _index(payload: dict[str, Any]) -> int:
    index = payload.get("index")
    return index if type(index) is int else 0


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
