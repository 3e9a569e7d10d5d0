"""One measurement of a serve at a time: two at once would measure each other."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.domain.errors import StokerError


@contextmanager
def alone(serve: str, directory: Path) -> Iterator[None]:
    """Holds a lock in the directory of results, which ends with the process whatever happens to it.

    Raises StokerError `busy` (another one measures it) or `not_kept` (the directory cannot be used).
    """
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", serve)[:80]
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(directory / f".{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StokerError(f"results cannot be kept in {directory}: {error.strerror}", code="not_kept") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"another measurement of {serve} is under way: two at once would measure each other; wait for it"
            raise StokerError(text, code="busy", status=409) from None
        yield
    finally:
        os.close(handle)
