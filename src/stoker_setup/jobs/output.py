"""What a command has written: progress and notes on stderr, a result or an error on stdout. Pure."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import msgspec

from stoker_setup.jobs.job import JobError, JobProgress

LONGEST_RESULT = 2**20
"""Characters of a result, as JSON, that is kept."""
_WINDOW = 5.0
"""Seconds over which the speed is taken."""


class Meter:
    """The speed of what comes, over the last few seconds, and from it the time left."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def take(self, progress: JobProgress, now: float) -> JobProgress:
        if progress.done is None:
            self._seen.clear()
            return progress
        if self._seen and progress.done < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, progress.done))
        while now - self._seen[0][0] > _WINDOW and len(self._seen) > 2:
            self._seen.popleft()
        began, first = self._seen[0]
        if now <= began or progress.done <= first:
            return progress
        progress.speed = (progress.done - first) / (now - began)
        if progress.total is not None:
            progress.left = max(0.0, (progress.total - progress.done) / progress.speed)
        return progress


def read_line(line: str) -> JobProgress | str:
    """A line of stderr: progress, or something that is said to people."""
    if line.startswith('{"progress":'):
        try:
            return msgspec.convert(_encodable(json.loads(line)["progress"]), JobProgress)
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
    return line


def read_result(text: str, kind: str) -> tuple[Any, JobError | None]:
    """What stdout says: the result, and the error. A command that shows something before it fails prints both."""
    result, error = None, None
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            found, at = decoder.raw_decode(text, at)
            found = _encodable(found)
        except (ValueError, RecursionError):
            break
        said = found.get("error") if isinstance(found, dict) else None
        if isinstance(said, dict) and len(found) == 1:
            error = JobError(str(said.get("message", "")), str(said.get("code", "")))
        else:
            result = _shown(found, kind)
    if result is not None and len(json.dumps(result)) > LONGEST_RESULT:
        result = None
    return result, error


def _encodable(found: Any) -> Any:
    """Without halves of surrogate pairs, which JSON may hold and UTF-8 may not: a file's name need not be text."""
    return json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))


def _shown(found: Any, kind: str) -> Any:
    """Of a measurement, which is kept whole among the results, what the page shows."""
    if kind not in ("preflight", "benchmark"):
        return found
    runs = [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]
    if not runs:
        return None
    run = runs[0]
    checks = [
        {name: one.get(name) for name in ("name", "outcome", "observed", "cause", "fix")}
        for one in run.get("findings") or []
        if isinstance(one, dict)
    ]
    return {"id": run.get("id"), "outcome": run.get("outcome"), "seconds": run.get("seconds"), "checks": checks}
