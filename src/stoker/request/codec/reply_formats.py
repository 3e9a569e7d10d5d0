"""How the answers of serves are read as they pass through, whole and streamed: one format for each dialect's kind.

What a format says of a frame or of a whole answer costs nothing once an answer flows: it is asked at the beginning of a
stream, at its end, and of frames that a search found. Pure.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.request.codec.endings import CALLS, UNFINISHED, empty_answer, stops_properly
from stoker.request.codec.required_fields import TOOL_USE, completed_block, completed_event
from stoker.request.codec.sse import parse
from stoker.request.codec.tolerant_json import read
from stoker.request.codec.upstream_errors import no_answer

_NO_TEXT: Final = (None, "")
_CLIENT_CALLS: Final = ("function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call",
                        "computer_call")  # fmt: skip
"""Items of a response that the client carries out. No set: an engine may write anything as a type."""


class ReplyFormat:
    """Events that have a `type`, of which Stoker knows none. The formats of the dialects say what is different."""

    last: ClassVar[tuple[str, ...]] = ()
    """The events that end a stream. No sets: an engine may write anything as a type, also what no set can hold."""
    opening: ClassVar[tuple[str, ...]] = ("ping",)
    """The events that come before anything is said."""
    aside: ClassVar[tuple[str | None, ...]] = (None, "ping")
    """The events that are no part of an answer."""
    silent: ClassVar[tuple[str, ...]] = ("ping",)
    """The events that say nothing, whatever they hold."""
    text: ClassVar[re.Pattern[bytes] | None] = None
    """What only a whole answer with a text has."""
    lacking: ClassVar[bytes] = b""
    """What is in each event that may lack a required field; empty: none may."""

    def complete(self, frame: bytes) -> bytes:
        """The frame, with what the dialect requires and the engine left out."""
        return frame

    def is_end(self, frame: bytes) -> bool:
        """Whether this frame ends the stream."""
        payload = parse(frame)
        return payload is not None and payload.get("type") in self.last

    def is_of_answer(self, payload: dict[str, Any]) -> bool:
        """Whether this frame is part of an answer. Usage, a ping and the end marker are not."""
        return payload.get("type") not in self.aside

    def is_meaningful(self, payload: dict[str, Any]) -> bool:
        """Whether this frame commits the reply: it has content, or a finish reason. Role-only and opening frames do
        not.
        """
        return payload.get("type") not in self.opening

    def last_words(self, payload: dict[str, Any]) -> list[object]:
        """The words in this frame that say how the answer ended."""
        return []

    def begins_other(self, payload: dict[str, Any]) -> bool:
        """Whether a block begins that is no text: thinking, a call, or one of a tool of the vendor's."""
        return False

    def is_silent(self, payload: dict[str, Any]) -> bool:
        """Whether this frame says nothing: it opens, closes, counts, or has an empty text."""
        return payload.get("type") in self.silent

    def closes_silence(self, payload: dict[str, Any]) -> bool:
        """Whether nothing comes after this frame, which says nothing."""
        return payload.get("type") in self.last

    def is_empty(self, answer: dict[str, Any]) -> bool:
        """Whether a whole answer, which is no error, says nothing."""
        return False

    def may_be_empty(self, status: object, stop: object) -> bool:
        """Whether an answer with these words may have an empty list of content."""
        return False

    def unfinished(self, status: object) -> UpstreamError | None:
        """What is wrong with a whole answer that is still being made."""
        return None


class _Chunks(ReplyFormat):
    """Of chat and completions: a list of choices, and `[DONE]`."""

    def is_end(self, frame: bytes) -> bool:
        payload = parse(frame)
        if payload is None:
            return any(line[5:].strip() == b"[DONE]" for line in frame.splitlines() if line.startswith(b"data:"))
        choices = payload.get("choices")
        return isinstance(choices, list) and any(isinstance(c, dict) and c.get("finish_reason") for c in choices)

    def is_of_answer(self, payload: dict[str, Any]) -> bool:
        return bool(payload.get("choices")) or (bool(payload) and payload.keys().isdisjoint(("choices", "usage")))

    def is_meaningful(self, payload: dict[str, Any]) -> bool:
        choices = payload.get("choices")
        if not isinstance(choices, list):
            return bool(payload)
        for choice in choices:
            if not isinstance(choice, dict) or choice.get("finish_reason") or choice.get("text"):
                return True
            if _has_more_than_role(choice.get("delta")):
                return True
        return False

    def last_words(self, payload: dict[str, Any]) -> list[object]:
        choices = payload.get("choices")
        listed = choices if isinstance(choices, list) else ()
        return [choice.get("finish_reason") for choice in listed if isinstance(choice, dict)]

    def is_silent(self, payload: dict[str, Any]) -> bool:
        choices = payload.get("choices")
        return isinstance(choices, list) and all(
            isinstance(choice, dict)
            and stops_properly(choice, "finish_reason")
            and not choice.get("text")
            and not any(_has_more_than_role(choice.get(place)) for place in ("delta", "message"))
            for choice in choices
        )

    def closes_silence(self, payload: dict[str, Any]) -> bool:
        return False

    def is_empty(self, answer: dict[str, Any]) -> bool:
        return self.is_silent(answer) and bool(answer.get("choices"))


class _Chat(_Chunks):
    text: ClassVar[re.Pattern[bytes] | None] = re.compile(rb'"content"\s*:\s*"[^"]')


class _Completions(_Chunks):
    text: ClassVar[re.Pattern[bytes] | None] = re.compile(rb'"text"\s*:\s*"[^"]')


class _Messages(ReplyFormat):
    last: ClassVar[tuple[str, ...]] = ("message_stop",)
    opening: ClassVar[tuple[str, ...]] = ("message_start", "ping", "content_block_start")
    aside: ClassVar[tuple[str | None, ...]] = (None, "ping", "message_stop")
    silent: ClassVar[tuple[str, ...]] = (
        "ping", "message_start", "content_block_start", "content_block_stop", "message_stop",
    )  # fmt: skip
    text: ClassVar[re.Pattern[bytes] | None] = re.compile(rb'"text"\s*:\s*"[^"]')
    lacking: ClassVar[bytes] = TOOL_USE

    def complete(self, frame: bytes) -> bytes:
        return completed_block(frame)

    def last_words(self, payload: dict[str, Any]) -> list[object]:
        delta = payload.get("delta")
        return [delta.get("stop_reason")] if isinstance(delta, dict) else []

    def begins_other(self, payload: dict[str, Any]) -> bool:
        return payload.get("type") == "content_block_start" and not _is_silent_block(payload.get("content_block"))

    def is_silent(self, payload: dict[str, Any]) -> bool:
        kind, delta = payload.get("type"), payload.get("delta")
        if kind == "content_block_delta":
            return isinstance(delta, dict) and delta.get("type") == "text_delta" and delta.get("text") in _NO_TEXT
        if kind == "message_delta":
            return isinstance(delta, dict) and stops_properly(delta, "stop_reason")
        return kind in self.silent

    def is_empty(self, answer: dict[str, Any]) -> bool:
        content = answer.get("content")
        is_silent = isinstance(content, list) and all(map(_is_silent_block, content))
        return is_silent and stops_properly(answer, "stop_reason")

    def may_be_empty(self, status: object, stop: object) -> bool:
        return bool(stop)


class _Responses(ReplyFormat):
    last: ClassVar[tuple[str, ...]] = ("response.completed", "response.incomplete", "response.failed")
    opening: ClassVar[tuple[str, ...]] = (
        "ping", "response.created", "response.in_progress", "response.queued", "response.output_item.added",
        "response.content_part.added",
    )  # fmt: skip
    silent: ClassVar[tuple[str, ...]] = (
        "ping", "response.created", "response.in_progress", "response.queued", "response.output_item.added",
    )  # fmt: skip
    lacking: ClassVar[bytes] = b'"response"'

    # no `text`: an answer repeats texts of its request

    def complete(self, frame: bytes) -> bytes:
        return completed_event(frame)

    def last_words(self, payload: dict[str, Any]) -> list[object]:
        response = payload.get("response")
        is_last = payload.get("type") in ("response.completed", "response.cancelled")
        if not is_last or not isinstance(response, dict):
            return []
        return [response.get("status"), *(CALLS[:1] if calls_tool(response.get("output")) else ())]

    def begins_other(self, payload: dict[str, Any]) -> bool:
        return payload.get("type") == "response.output_item.added" and not _is_silent_item(payload.get("item"))

    def is_silent(self, payload: dict[str, Any]) -> bool:
        match payload.get("type"):
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
                return isinstance(response, dict) and self.is_empty(response)
            case kind:
                return kind in self.silent

    def is_empty(self, answer: dict[str, Any]) -> bool:
        output = answer.get("output")
        is_silent = isinstance(output, list) and all(map(_is_silent_item, output))
        return is_silent and answer.get("status", "completed") == "completed"

    def may_be_empty(self, status: object, stop: object) -> bool:
        return status in ("completed", "incomplete")

    def unfinished(self, status: object) -> UpstreamError | None:
        return no_answer("is not finished") if isinstance(status, str) and status in UNFINISHED else None


class _Media(ReplyFormat):
    """Of audio and images: the engines do not agree on an end marker."""

    def is_of_answer(self, payload: dict[str, Any]) -> bool:
        return bool(payload)

    def is_meaningful(self, payload: dict[str, Any]) -> bool:
        return True


_OTHER, _MEDIA = ReplyFormat(), _Media()
FORMATS: Final[dict[Dialect, ReplyFormat]] = {
    **{dialect: _MEDIA if dialect.spec.is_media else _OTHER for dialect in Dialect},
    Dialect.CHAT: _Chat(),
    Dialect.COMPLETIONS: _Completions(),
    Dialect.MESSAGES: _Messages(),
    Dialect.RESPONSES: _Responses(),
}


class SilenceWatch:
    """Follows the payloads of a stream until one says something. Raises nothing."""

    __slots__ = ("_format", "_has_other_block", "is_over")

    def __init__(self, format: ReplyFormat) -> None:
        self.is_over = False
        """The last payload came, and none said anything."""
        self._format = format
        self._has_other_block = False
        """A block began that is no text."""

    def says_nothing(self, payload: dict[str, Any]) -> bool:
        """Whether nothing was said yet, this payload included."""
        self._has_other_block = self._has_other_block or self._format.begins_other(payload)
        if self._has_other_block:
            return False
        is_silent = self._format.is_silent(payload)
        self.is_over = is_silent and self._format.closes_silence(payload)
        return is_silent


def refuse_empty(dialect: Dialect, body: bytes) -> None:
    """Raises UpstreamError `empty_answer` if that is what a whole answer, which is no error, is. Only what has no text,
    by a search, is parsed.
    """
    format = FORMATS[dialect]
    if format.text is not None and format.text.search(body) is not None:
        return
    answer = read(body)
    if isinstance(answer, dict) and format.is_empty(answer):
        raise empty_answer()


def calls_tool(output: object) -> bool:
    """Whether one of a response's items is a call that the client carries out."""
    items = output if isinstance(output, list) else ()
    return any(isinstance(one, dict) and one.get("type") in _CLIENT_CALLS for one in items)


def _has_more_than_role(message: object) -> bool:
    """Of a message of chat, or a piece of one."""
    return isinstance(message, dict) and any(value for key, value in message.items() if key != "role")


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
