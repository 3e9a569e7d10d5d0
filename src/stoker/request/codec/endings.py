"""Why an answer ended, in every dialect's words: one table, for whole answers and for streams. Pure.

    a word of STOPS        -> why it ended; engines write the words of one dialect in another one
    a word of FAILURES     -> the engine gave up: the answer failed, whatever has come of it
    any other word         -> nobody can say that the answer is complete. Translated, it failed, because the client's
                              dialect has no such word; passed through, the client reads the word itself
    no word                -> it is complete

A failed answer is an UpstreamError: 502, or the next tier or the serve's `fallback`, if the client has nothing of it;
else one error event.

An answer is empty if it ends as one that is complete, and holds no text, no thinking, no call and no refusal. One that
ended for another reason (a limit, a stop sequence, a filter, a call) is not, however little it says. Nor is one that
nothing was expected of; the request says so: `Outline.may_be_empty`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from stoker.domain.answer import StopReason
from stoker.domain.dialect import Dialect
from stoker.domain.errors import EMPTY_ANSWER, UpstreamError
from stoker.request.codec.tolerant_json import read
from stoker.request.codec.upstream_messages import HINT

STOPS: Mapping[str, StopReason] = {
    "stop": StopReason.END,
    "end_turn": StopReason.END,
    "eos": StopReason.END,
    "eos_token": StopReason.END,
    "complete": StopReason.END,
    "completed": StopReason.END,
    "stop_sequence": StopReason.SEQUENCE,
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "max_output_tokens": StopReason.LENGTH,
    "max_length": StopReason.LENGTH,
    "limit": StopReason.LENGTH,
    "repetition": StopReason.LENGTH,
    "incomplete": StopReason.LENGTH,
    "model_length": StopReason.CONTEXT,
    "model_context_window_exceeded": StopReason.CONTEXT,
    "tool_calls": StopReason.CALLS,
    "tool_call": StopReason.CALLS,
    "function_call": StopReason.CALLS,
    "tool_use": StopReason.CALLS,
    "content_filter": StopReason.FILTERED,
    "refusal": StopReason.FILTERED,
    "safety": StopReason.FILTERED,
    "recitation": StopReason.FILTERED,
    "prohibited_content": StopReason.FILTERED,
    "sensitive": StopReason.FILTERED,
    "pause_turn": StopReason.PAUSED,
}
"""In lower case: Gemini writes capitals."""
FAILURES = frozenset(
    ("abort", "aborted", "cancel", "cancelled", "canceled", "error", "engine_error", "failed",
     "insufficient_system_resource", "malformed_function_call", "network_error", "timeout")
)  # fmt: skip
UNFINISHED = frozenset(("queued", "in_progress"))
"""Statuses of a response that is not ready."""


_STREAMS_END = ("message_stop", "response.completed")
_NO_TEXT = (None, "")
_TEXT: Final = {
    Dialect.CHAT: re.compile(rb'"content"\s*:\s*"[^"]'), Dialect.COMPLETIONS: re.compile(rb'"text"\s*:\s*"[^"]'),
    Dialect.MESSAGES: re.compile(rb'"text"\s*:\s*"[^"]'),
}  # fmt: skip
"""What only an answer with a text has. One of Responses repeats texts of its request."""


CALLS: Final = tuple(word for word, stop in STOPS.items() if stop is StopReason.CALLS)
"""No set: an engine may write anything as a word, also what no set can hold."""


def stop_of(word: str) -> StopReason | None:
    """Why an answer ended; None: it failed, or nobody knows."""
    return STOPS.get(word.lower()) if word else StopReason.END


def is_failure(word: object) -> bool:
    return isinstance(word, str) and word.lower() in FAILURES


def failed(word: object) -> UpstreamError:
    """The error for an answer that ended with this word."""
    word = str(word)
    is_plain = word.isascii() and word.replace("_", "").isalnum()
    shown = f"with '{word[:40]}'" if is_plain else "for an unknown reason"
    return UpstreamError(f"the engine ended its answer {shown}{HINT}", code="upstream_error")


def empty_answer() -> UpstreamError:
    return UpstreamError("the model's answer is empty: no text, no tool call, no refusal", code=EMPTY_ANSWER)


class SilenceWatch:
    """Follows the payloads of a stream until one says something. Raises nothing."""

    __slots__ = ("_dialect", "_has_other_block", "is_over")

    def __init__(self, dialect: Dialect) -> None:
        self.is_over = False
        """The last payload came, and none said anything."""
        self._dialect = dialect
        self._has_other_block = False
        """A block began that is no text: thinking, a call, or one of a tool of the vendor's."""

    def says_nothing(self, payload: dict[str, Any]) -> bool:
        """Whether nothing was said yet, this payload included."""
        if self._dialect in (Dialect.CHAT, Dialect.COMPLETIONS):
            return _chunk_says_nothing(payload)
        kind = payload.get("type")
        if kind == "content_block_start":
            self._has_other_block = self._has_other_block or not _is_silent_block(payload.get("content_block"))
        elif kind == "response.output_item.added":
            self._has_other_block = self._has_other_block or not _is_silent_item(payload.get("item"))
        if self._has_other_block:
            return False
        silent = _event_says_nothing(kind, payload)
        self.is_over = silent and kind in _STREAMS_END
        return silent


def refuse_empty(dialect: Dialect, body: bytes) -> None:
    """Raises UpstreamError `empty_answer` if that is what a whole answer, which is no error, is. Only what has no text,
    by a search, is parsed.
    """
    text = _TEXT.get(dialect)
    if text is not None and text.search(body) is not None:
        return
    answer = read(body)
    if isinstance(answer, dict) and says_nothing(dialect, answer):
        raise empty_answer()


def says_nothing(dialect: Dialect, answer: dict[str, Any]) -> bool:
    """Whether a whole answer, which is no error, is empty."""
    match dialect:
        case Dialect.CHAT | Dialect.COMPLETIONS:
            return _chunk_says_nothing(answer) and bool(answer.get("choices"))
        case Dialect.MESSAGES:
            content = answer.get("content")
            return isinstance(content, list) and all(map(_is_silent_block, content)) and _is_end(answer, "stop_reason")
        case Dialect.RESPONSES:
            output = answer.get("output")
            is_silent = isinstance(output, list) and all(map(_is_silent_item, output))
            return is_silent and answer.get("status", "completed") == "completed"
    return False


def _chunk_says_nothing(payload: dict[str, Any]) -> bool:
    choices = payload.get("choices")
    return isinstance(choices, list) and all(
        isinstance(choice, dict)
        and _is_end(choice, "finish_reason")
        and not choice.get("text")
        and not any(_is_said(choice.get(place)) for place in ("delta", "message"))
        for choice in choices
    )


def _is_said(message: object) -> bool:
    """Whether a message of chat, or a piece of one, has more than its role."""
    return isinstance(message, dict) and any(value for key, value in message.items() if key != "role")


def _is_end(source: dict[str, Any], key: str) -> bool:
    """Whether the answer goes on, or is complete in itself."""
    word = source.get(key)
    return word is None or (isinstance(word, str) and stop_of(word) is StopReason.END)


def _event_says_nothing(kind: object, payload: dict[str, Any]) -> bool:
    match kind:
        case "ping" | "message_start" | "content_block_start" | "content_block_stop" | "message_stop":
            return True
        case "content_block_delta":
            delta = payload.get("delta")
            return isinstance(delta, dict) and delta.get("type") == "text_delta" and delta.get("text") in _NO_TEXT
        case "message_delta":
            delta = payload.get("delta")
            return isinstance(delta, dict) and _is_end(delta, "stop_reason")
        case "response.created" | "response.in_progress" | "response.queued" | "response.output_item.added":
            return True
        case "response.content_part.added" | "response.content_part.done":
            return _is_silent_part(payload.get("part"))
        case "response.output_text.delta":
            return payload.get("delta") in _NO_TEXT
        case "response.output_text.done":
            return payload.get("text") in _NO_TEXT
        case "response.output_item.done":
            return _is_silent_item(payload.get("item"))
        case "response.completed":
            response = payload.get("response")
            return isinstance(response, dict) and says_nothing(Dialect.RESPONSES, response)
    return False


def _is_silent_block(block: object) -> bool:
    """Of Messages."""
    return isinstance(block, dict) and block.get("type") == "text" and block.get("text") in _NO_TEXT


def _is_silent_item(item: object) -> bool:
    """Of Responses."""
    if not isinstance(item, dict) or item.get("type") != "message":
        return False
    parts = item.get("content")
    return parts is None or (isinstance(parts, list) and all(map(_is_silent_part, parts)))


def _is_silent_part(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "output_text" and part.get("text") in _NO_TEXT
