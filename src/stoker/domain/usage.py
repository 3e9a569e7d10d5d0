"""What requests used: as the serves counted it, or estimated."""

from __future__ import annotations

import msgspec


class ServeUsage(msgspec.Struct, gc=False):
    """One call of one serve. None: the serve did not report it."""

    serve: str
    input: int | None = None
    """Tokens of the prompt, cached ones included."""
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    """Those tokens of `output` that are thinking."""
    accelerator_seconds: float = 0.0
    """Time on the serve's slot, divided among the requests that ran at the same time."""
    cache_written: int | None = None
    """Those tokens of `input` that were written to the cache."""
    is_estimated: bool = False
    """Whether `input` or `output` is what Stoker estimated."""
    calls_tool: bool = False
    """The answer calls a tool: the client goes on by itself."""
    reading_seconds: float | None = None
    """From the call of the serve to the first token; None: not known."""


class MediaUnits(msgspec.Struct, gc=False, omit_defaults=True):
    """What a request made or read that is no text. None: not known, or not of this kind."""

    audio_seconds: float | None = None
    """Of the audio that was transcribed, as the serve says."""
    characters: int | None = None
    """Of the text that was spoken."""
    images: int | None = None
    """That were asked for."""
