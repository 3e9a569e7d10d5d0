"""All scratchpads: `STATE/orchestrator/REQUEST.md`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

from stoker.orchestrate.memory import records
from stoker.orchestrate.memory.scratchpad import RunHead, SavedRun, Scratchpad, read_scratchpad

log = logging.getLogger("stoker.orchestrate")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}\Z")
_CLEAN_EVERY = 3600.0


class Scratchpads:
    """Makes, finds and removes them. Methods block. `wall`: Unix time."""

    def __init__(self, directory: Path, wall: Callable[[], float]) -> None:
        self._directory = directory
        self._wall = wall
        self._cleaned: float | None = None
        self._by_idempotency: dict[str, str] = {}
        """The newest request with each hash."""
        self._is_read = False

    def path(self, request: str) -> Path:
        """Where the scratchpad of a request is. Raises ValueError for what is no request id."""
        if not _PLAIN.match(request) or ".." in request:
            raise ValueError(f"{request[:64]!r} is not the id of a request")
        return self._directory / f"{request}.md"

    def begin(self, head: RunHead) -> Scratchpad:
        """A new scratchpad; an older one of the same id is replaced. Raises OSError and ValueError."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.path(head.request)
        path.unlink(missing_ok=True)
        pad = Scratchpad(path)
        pad.begin(head)
        if head.idempotency:
            self._index()[head.idempotency] = head.request
        return pad

    def find(self, idempotency: str) -> str | None:
        """The newest request with this hash, of those that are kept; None: there is none."""
        return self._index().get(idempotency)

    def read(self, request: str) -> SavedRun:
        """What is saved of a request. Raises OSError and ValueError."""
        return read_scratchpad(self.path(request))

    def saved(self) -> list[SavedRun]:
        """Every scratchpad, newest first. What cannot be read is left out."""
        found = []
        for path in self._files():
            try:
                found.append(read_scratchpad(path))
            except (OSError, ValueError) as error:
                log.warning("the scratchpad %s cannot be read: %s", path, error)
        return sorted(found, key=lambda run: run.head.at, reverse=True)

    def clean(self, keep: float) -> int:
        """Remove those older than `keep` seconds, at most once an hour. The number removed."""
        now = self._wall()
        if self._cleaned is not None and now - self._cleaned < _CLEAN_EVERY:
            return 0
        self._cleaned = now
        removed = 0
        for path in self._files():
            try:
                if now - path.stat().st_mtime > keep:
                    path.unlink()
                    removed += 1
            except OSError as error:
                log.warning("the scratchpad %s cannot be removed: %s", path, error)
        return removed

    def _index(self) -> dict[str, str]:
        if not self._is_read:
            self._is_read = True
            heads = []
            for path in self._files():
                try:
                    with path.open("rb") as file:
                        first = next(records.decode(file.read(64 * 1024)), None)
                except OSError:
                    continue
                if first is not None and first.facts.get("idempotency"):
                    heads.append((first.facts.get("at", 0.0), first.facts["idempotency"], path.stem))
            self._by_idempotency = {key: request for _, key, request in sorted(heads)}
        return self._by_idempotency

    def _files(self) -> list[Path]:
        return sorted(self._directory.glob("*.md")) if self._directory.is_dir() else []
