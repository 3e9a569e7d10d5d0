"""Tokens that a serve counted, read from the `usage` object of any dialect."""

from __future__ import annotations

from typing import Any


class Usage:
    """Tokens as the serve itself counted them; None is unknown."""

    __slots__ = ("audio_seconds", "cache_written", "cached", "input", "output", "reasoning", "uncached")

    def __init__(self, input: int | None = None, output: int | None = None) -> None:
        self.input = input
        """Prompt tokens, in every dialect including those read from the cache."""
        self.output = output
        self.cached: int | None = None
        self.reasoning: int | None = None
        self.uncached: int | None = None
        """The `input_tokens` of Messages, which exclude tokens read from the cache or written to it."""
        self.cache_written: int | None = None
        self.audio_seconds: float | None = None
        """Length of the transcribed audio."""

    def update_from(self, usage: Any) -> None:
        """Take over what a `usage` object of any dialect says. Later values replace earlier ones."""
        if not isinstance(usage, dict):
            return
        get = usage.get
        counts_cache_apart = "cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage
        if counts_cache_apart or self.uncached is not None:
            self._update_from_messages(usage)
        else:
            count = get("prompt_tokens")
            if type(count) is int or type(count := get("input_tokens")) is int:  # True is an int, but no count
                self.input = count
            details = get("prompt_tokens_details") or get("input_tokens_details")
            if isinstance(details, dict) and type(count := details.get("cached_tokens")) is int:
                self.cached = count
        count = get("completion_tokens")
        if type(count) is int or type(count := get("output_tokens")) is int:
            self.output = count
        details = get("completion_tokens_details") or get("output_tokens_details")
        if isinstance(details, dict) and type(count := details.get("reasoning_tokens")) is int:
            self.reasoning = count

    def _update_from_messages(self, usage: dict[str, Any]) -> None:
        get = usage.get
        if type(count := get("cache_read_input_tokens")) is int:
            self.cached = count
        if type(count := get("cache_creation_input_tokens")) is int:
            self.cache_written = count
        if type(count := get("input_tokens")) is int:
            self.uncached = count
        elif self.uncached is None:
            self.uncached = self.input
        if self.uncached is not None:
            self.input = self.uncached + (self.cached or 0) + (self.cache_written or 0)
