"""The log of a serve that runs as a job: what Stoker notes about it, and the end of its output."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from stoker.domain.errors import StartFailed
from stoker.fleet.process.logs import open_log, rotate_if_full
from stoker.store.files.remedies import remedy
from stoker_ray.jobs_api import Job

_MAX_BYTES = 64 * 2**10


def begin(log: Path, limit: int, serve: str, what: str) -> int:
    """Notes a start in the log. Returns the offset at which its own output begins. Raises StartFailed."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        rotate_if_full(log, limit)
        output = open_log(log)
        try:
            os.write(output, f"--- stoker {now}: serve '{serve}' {what}\n".encode())
            return os.lseek(output, 0, os.SEEK_END)
        finally:
            os.close(output)
    except OSError as error:
        text = (
            f"serve '{serve}' was not started: {log} cannot be written ({error.strerror}): {remedy(error, log.parent)}"
        )
        raise StartFailed(text, code="cannot_start") from error


def without_rays_lines(text: str, job: Job) -> str:
    """The output without what Ray writes into it: lines of its job manager, and the command, which holds a key."""
    for command in (re.escape(job.entrypoint), "[^\\n]*"):
        text = re.sub(rf"(?m)^Running entrypoint for job {re.escape(job.id)}: {command}(?:\n|\Z)", "", text)
    return re.sub(r"(?m)^[^\n]*job_manager\.py:\d+ -- [^\n]*(?:\n|\Z)", "", text)


def add(log: str, text: str) -> None:
    """Adds the end of an output. A full disk only loses it."""
    data = text.encode("utf-8", "replace")[-_MAX_BYTES:]
    if not log or not data:
        return
    with contextlib.suppress(OSError):
        output = open_log(Path(log))
        try:
            os.write(output, data if data.endswith(b"\n") else data + b"\n")
        finally:
            os.close(output)
