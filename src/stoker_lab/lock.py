"""One measurement at a time on one slot: two would measure each other."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from stoker.domain.errors import StokerError


@contextlib.contextmanager
def hold_measurement_lock(state: Path, place: str, what: str) -> Iterator[None]:
    """Hold STATE/measuring/PLACE.lock; `place` is the slot's name, or the serve's that has none.

    A second measurement is refused with `what` in the message: "a soak of fast". Never waits. Raises StokerError
    `measuring`. The kernel drops it with the process, so a crash leaves none.
    """
    path = state / "measuring" / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', place)}.lock"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        text = f"{path} cannot be opened ({error.strerror}): check its owner"
        raise StokerError(text, code="state_unusable") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(place, os.pread(handle, 500, 0)) from None
        os.ftruncate(handle, 0)
        since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
            os.pwrite(handle, f"{os.getpid()}\n{what}\n{since}\n".encode(), 0)
        yield
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def measured_now(state: Path) -> str:
    """What is measured now on the machine, for people; empty: nothing."""
    for path in (state / "measuring").glob("*.lock"):
        with contextlib.suppress(OSError), path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return f"'{path.stem}' is being measured"
    return ""


def _taken(place: str, content: bytes) -> StokerError:
    pid, what, since = [*content.decode("utf-8", "replace").split("\n"), "", "", ""][:3]
    if pid.isdigit():
        holder = f"by {what} (process {pid}, since {since}): wait for it, or stop it with `kill {pid}`"
    else:
        holder = "by a measurement that is just starting or ending: try again"
    return StokerError(f"'{place}' is already being measured {holder}", code="measuring", status=409)
