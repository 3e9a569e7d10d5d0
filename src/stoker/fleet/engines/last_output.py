"""The last output of an engine that ended, short and safe to show, with advice."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from stoker.fleet.engines.failures import EngineFailure, classify

LINES = 5
LENGTH = 800
_HINT_LINES = 120  # vLLM prints the cause above the tracebacks of all waiting requests
_TAIL = 64 * 2**10
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOISE = re.compile(r"^\s*(File \".*\", line \d+|Traceback \(most recent|[\^~\s]+$|at .*:\d+$)|cleaning up before exit")


class LastOutput(NamedTuple):
    text: str
    """The last lines, joined by ` | `; at most LENGTH characters; empty if there was no output."""
    hint: str
    """What to do about it; empty if the failure is not recognised."""
    failure: EngineFailure | None = None
    """The same, named."""


def last_output(
    path: Path, start: int, secrets: Iterable[str] = (), engine: str = "", code: int | None = None
) -> LastOutput:
    """What this start wrote (from byte `start` of its log) before it ended. `secrets` are replaced by `***`.

    `engine` and `code`, its exit code, help to tell why; see `failures.classify`.
    """
    return from_text(_tail(path, start), secrets, engine, code)


def from_text(said: str, secrets: Iterable[str] = (), engine: str = "", code: int | None = None) -> LastOutput:
    """As `last_output`, of what was read elsewhere."""
    lines: list[str] = []
    for raw in _ESCAPE.sub("", redact(said, secrets)).splitlines():
        line = _CONTROL.sub("", raw.expandtabs(1)).strip()
        if any(c.isalnum() for c in line) and not _NOISE.search(line) and line not in lines[-LINES:]:
            lines.append(line)
    failure = classify(engine, code, "\n".join(lines[-_HINT_LINES:]))
    kept = lines[-LINES:]
    # What comes last is often only that it ended: the line that says why is shown first.
    cause = [failure.evidence] if failure is not None and not any(failure.evidence in line for line in kept) else []
    while len(kept) > 1 and len(" | ".join([*cause, *kept])) > LENGTH:
        kept.pop(0)
    text = " | ".join([*cause, *kept])[-LENGTH:]
    return LastOutput(text, failure.advice if failure is not None else "", failure)


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
