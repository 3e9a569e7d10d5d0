"""A chat answer as events.

    1. thinking, text or a refusal comes    -> in the open block of its kind, else it closes what is open and opens one
    2. a piece of a call comes              -> in that call: by its index; without one by its id; else the last call
    3. a call begins while another is open  -> the other closes if its arguments are complete JSON, else both stay open;
                                               one that the engine gave no id gets one
    4. `[DONE]`, or the connection's end    -> everything closes; the reason, then the end

Thinking is read under both its names. Usage is a total wherever it stands.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
    StopReason,
    Tokens,
)
from stoker.domain.prompt import Refusal, Text, Thinking, ToolCall
from stoker.request.codec.endings import failed, stop_of
from stoker.request.codec.upstream_errors import as_error, is_error
from stoker.request.translate.neutral.calls import Balance
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import encode, objects_of, text_of
from stoker.request.translate.neutral.protocols import number, part

MOST_CALLS = 1024
"""Calls of one answer; what is beyond is dropped."""


class _Piece(NamedTuple):
    place: int | None
    id: str
    name: str
    text: str
    is_custom: bool


class _Call:
    __slots__ = ("arguments", "at", "balance", "id", "is_closed", "is_custom", "name")

    def __init__(self, id: str) -> None:
        self.at: int | None = None
        """None: its name has not come yet."""
        self.id = id
        self.name = ""
        self.is_custom = False
        self.arguments: list[str] = []
        """What came before the name."""
        self.balance = Balance()
        self.is_closed = False

    def is_complete(self) -> bool:
        """Whether its arguments are; of a custom tool nobody knows before its end."""
        return not self.is_custom and self.balance.is_complete()


class ChatAnswerReader:
    """See the module's docstring."""

    __slots__ = (
        "_began",
        "_by_id",
        "_by_index",
        "_finish",
        "_has_choice",
        "_id",
        "_is_over",
        "_keeps_logprobs",
        "_kind",
        "_last",
        "_next",
        "_open",
        "_order",
        "losses",
    )  # fmt: skip

    def __init__(self, losses: Losses, keeps_logprobs: bool = False) -> None:
        """`keeps_logprobs`: the client's dialect has a place for the log probabilities of tokens."""
        self.losses = losses
        self._keeps_logprobs = keeps_logprobs
        self._began = False
        self._has_choice = False
        """Whether there is an answer at all: `[DONE]` after nothing, or after usage alone, ends none."""
        self._id = ""
        self._open: int | None = None
        """The open block that is no call."""
        self._kind: BlockKind | None = None
        self._next = 0
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._order: list[_Call] = []
        self._last: _Call | None = None
        self._finish: tuple[str, Any] | None = None
        """The reason, and the stop string or token that goes with it."""
        self._is_over = False

    def read(self, payload: dict[str, Any]) -> list[Event]:
        if self._is_over:
            return []
        if is_error(payload):
            self._is_over = True
            return [Failed(as_error(payload))]
        out: list[Event] = []
        if not self._began:
            self._began = True
            self._id = text_of(payload.get("id"))
            out.append(Began(self._id, text_of(payload.get("model"))))
        choices = payload.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
        if choice is not None and choice.get("index") in (0, None):
            self._has_choice = True
            delta = choice.get("delta")
            if isinstance(delta, dict):
                self._delta(delta, choice, out)
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason:
                if stop_of(reason) is None:
                    self._is_over = True
                    return [Failed(failed(reason))]
                self._finish = reason, matched_of(choice)
        tokens = tokens_of(payload)
        if tokens is not None:
            out.append(Counted(tokens))
        return out

    def finish(self, is_said: bool = False) -> list[Event]:
        if self._finish is None and is_said and self._has_choice:
            self._finish = "stop", None
        if self._is_over or self._finish is None:
            return []
        self._is_over = True
        out: list[Event] = []
        self._close(out)
        for call in self._order:
            if call.at is None:  # a call that never got a name is still what the model did
                self._name(call, out)
            if not call.is_closed:
                out.append(Closed(call.at or 0))
        out += (Finished(*ending_of(*self._finish, bool(self._order))), Ended())
        return out

    def read_whole(self, payload: dict[str, Any]) -> Answer:
        choices = payload.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        message = choice.get("message")
        message = message if isinstance(message, dict) else {}
        self._note_lost(message)
        answer = Answer(text_of(payload.get("id")), text_of(payload.get("model")))
        thought, text = thinking_of(message), content_text(message.get("content"))
        if thought:
            answer.blocks.append(Thinking(thought))
        if text:
            answer.blocks.append(Text(text))
        if refusal := text_of(message.get("refusal")):
            answer.blocks.append(Refusal(refusal))
        calls = objects_of(message.get("tool_calls"))
        if isinstance(message.get("function_call"), dict):
            calls.append({"function": message["function_call"]})
        for call in calls:
            piece = _piece(call)
            id = piece.id or made_id(answer.id, len(answer.blocks))
            answer.blocks.append(ToolCall(id, piece.name, piece.text, piece.is_custom))
        reason = text_of(choice.get("finish_reason")) or "stop"
        if stop_of(reason) is None:
            answer.failure = failed(reason)
        answer.stop, answer.sequence = ending_of(reason, matched_of(choice), bool(calls))
        answer.tokens = tokens_of(payload) or Tokens()
        answer.logprobs = self._logprobs(choice)
        return answer

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _note_lost(self, said: dict[str, Any]) -> None:
        """What of a message, or a piece of one, no event can hold."""
        if said.get("audio"):
            self.losses.add("audio")
        if said.get("annotations"):
            self.losses.add("annotations")
        if said.get("images") or _holds_images(said.get("content")):
            self.losses.add("answer_image")

    def _logprobs(self, choice: dict[str, Any]) -> list[Any] | None:
        """None: there are none, or whom they are for has no place for them."""
        given = choice.get("logprobs")
        found = given.get("content") if isinstance(given, dict) else None
        if not isinstance(found, list) or not found:
            return None
        if self._keeps_logprobs:
            return found
        self.losses.add("logprobs")
        return None

    def _delta(self, delta: dict[str, Any], choice: dict[str, Any], out: list[Event]) -> None:
        text = delta.get("content")
        is_plain = len(delta) == 1 and isinstance(text, str)
        if not is_plain:
            self._note_lost(delta)
            if thought := thinking_of(delta):
                self._say(BlockKind.THINKING, thought, out)
            text = content_text(text)
        if text:
            self._say(BlockKind.TEXT, text, out)
            if choice.get("logprobs") is not None and (logprobs := self._logprobs(choice)) is not None:
                out[-1] = Grew(self._open or 0, text, logprobs)
        if is_plain:
            return
        if refusal := text_of(delta.get("refusal")):
            self._say(BlockKind.REFUSAL, refusal, out)
        for call in objects_of(delta.get("tool_calls")):
            self._call(_piece(call), out)
        if isinstance(delta.get("function_call"), dict):
            self._call(_piece({"index": 0, "function": delta["function_call"]}), out)

    def _say(self, kind: BlockKind, text: str, out: list[Event]) -> None:
        if self._kind is not kind:
            self._close(out)
            self._close_complete(out)
            self._kind = kind
            self._open = self._place()
            out.append(Opened(self._open, kind))
        out.append(Grew(self._open or 0, text))

    def _close(self, out: list[Event]) -> None:
        if self._open is not None:
            out.append(Closed(self._open))
            self._open = self._kind = None

    def _call(self, piece: _Piece, out: list[Event]) -> None:
        call = self._find(piece, out)
        if call is None:
            return
        if piece.id and not call.id:
            self._known(call, piece.id)
        if piece.name and call.at is None:
            call.name, call.is_custom = piece.name, piece.is_custom
            self._name(call, out)
        if not piece.text or call.is_closed:
            return
        call.balance.feed(piece.text)
        if call.at is None:
            call.arguments.append(piece.text)
        else:
            out.append(Grew(call.at, piece.text))

    def _find(self, piece: _Piece, out: list[Event]) -> _Call | None:
        """The call that a piece belongs to; a new one where it begins one. None: it belongs to none."""
        if piece.place is not None:
            call = self._by_index.get(piece.place)
        else:
            call = self._by_id.get(piece.id) if piece.id else self._last
        if call is not None and not _is_another(call, piece):
            return call
        if not (piece.id or piece.name or piece.text):
            return None
        self._last = None
        if len(self._order) >= MOST_CALLS:
            return None
        self._close(out)
        self._close_complete(out)
        call = self._last = _Call("")
        self._order.append(call)
        self._known(call, piece.id)
        if piece.place is not None:
            self._by_index[piece.place] = call
        return call

    def _known(self, call: _Call, id: str) -> None:
        call.id = id
        self._by_id[id] = call

    def _name(self, call: _Call, out: list[Event]) -> None:
        call.at = self._place()
        out.append(Opened(call.at, BlockKind.CALL, call.id or made_id(self._id, call.at), call.name, call.is_custom))
        if call.arguments:
            out.append(Grew(call.at, "".join(call.arguments)))

    def _close_complete(self, out: list[Event]) -> None:
        """Something else begins: calls with complete arguments are over, others may go on later."""
        for call in self._order[-2:]:
            if call.at is not None and not call.is_closed and call.is_complete():
                call.is_closed = True
                out.append(Closed(call.at))

    def _place(self) -> int:
        self._next += 1
        return self._next - 1


def ending_of(reason: str, matched: Any, has_calls: bool) -> tuple[StopReason, str | None]:
    """Why it ended, and the stop string that came. Calls count, whatever the engine says: some say `stop` after calls,
    some announce calls and make none.
    """
    stop = stop_of(reason) or StopReason.END
    if stop in (StopReason.END, StopReason.CALLS) and has_calls:
        return StopReason.CALLS, None
    if stop is StopReason.CALLS:
        return StopReason.END, None
    if reason == "stop" and isinstance(matched, str):
        return StopReason.SEQUENCE, matched
    return stop, None


def matched_of(choice: dict[str, Any]) -> Any:
    """Which stop string (or token) came: `stop_reason` (vLLM), `matched_stop` (SGLang)."""
    return choice.get("stop_reason", choice.get("matched_stop"))


def made_id(answer: str, at: int) -> str:
    """An id for a call that has none: of the answer's id and the call's place in it."""
    return f"call_{answer}_{at}" if answer else f"call_{at}"


def thinking_of(message: dict[str, Any]) -> str:
    """`reasoning_content` (DeepSeek, llama.cpp, SGLang), `reasoning` (vLLM, OpenRouter), or Mistral's parts."""
    for name in ("reasoning_content", "reasoning"):
        value = message.get(name)
        if isinstance(value, str) and value:
            return value
    content = message.get("content")
    if not isinstance(content, list):
        return ""
    thoughts = (part.get("thinking") for part in content if isinstance(part, dict) and part.get("type") == "thinking")
    return "".join(content_text(thought) for thought in thoughts)


def content_text(content: Any) -> str:
    """A string, or the texts of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(text_of(piece.get("text")) for piece in content if isinstance(piece, dict))


def tokens_of(payload: dict[str, Any]) -> Tokens | None:
    """Usage, with what llama.cpp's timings say of its cache; or its progress through the prompt, which comes before the
    first token."""
    usage = payload.get("usage")
    if isinstance(usage, dict):
        cached = part(usage, "prompt_tokens_details", "cached_tokens")
        if cached is None:
            cached = number(usage.get("prompt_cache_hit_tokens"))  # DeepSeek
        return Tokens(
            input=number(usage.get("prompt_tokens")),
            cached=cached if cached is not None else part(payload, "timings", "cache_n"),
            written=part(usage, "prompt_tokens_details", "cache_write_tokens"),
            output=number(usage.get("completion_tokens")),
            reasoning=part(usage, "completion_tokens_details", "reasoning_tokens"),
        )
    progress = payload.get("prompt_progress")
    if isinstance(progress, dict):
        return Tokens(input=number(progress.get("total")), cached=number(progress.get("cache")))
    return None


def _holds_images(content: Any) -> bool:
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") in ("image_url", "image", "output_image") for part in content
    )


def _piece(call: dict[str, Any]) -> _Piece:
    custom, function, index = call.get("custom"), call.get("function"), call.get("index")
    is_custom = isinstance(custom, dict)
    inner: dict[str, Any] = next((value for value in (custom, function) if isinstance(value, dict)), {})
    given = inner.get("input" if is_custom else "arguments")
    text = given if isinstance(given, str) else _object_text(given)
    index = index if type(index) is int else None
    return _Piece(index, text_of(call.get("id")), text_of(inner.get("name")), text, is_custom)


def _is_another(call: _Call, piece: _Piece) -> bool:
    """Whether a piece that seems to belong to a call begins another one, since some engines give all calls one index,
    or leave indexes and ids out: one with a name, and with another id and name; or, behind complete arguments, with
    another id, or without one but with arguments of its own.
    """
    if not piece.name:
        return False
    if piece.id and call.id:
        return piece.id != call.id and (call.name not in ("", piece.name) or call.is_complete())
    return call.is_complete() and bool(piece.text.strip())


def _object_text(value: Any) -> str:
    """Engines that give arguments as an object instead of as text."""
    return encode(value).decode() if isinstance(value, dict) else ""
