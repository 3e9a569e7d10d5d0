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

from collections.abc import Mapping
from typing import Any, Final

from stoker.domain.answer import StopReason
from stoker.domain.errors import EMPTY_ANSWER, UpstreamError
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


def stops_properly(source: dict[str, Any], key: str) -> bool:
    """Whether the answer goes on, or is complete in itself."""
    word = source.get(key)
    return word is None or (isinstance(word, str) and stop_of(word) is StopReason.END)
