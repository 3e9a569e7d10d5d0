"""Remembers over restarts what each serve was when it last ran: STATE/fingerprints.json."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from stoker.domain.lease import Target
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Serve
from stoker.store.files import atomic
from stoker_lab.identify import identify

log = logging.getLogger("stoker.routing")


class LastFingerprint(msgspec.Struct, frozen=True):
    """What a serve was when it last ran, and the digest of how it was launched then."""

    launch: str
    identity: str
    execution: str


class FingerprintStore:
    """`launch` digests how a serve is started. While that digest is the same, the last fingerprint is trusted."""

    def __init__(self, state: Path, launch: Callable[[Serve], str]) -> None:
        self._state = state
        self._path = state / "fingerprints.json"
        self._launch = launch
        self._last = self._read()

    def last(self, serve: Serve) -> Fingerprint | None:
        """What it was when it last ran; None: it never ran, or is started in another way now."""
        found = self._last.get(serve.name)
        if found is None or found.launch != self._launch(serve):
            return None
        return Fingerprint(found.identity, found.execution)

    async def identify(self, serve: Serve, target: Target) -> Fingerprint:
        """What a running serve is. Raises KeyRejected and OSError."""
        return await identify(serve, target, self._state)

    async def remember(self, serve: Serve, found: Fingerprint) -> None:
        """Known at once, on disk when this returns. A file that cannot be written is a warning."""
        self._last[serve.name] = LastFingerprint(self._launch(serve), found.identity, found.execution)
        await asyncio.to_thread(self._write, msgspec.json.encode(self._last))

    def _read(self) -> dict[str, LastFingerprint]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, LastFingerprint])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}  # each serve is identified again when it is loaded

    def _write(self, body: bytes) -> None:
        try:
            atomic.write(self._path, body)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error.strerror)
