"""A reader beside the stream: it looks, it does not touch, except for the one usage chunk that Stoker asked for.

Bytes come as the network cut them. Whole SSE frames are passed on at once; a started frame waits for its end only
where a frame may have to be taken out. Nothing is parsed unless a cheap look says that it matters.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from stoker.domain.dialect import Dialect

MAX_FRAME = 16 * 2**20
"""Bytes of one unfinished frame that are kept; a larger one passes unread."""
_decode = msgspec.json.decode
_END = {
    Dialect.CHAT: (b"data: [DONE]", b"data:[DONE]", b'"finish_reason":"', b'"finish_reason": "'),
    Dialect.COMPLETIONS: (b"data: [DONE]", b"data:[DONE]", b'"finish_reason":"', b'"finish_reason": "'),
    Dialect.MESSAGES: (b"message_stop",),
    Dialect.RESPONSES: (b"response.completed", b"response.incomplete", b"response.failed"),
}
_OPENING = frozenset(
    ("message_start", "ping", "response.created", "response.in_progress", "response.queued", "content_block_start",
     "response.output_item.added", "response.content_part.added")
)  # fmt: skip


class Usage:
    """Tokens as the serve itself counted them; None is unknown."""

    __slots__ = ("cached", "input", "output")

    def __init__(self) -> None:
        self.input: int | None = None
        self.output: int | None = None
        self.cached: int | None = None

    def read(self, usage: Any) -> None:
        """Take over what a `usage` object of any dialect says. Later values replace earlier ones."""
        if not isinstance(usage, dict):
            return
        self.input = _int(usage, "prompt_tokens", "input_tokens", default=self.input)
        self.output = _int(usage, "completion_tokens", "output_tokens", default=self.output)
        details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
        if isinstance(details, dict):
            self.cached = _int(details, "cached_tokens", default=self.cached)
        self.cached = _int(usage, "cache_read_input_tokens", default=self.cached)


class StreamReader:
    """Follows one streamed reply. `feed` returns the bytes to pass on now (maybe empty).

    `is_meaningful` turns true with the first frame that carries text, reasoning, a refusal, tool data or a finish;
    `error` holds the serve's own error frame, if one came; `usage` what was counted. Nothing is raised.
    """

    __slots__ = (
        "_inflate", "_last", "_remove_usage", "dialect", "error", "is_meaningful", "partial", "usage",
    )  # fmt: skip

    def __init__(self, dialect: Dialect, remove_usage: bool = False, gzip: bool = False) -> None:
        self.dialect = dialect
        self.usage = Usage()
        self.is_meaningful = False
        self.error: dict[str, Any] | None = None
        self._remove_usage = remove_usage and not gzip
        self._inflate = zlib.decompressobj(47) if gzip else None
        self.partial = b""
        self._last: list[bytes] = [b"", b"", b""]

    def feed(self, data: bytes) -> bytes:
        if self._inflate is not None:
            self._look(_inflated(self._inflate, data))
            return data
        if not self.partial and data.endswith(b"\n\n"):  # the usual case: whole frames
            return self._frames(data)
        return self._look(data)

    def has_ended(self) -> bool:
        """Whether the dialect's own end (or a finish) was among the last frames."""
        tail = b"".join(self._last) + self.partial
        return any(sign in tail for sign in _END.get(self.dialect, ()))

    def rest(self) -> bytes:
        """Bytes still held back when the stream is over."""
        rest, self.partial = self.partial, b""
        return rest if self._remove_usage else b""

    def _look(self, data: bytes) -> bytes:
        """Frames cut across reads: whole ones are looked at; without a frame to remove the bytes go on as they came."""
        data_all = self.partial + data
        cut = max(data_all.rfind(b"\n\n") + 2, data_all.rfind(b"\r\n\r\n") + 4)
        if cut < 4:
            cut = 2 if data_all.startswith(b"\n\n") else 0
        whole, self.partial = data_all[:cut], data_all[cut:]
        if len(self.partial) > MAX_FRAME:
            whole, self.partial = data_all, b""
        passed = self._frames(whole) if whole else b""
        return passed if self._remove_usage else data

    def _frames(self, data: bytes) -> bytes:
        last = self._last
        last[0], last[1], last[2] = last[1], last[2], data[-65536:]
        if not self.is_meaningful:
            return self._early(data)
        if b'"usage"' in data and (
            b'"usage":null' not in data or self.dialect in (Dialect.MESSAGES, Dialect.RESPONSES)
        ):
            return self._with_usage(data)
        if b'"error"' in data or b"event: error" in data:
            self._find_error(data)
        return data

    def _early(self, data: bytes) -> bytes:
        """Before the first meaningful frame each one is read."""
        kept: list[bytes] = []
        for frame in split(data):
            payload = parse(frame)
            if payload is not None:
                if is_error(payload):
                    self.error = payload
                elif not self.is_meaningful:
                    self.is_meaningful = is_meaningful(payload, self.dialect)
                if self._take_usage(payload):
                    continue
            elif b"[DONE]" in frame:
                self.is_meaningful = True
            kept.append(frame)
        return b"".join(kept)

    def _with_usage(self, data: bytes) -> bytes:
        kept: list[bytes] = []
        for frame in split(data):
            payload = parse(frame) if b'"usage"' in frame or b'"error"' in frame else None
            if payload is not None:
                if is_error(payload):
                    self.error = payload
                if self._take_usage(payload):
                    continue
            kept.append(frame)
        return b"".join(kept)

    def _take_usage(self, payload: dict[str, Any]) -> bool:
        """Read usage wherever the dialect puts it; true if this frame was only ours and goes no further."""
        usage = payload.get("usage")
        if usage is None:
            inner = payload.get("message") or payload.get("response")
            usage = inner.get("usage") if isinstance(inner, dict) else None
        if usage is None:
            return False
        self.usage.read(usage)
        return self._remove_usage and payload.get("choices") == []

    def _find_error(self, data: bytes) -> None:
        for frame in split(data):
            payload = parse(frame) if b'"error"' in frame or b"event: error" in frame else None
            if payload is not None and is_error(payload):
                self.error = payload


def read_usage(body: bytes, gzip: bool = False) -> Usage:
    """Usage of a reply that was not streamed; unknown if the body is no JSON object."""
    usage = Usage()
    if gzip:
        body = _inflated(zlib.decompressobj(47), body)
    at = body.rfind(b'"usage"')
    if at < 0:
        return usage
    try:
        payload = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return usage
    if isinstance(payload, dict):
        usage.read(payload.get("usage"))
    return usage


def split(data: bytes) -> list[bytes]:
    """Whole SSE frames, each with its blank line; joined they are `data` again."""
    if b"\r\n\r\n" in data:
        return [piece + b"\r\n\r\n" for piece in data.split(b"\r\n\r\n")[:-1]] + _tail(data, b"\r\n\r\n")
    return [piece + b"\n\n" for piece in data.split(b"\n\n")[:-1]] + _tail(data, b"\n\n")


def _tail(data: bytes, mark: bytes) -> list[bytes]:
    rest = data[data.rfind(mark) + len(mark) :]
    return [rest] if rest else []


def parse(frame: bytes) -> dict[str, Any] | None:
    """The JSON object of a frame's data lines; None for comments, [DONE] and what is no object."""
    lines = [line[5:].strip() for line in frame.splitlines() if line.startswith(b"data:")]
    if not lines or lines == [b"[DONE]"]:
        return None
    try:
        payload = _decode(b"\n".join(lines))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def is_error(payload: dict[str, Any]) -> bool:
    """An error frame: a truthy `error` (OpenAI), or type `error` (Messages, Responses)."""
    return bool(payload.get("error")) or payload.get("type") == "error"


def is_meaningful(payload: dict[str, Any], dialect: Dialect) -> bool:
    """Whether this frame commits the reply: content, or a finish. Role-only and opening frames do not."""
    if dialect not in (Dialect.CHAT, Dialect.COMPLETIONS):
        return payload.get("type") not in _OPENING
    choices = payload.get("choices")
    if not isinstance(choices, list):
        return True
    for choice in choices:
        if not isinstance(choice, dict) or choice.get("finish_reason") or choice.get("text"):
            return True
        delta = choice.get("delta")
        if isinstance(delta, dict) and any(value for key, value in delta.items() if key != "role"):
            return True
    return False


def _int(source: dict[str, Any], *names: str, default: int | None) -> int | None:
    for name in names:
        value = source.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return default


def _inflated(stream: Any, data: bytes) -> bytes:
    """Decompress on the side, at most MAX_FRAME bytes at a time; what cannot be read counts as nothing."""
    try:
        return bytes(stream.decompress(data, MAX_FRAME))
    except zlib.error:
        return b""
