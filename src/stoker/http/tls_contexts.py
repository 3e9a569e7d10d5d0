"""TLS contexts for connections that Stoker makes.

To make one takes 70 to 120 ms with a system's certificates, so there is one per file of trusted certificates, made in a
thread. A file that was renewed is read again.
"""

from __future__ import annotations

import os
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from stoker.blocking import in_own_thread

CHECKED_EVERY: Final = 1.0
"""Seconds between two looks at a file."""
Version = tuple[tuple[int, int, int], ...]
"""Inode, size and time of change of what was read."""


class _Made(NamedTuple):
    context: ssl.SSLContext
    version: Version
    checked_at: float


def _make(ca_file: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file or None)


class TlsContexts:
    """The newest context of each file. May be used by several threads and event loops."""

    def __init__(
        self, make: Callable[[str], ssl.SSLContext] = _make, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`make(ca_file)` may block. `now`: a clock, in seconds."""
        self._make = make
        self._now = now
        self._made: dict[str, _Made] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    async def get(self, ca_file: str = "") -> ssl.SSLContext:
        """The context that trusts the certificates in `ca_file`; empty: those of this machine. Raises OSError."""
        made = self._made.get(ca_file)
        if made is not None and self._now() - made.checked_at < CHECKED_EVERY:
            return made.context
        return await in_own_thread(partial(self._current, ca_file), f"the file of certificates '{ca_file}'")

    def _current(self, ca_file: str) -> ssl.SSLContext:
        with self._locks[ca_file]:  # the first who asks makes it for all
            made, now, version = self._made.get(ca_file), self._now(), _version(ca_file)
            if made is None or made.version != version:
                try:
                    made = _Made(self._make(ca_file), version, now)
                except OSError:
                    if made is None:
                        raise
                    # it is being written: the certificates that were read last are used until it can be read
            self._made[ca_file] = made._replace(checked_at=now)
            return made.context


def _version(ca_file: str) -> Version:
    places = ssl.get_default_verify_paths()
    paths = (ca_file,) if ca_file else (places.cafile, places.capath)
    found = []
    for path in paths:
        try:
            stat = os.stat(path or "")
        except OSError:
            continue
        found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return tuple(found)


tls_contexts = TlsContexts()
"""Those of this process."""
