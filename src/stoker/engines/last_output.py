"""The last output of an engine that ended, short and safe to show, with advice."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from stoker.engines.failures import LOG_HEAD, EngineFailure, classify

LINES = 5
LENGTH = 800
_HINT_LINES = 120  # vLLM prints the cause above the tracebacks of all waiting requests
_TAIL = 64 * 2**10
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOISE = re.compile(r"^\s*(Traceback \(most recent|[\^~\s]+$|at .*:\d+$)|cleaning up before exit")
_FRAME = re.compile(r"^\s*File \".*\", line \d+")
_SOURCE = " " * 4
"""Indents the source code that a traceback shows below a frame."""
_EXCEPTION = re.compile(r"^([\w.]*(Error|Exception): |what\(\): )")
"""Python's, and that of a C++ program that was aborted."""
_CAUSE = 400
"""Characters shown of the first exception."""


class LastOutput(NamedTuple):
    text: str
    """The last lines, joined by ` | `; at most LENGTH characters; empty if there was no output."""
    hint: str
    """Advice; empty if the failure is not recognised."""
    failure: EngineFailure | None = None
    """The failure, if it is recognised."""


def last_output(
    path: Path, start: int, secrets: Iterable[str] = (), engine: str = "", code: int | None = None
) -> LastOutput:
    """The output of this start (from byte `start` of its log). `secrets` are replaced by `***`.

    `engine` and `code`, its exit code, help to find the cause; see `failures.classify`.
    """
    return from_text(_tail(path, start), secrets, engine, code)


def from_text(said: str, secrets: Iterable[str] = (), engine: str = "", code: int | None = None) -> LastOutput:
    """As `last_output`, for output that was read elsewhere."""
    telling = _telling_lines(redact(said, secrets))
    failure = classify(engine, code, "\n".join(f"{head}{line}" for head, line in telling[-_HINT_LINES:]))
    lines = [line for _, line in telling]
    kept = lines[-LINES:]
    # the last line often says only that the engine ended, so the line that says why is shown first
    why = failure.evidence if failure is not None else _first_exception(lines)
    cause = [why] if why and not any(why in line for line in kept) else []
    while len(kept) > 1 and len(" | ".join([*cause, *kept])) > LENGTH:
        kept.pop(0)
    text = " | ".join([*cause, *kept])[-LENGTH:]
    return LastOutput(text, failure.advice if failure is not None else "", failure)


def _telling_lines(said: str) -> list[tuple[str, str]]:
    """vLLM's prefix and the rest of the lines, without escapes, frames of tracebacks, and repetitions."""
    lines: list[tuple[str, str]] = []
    in_frame = False
    for raw in _ESCAPE.sub("", said).splitlines():
        whole = _CONTROL.sub("", raw.expandtabs(1))
        text = LOG_HEAD.sub("", whole)
        in_frame = _FRAME.match(text) is not None or (in_frame and text.startswith(_SOURCE))
        line = text.strip()
        is_telling = not in_frame and any(c.isalnum() for c in line) and not _NOISE.search(line)
        if is_telling and all(line != shown for _, shown in lines[-LINES:]):
            lines.append((whole[: len(whole) - len(text)], line))
    return lines


def _first_exception(lines: list[str]) -> str:
    """The first exception that was printed, which is the cause of later ones (in a chain, or in other processes). Empty
    if there is none.
    """
    return next((line[:_CAUSE] for line in lines if _EXCEPTION.match(line)), "")


def redact(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return text


def _tail(path: Path, start: int) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < start:  # it was rotated in between
                start = 0
            file.seek(max(start, size - _TAIL))
            return file.read(_TAIL).decode("utf-8", "replace")
    except OSError:
        return ""
