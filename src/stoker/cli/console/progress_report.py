"""Progress for the program that started this command: a line of JSON on stderr, instead of what people see.

Wanted where the environment says STOKER_PROGRESS=json, as the jobs of the web page do. A line is `{"progress": {...}}`
with `what`, and where they are known `share` (0 to 1), `left` (seconds), `done` and `total` (bytes).
"""

from __future__ import annotations

import json
import os
import sys
import time

VARIABLE = "STOKER_PROGRESS"
INTERVAL = 0.25
"""Seconds between two lines about the same."""
STEP = 0.01
"""What of the whole makes another line at once, so that what stalls is shown as far as it came."""
_last: tuple[str, float, float] = ("", 0.0, 0.0)


def is_wanted() -> bool:
    return os.environ.get(VARIABLE) == "json"


def report(
    what: str,
    *,
    share: float | None = None,
    left: float | None = None,
    done: int | None = None,
    total: int | None = None,
) -> None:
    """One line in INTERVAL, and for each STEP and each new `what`."""
    global _last
    now = time.monotonic()
    part = done / total if done is not None and total else share or 0.0
    if what == _last[0] and now - _last[1] < INTERVAL and part - _last[2] < STEP:
        return
    _last = (what, now, part)
    values = {"what": what, "share": share, "left": left, "done": done, "total": total}
    line = json.dumps({"progress": {name: value for name, value in values.items() if value is not None}})
    print(line, file=sys.stderr, flush=True)
