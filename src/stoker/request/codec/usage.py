"""Tokens that a serve counted, read from the `usage` object of any dialect."""

from __future__ import annotations

from typing import Any, Final

_APART: Final = frozenset(("cache_read_input_tokens", "cache_creation_input_tokens"))
"""By these, a usage of Messages counts what was cached apart from its `input_tokens`."""


class Usage:
    """Tokens as the serve itself counted them; None is unknown."""

    __slots__ = ("audio_seconds", "cache_written", "cached", "input", "is_estimated", "output", "reasoning",
                 "text_tokens", "uncached")  # fmt: skip

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
        self.is_estimated = False
        """Whether `fill` put in what the serve did not count."""

    def update_from(self, usage: Any) -> None:
        """Take over what a `usage` object of any dialect says. Later values replace earlier ones."""
        if not isinstance(usage, dict):
            return
        get = usage.get
        count = get("prompt_tokens")
        if count is None and (self.uncached is not None or not _APART.isdisjoint(usage)):
            self._update_from_messages(usage)
        else:
            if (type(count) is int or type(count := get("input_tokens")) is int) and count >= 0:
                self.input = count  # True is an int, but no count, and some engines write -1 for unknown
            details = get("prompt_tokens_details") or get("input_tokens_details")
            if isinstance(details, dict):
                if type(count := details.get("cached_tokens")) is int and count >= 0:
                    self.cached = count
                if type(count := details.get("cache_write_tokens")) is int and count >= 0:
                    self.cache_written = count
            elif type(count := get("prompt_cache_hit_tokens")) is int and count >= 0:  # DeepSeek
                self.cached = count
        count = get("completion_tokens")
        if (type(count) is int or type(count := get("output_tokens")) is int) and count >= 0:
            self.output = count
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
