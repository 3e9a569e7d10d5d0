"""Tokens that a serve counted, read from the `usage` object of any dialect; and estimates of those that it did not,
for an answer that broke off, or whose serve reports none. Pure.

A streamed piece is one token with most engines. Where pieces are longer, and for a text in one piece, its length
decides: `BYTES_PER_TOKEN`.
"""

from __future__ import annotations

from typing import Any, Final

from stoker.domain.task import BYTES_PER_TOKEN

_APART: Final = frozenset(("cache_read_input_tokens", "cache_creation_input_tokens"))
"""By these, a usage of Messages counts what was cached apart from its `input_tokens`."""
_DETAILS: Final = frozenset((
    "prompt_tokens_details", "input_tokens_details", "prompt_cache_hit_tokens", "completion_tokens_details",
    "output_tokens_details",
))  # fmt: skip
"""What more than counts of prompt and answer a usage may say."""
LONGEST_TOKEN: Final = 16
"""Bytes. Pieces that are longer on average hold several tokens."""
TOKENS_PER_FILE: Final = 1000
"""Of an image or another file within a prompt, whatever its size: about what the providers count for a picture."""
_TEXTS: Final = frozenset(
    ("text", "content", "reasoning_content", "reasoning", "thinking", "refusal", "arguments", "partial_json", "delta",
     "input")
)  # fmt: skip
"""The fields of answers, in any dialect, that hold what the model wrote."""
_WHOLE: Final = frozenset(("arguments", "input"))
"""Of them, those that may be objects, all of which the model wrote."""
_FILES: Final = (b";base64,", b'"data":"')
"""What precedes a file in a prompt."""


class Usage:
    """Tokens as the serve itself counted them; None is unknown."""

    __slots__ = ("audio_seconds", "cache_written", "cached", "calls_tool", "input", "is_estimated", "output",
                 "reasoning", "text_tokens", "uncached")  # fmt: skip

    def __init__(self, input: int | None = None, output: int | None = None) -> None:
        self.input = input
        """Prompt tokens, in every dialect including those read from the cache or written to it."""
        self.output = output
        self.cached: int | None = None
        self.reasoning: int | None = None
        self.uncached: int | None = None
        """The `input_tokens` of Messages, which exclude tokens read from the cache or written to it."""
        self.cache_written: int | None = None
        self.audio_seconds: float | None = None
        """Length of the transcribed audio."""
        self.text_tokens = 0
        """Tokens of a whole answer by the length of its text, if the serve did not count them."""
        self.calls_tool = False
        """The answer calls a tool of the client's."""
        self.is_estimated = False
        """Whether `fill` put in what the serve did not count."""

    def update_from(self, usage: Any) -> None:
        """Take over what a `usage` object of any dialect says. Later values replace earlier ones."""
        if not isinstance(usage, dict):
            return
        get = usage.get
        count = get("prompt_tokens")
        is_apart = count is None and (self.uncached is not None or not _APART.isdisjoint(usage))
        if is_apart:
            self._update_from_messages(usage)
        else:
            if (type(count) is int or type(count := get("input_tokens")) is int) and count >= 0:
                self.input = count  # True is an int, but no count, and some engines write -1 for unknown
        count = get("completion_tokens")
        if (type(count) is int or type(count := get("output_tokens")) is int) and count >= 0:
            self.output = count
        if not _DETAILS.isdisjoint(usage):
            self._update_details(usage, is_apart)

    def _update_details(self, usage: dict[str, Any], is_apart: bool) -> None:
        get = usage.get
        if not is_apart:
            details = get("prompt_tokens_details") or get("input_tokens_details")
            if isinstance(details, dict):
                if type(count := details.get("cached_tokens")) is int and count >= 0:
                    self.cached = count
                if type(count := details.get("cache_write_tokens")) is int and count >= 0:
                    self.cache_written = count
            elif type(count := get("prompt_cache_hit_tokens")) is int and count >= 0:  # DeepSeek
                self.cached = count
        details = get("completion_tokens_details") or get("output_tokens_details")
        if isinstance(details, dict):
            count = details.get("reasoning_tokens")
            if (type(count) is int or type(count := details.get("thinking_tokens")) is int) and count >= 0:
                self.reasoning = count

    def fill(self, input: int, output: int) -> None:
        """Put estimates where the serve did not count: a count of nothing is none, where something was read and
        written.
        """
        self.is_estimated = not (self.input and self.output)
        self.input = self.input or input
        self.output = self.output or output

    def _update_from_messages(self, usage: dict[str, Any]) -> None:
        get = usage.get
        if type(count := get("cache_read_input_tokens")) is int and count >= 0:
            self.cached = count
        if type(count := get("cache_creation_input_tokens")) is int and count >= 0:
            self.cache_written = count
        if type(count := get("input_tokens")) is int and count >= 0:
            self.uncached = count
        elif self.uncached is None:
            self.uncached = self.input
        if self.uncached is not None:
            self.input = self.uncached + (self.cached or 0) + (self.cache_written or 0)


NOTHING: Final = Usage()
"""Of a serve that has counted nothing yet. Nobody writes to it."""


def tokens_of_pieces(pieces: int, size: int) -> int:
    """Tokens of a text that came in so many pieces. `size`: its bytes."""
    return size // BYTES_PER_TOKEN if size > LONGEST_TOKEN * pieces else pieces


def tokens_of_text(size: int) -> int:
    """Tokens of a text in one piece: at least one, if it has any byte."""
    return max(size // BYTES_PER_TOKEN, min(size, 1))


def text_size(value: Any) -> int:
    """Bytes of what the model wrote, in a frame or a whole answer of any dialect."""
    size = 0
    waiting: list[tuple[Any, bool, bool]] = [(value, False, False)]
    while waiting:
        found, is_text, is_whole = waiting.pop()
        if isinstance(found, str):
            if is_text:
                size += len(found.encode("utf-8", "replace"))
        elif isinstance(found, list):
            waiting += [(one, is_text, is_whole) for one in found]
        elif isinstance(found, dict):
            waiting += [(one, is_whole or name in _TEXTS, is_whole or name in _WHOLE) for name, one in found.items()]
    return size


def excess_of_files(body: bytes) -> int:
    """Bytes by which a request's body is larger than its prompt tells: those of files in it, but for TOKENS_PER_FILE
    each.
    """
    excess, counted = 0, TOKENS_PER_FILE * BYTES_PER_TOKEN
    for mark in _FILES:
        at = body.find(mark)
        while at >= 0:
            start = at + len(mark)
            end = body.find(b'"', start)
            if end < 0:
                break
            excess += max(0, end - start - counted)  # a small one is cheaper as text
            at = body.find(mark, end)
    return excess
