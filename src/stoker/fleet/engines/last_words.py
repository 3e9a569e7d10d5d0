"""What an engine said before it ended, short and safe to show, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

LINES = 5
LENGTH = 800
_HINT_LINES = 40
_TAIL = 64 * 2**10
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOISE = re.compile(r"^\s*(File \".*\", line \d+|Traceback \(most recent|[\^~\s]+$|at .*:\d+$)|cleaning up before exit")

_HINTS = (
    (
        r"out of memory|cudaMalloc failed|failed to allocate|unable to allocate|bad_alloc|MemoryError|OutOfMemory",
        "it ran out of memory: lower `context`, `parallel` or `gpu_layers`, or take a smaller quantisation",
    ),
    (
        r"unknown model architecture|unsupported model architecture|unsupported architecture|not supported for now",
        "this engine does not know the model's architecture: update the engine",
    ),
    (
        r"address already in use|couldn't bind|could not bind|HTTP server error|bind\(\) failed|EADDRINUSE",
        "its port is taken: look who has it with `ss -ltnp`, or take `port` out so that a free one is picked",
    ),
    (
        r"invalid magic|gguf_init_from|tensor .* (not within|out of bounds|data offset)|file bounds|failed to read"
        r"|corrupt|error loading model",
        "the weights look damaged or cut short: compare their size and checksum with the source, download them again",
    ),
    (
        r"unrecognized arguments?|invalid argument|unknown argument|no such option|unexpected argument",
        "it does not know an option: correct `extra_args` or `cmd`",
    ),
    (
        r"No module named|ModuleNotFoundError|cannot open shared object|error while loading shared libraries",
        "something that it needs is not installed in the environment that it runs in",
    ),
)
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), hint) for pattern, hint in _HINTS)


class LastWords(NamedTuple):
    text: str
    """The last lines, joined by ` | `; at most LENGTH characters; empty if it said nothing."""
    hint: str
    """What to do about it; empty for what we have not seen before."""


def last_words(path: Path, start: int, secrets: Iterable[str] = ()) -> LastWords:
    """What this start wrote (from byte `start` of its log) before it ended. `secrets` are replaced by `***`."""
    lines: list[str] = []
    for raw in _ESCAPE.sub("", redact(_tail(path, start), secrets)).splitlines():
        line = _CONTROL.sub("", raw.expandtabs(1)).strip()
        if any(c.isalnum() for c in line) and not _NOISE.search(line) and line not in lines[-LINES:]:
            lines.append(line)
    kept = lines[-LINES:]
    while len(kept) > 1 and len(" | ".join(kept)) > LENGTH:
        kept.pop(0)
    return LastWords(" | ".join(kept)[-LENGTH:], _hint("\n".join(lines[-_HINT_LINES:])))


def redact(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return text


def _hint(said: str) -> str:
    return next((advice for pattern, advice in _COMPILED if pattern.search(said)), "")


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
