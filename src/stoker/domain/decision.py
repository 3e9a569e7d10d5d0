"""What became of one request. Content-free by construction: no field can hold a prompt, a reply or a header."""

from __future__ import annotations

import msgspec


class Candidate(msgspec.Struct, frozen=True):
    """A serve that was looked at, and why it was dropped (empty: it was used)."""

    serve: str
    dropped: str = ""


class Decision(msgspec.Struct):
    """One record per request. Times are seconds; None means unknown, never 0."""

    id: str
    at: float
    """Unix time of arrival."""
    endpoint: str
    model: str = ""
    """The name that was asked for, shortened to 200 characters."""
    key: str = ""
    """The key's name, never its value."""
    serve: str = ""
    candidates: list[Candidate] = []
    attempts: int = 0
    stream: bool = False
    status: int = 0
    outcome: str = "open"
    """`served`, `client_left`, `refused`, `upstream_failed`, `cut`, `stalled`, `bug`."""
    reason: str = ""
    """The error's code, when there was one."""
    queued: float | None = None
    ttft: float | None = None
    latency: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    translation: str = ""
    """Edits that were made to the request, comma separated (`model`, `include_usage`, ...)."""
