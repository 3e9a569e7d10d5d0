"""A Messages answer as events. Its blocks open and close themselves; usage is a running total."""

from __future__ import annotations

from typing import Any, NamedTuple

from stoker.domain.answer import (
    Answer,
    AnswerBlock,
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
)
from stoker.domain.prompt import Redacted, Text, Thinking, ToolCall
from stoker.request.codec.endings import failed, stop_of
from stoker.request.codec.upstream_errors import as_error, is_error
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import encode, object_of, text_of
from stoker.request.translate.neutral.protocols import number, part

_KINDS = {
    "text": BlockKind.TEXT,
    "thinking": BlockKind.THINKING,
    "redacted_thinking": BlockKind.REDACTED,
    "tool_use": BlockKind.CALL,
}
_FIELDS = {BlockKind.TEXT: "text", BlockKind.THINKING: "thinking", BlockKind.REDACTED: "data"}
_PIECES = {
    "text_delta": (BlockKind.TEXT, "text"), "thinking_delta": (BlockKind.THINKING, "thinking"),
    "input_json_delta": (BlockKind.CALL, "partial_json"),
}  # fmt: skip


class _Block(NamedTuple):
    """An open block; `kind` None: it is dropped."""

    at: int
    kind: BlockKind | None


class MessagesAnswerReader:
    """Blocks of kinds that nobody else knows are dropped. A delta whose block was never opened opens it. One of another
    kind than its block ends that and begins another; but what stands between the pieces of a call does not end it.
    """

    __slots__ = ("_began", "_finish", "_has_calls", "_is_over", "_next", "_open", "_tokens", "losses")

    def __init__(self, losses: Losses, keeps_logprobs: bool = False) -> None:
        """`keeps_logprobs`: of no account here, since nothing of them is read."""
        self.losses = losses
        self._began = False
        self._is_over = False
        self._open: dict[int, _Block] = {}
        """By the serve's own index, which it may use again."""
        self._next = 0
        self._has_calls = False
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
                return self._grow(_index(payload), object_of(payload.get("delta")))
            case "content_block_start":
                return self._start(_index(payload), object_of(payload.get("content_block")))
            case "content_block_stop":
                return self._close(_index(payload))
            case "message_start":
                return self._begin(object_of(payload.get("message")))
            case "message_delta":
                return self._change(payload)
            case "message_stop":
                self._finish = self._finish or Finished(self._stop(""))
                return self.finish()
        return []

    def finish(self, is_said: bool = False) -> list[Event]:
        if self._is_over or self._finish is None:
            return []
        self._is_over = True
        out: list[Event] = []
        for index in list(self._open):
            out += self._close(index)
        return [*out, self._finish, Ended()]

    def read_whole(self, payload: dict[str, Any]) -> Answer:
        answer = Answer(text_of(payload.get("id")), text_of(payload.get("model")))
        content = payload.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and (said := self._said(block)) is not None:
                answer.blocks.append(said)
        self._has_calls = any(isinstance(block, ToolCall) for block in answer.blocks)
        reason = text_of(payload.get("stop_reason"))
        if stop_of(reason) is None:
            answer.failure = failed(reason)
        answer.stop = self._stop(reason)
        answer.sequence = payload["stop_sequence"] if isinstance(payload.get("stop_sequence"), str) else None
        if isinstance(payload.get("stop_details"), dict):
            self.losses.add("stop_details")
        answer.tokens = tokens_of(object_of(payload.get("usage")))
        return answer

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _begin(self, message: dict[str, Any]) -> list[Event]:
        if self._began:
            return []
        self._began = True
        self._tokens.update(_early(object_of(message.get("usage"))))
        return [Began(text_of(message.get("id")), text_of(message.get("model")), self._copy())]

    def _start(self, index: int, block: dict[str, Any]) -> list[Event]:
        out = self._close(index)
        kind = _KINDS.get(text_of(block.get("type")))
        at = self._place(index, kind)
        if kind is None:
            self.losses.add("foreign_block")
            return out
        if block.get("citations"):
            self.losses.add("citations")
        if kind is BlockKind.CALL:
            out.append(Opened(at, kind, text_of(block.get("id")), text_of(block.get("name"))))
            given = block.get("input")
            text = _arguments(given) if given else ""  # some engines put the arguments here, and send no delta
        else:
            out.append(Opened(at, kind))
            text = text_of(block.get(_FIELDS[kind]))
        return [*out, Grew(at, text)] if text else out

    def _grow(self, index: int, delta: dict[str, Any]) -> list[Event]:
        name = text_of(delta.get("type"))
        at, known = self._open.get(index, (0, BlockKind.REFUSAL))  # a kind that no delta has
        if known is None:
            return []
        if name == "signature_delta":
            signature = text_of(delta.get("signature"))
            return [Signed(at, signature)] if known is BlockKind.THINKING and signature else []
        if name == "citations_delta":
            self.losses.add("citations")
        if name not in _PIECES:
            return []
        kind, field = _PIECES[name]
        text = text_of(delta.get(field))
        if not text:
            return []
        if known is kind:
            return [Grew(at, text)]
        if known is BlockKind.CALL:
            at = self._number()
            return [Opened(at, kind), Grew(at, text), Closed(at)]
        out = self._close(index)
        at = self._place(index, kind)
        return [*out, Opened(at, kind), Grew(at, text)]

    def _place(self, index: int, kind: BlockKind | None) -> int:
        block = self._open[index] = _Block(self._number(), kind)
        self._has_calls = self._has_calls or kind is BlockKind.CALL
        return block.at

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def _close(self, index: int) -> list[Event]:
        block = self._open.pop(index, None)
        return [] if block is None or block.kind is None else [Closed(block.at)]

    def _stop(self, reason: str) -> StopReason:
        """Calls count, whatever the engine says."""
        stop = stop_of(reason) or StopReason.END
        if stop in (StopReason.END, StopReason.CALLS):
            return StopReason.CALLS if self._has_calls else StopReason.END
        return stop

    def _change(self, payload: dict[str, Any]) -> list[Event]:
        delta = object_of(payload.get("delta"))
        reason = text_of(delta.get("stop_reason"))
        if stop_of(reason) is None:
            self._is_over = True
            return [Failed(failed(reason))]
        if reason:
            sequence = delta.get("stop_sequence")
            self._finish = Finished(self._stop(reason), sequence if isinstance(sequence, str) else None)
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

    def _said(self, block: dict[str, Any]) -> AnswerBlock | None:
        match block.get("type"):
            case "text":
                if block.get("citations"):
                    self.losses.add("citations")
                return Text(text_of(block.get("text")))
            case "thinking":
                return Thinking(text_of(block.get("thinking")), text_of(block.get("signature")))
            case "redacted_thinking":
                return Redacted(text_of(block.get("data")))
            case "tool_use":
                return ToolCall(text_of(block.get("id")), text_of(block.get("name")), _arguments(block.get("input")))
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
    for name, count in (("cache_read_input_tokens", before.cached), ("cache_creation_input_tokens", before.written)):
        if given.get(name) is None:
            given[name] = count
    return tokens_of(given)


def _arguments(given: Any) -> str:
    """The object's text; some engines write the text themselves."""
    if given is None:
        return "{}"
    return given if isinstance(given, str) else encode(given).decode()


def _index(payload: dict[str, Any]) -> int:
    index = payload.get("index")
    return index if type(index) is int else 0
