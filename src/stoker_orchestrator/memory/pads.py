"""All scratchpads: `STATE/orchestrator/REQUEST.md`."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from stoker_orchestrator.memory import records
from stoker_orchestrator.memory.records import MarkdownRecord
from stoker_orchestrator.memory.scratchpad import RunHead, SavedRun, Scratchpad, read_scratchpad

log = logging.getLogger("stoker.orchestrator")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}\Z")
_CLEAN_EVERY = 3600.0
REQUEST_SUFFIX = ".request.json"


class Scratchpads:
    """Makes, finds and removes them. Methods block. `wall`: Unix time."""

    def __init__(self, directory: Path, wall: Callable[[], float]) -> None:
        self.directory = self._directory = directory
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

    def clean_in_thread(self, keep: Mapping[str, float]) -> None:
        """As `clean`, in a thread; at most once an hour. Does not block."""
        now = self._wall()
        if self._cleaned is not None and now - self._cleaned < _CLEAN_EVERY:
            return
        self._cleaned = now
        threading.Thread(target=self.clean, args=(dict(keep),), name="scratchpads", daemon=True).start()

    def clean(self, keep: Mapping[str, float]) -> int:
        """Remove those that are older than the `keep` seconds of their orchestrator; if it is no longer configured,
        older than the longest of all. The number removed.
        """
        longest, now, removed = max(keep.values(), default=0.0), self._wall(), 0
        for path in self._files():
            try:
                age = now - path.stat().st_mtime
                if age > min(keep.values(), default=0.0) and age > keep.get(_orchestrator_of(path), longest):
                    path.unlink(missing_ok=True)
                    self.request_file(path.stem).unlink(missing_ok=True)
                    removed += 1
            except (OSError, ValueError) as error:
                log.warning("the scratchpad %s cannot be removed: %s", path, error)
        self._clean_request_files(longest, now)
        return removed

    def request_file(self, request: str) -> Path:
        """Where `stoker run` keeps what it sent, to send it again. Raises ValueError for what is no request id."""
        return self.path(request).with_name(f"{request}{REQUEST_SUFFIX}")

    def _clean_request_files(self, longest: float, now: float) -> None:
        """Those without a scratchpad: the request was answered without blocks, or never came."""
        for path in self._directory.glob(f"*{REQUEST_SUFFIX}"):
            try:
                scratchpad = path.with_name(f"{path.name.removesuffix(REQUEST_SUFFIX)}.md")
                if now - path.stat().st_mtime > longest and not scratchpad.exists():
                    path.unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s cannot be removed: %s", path, error)

    def read_new(self, request: str, offset: int) -> tuple[list[MarkdownRecord], int]:
        """The whole records from `offset` bytes on, and the offset after them. Raises OSError and ValueError."""
        return records.read_new(self.path(request), offset)

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


def _orchestrator_of(path: Path) -> str:
    """The orchestrator that a scratchpad names; empty: it cannot be read. Raises OSError."""
    with path.open("rb") as file:
        first = next(records.decode(file.read(64 * 1024)), None)
    return "" if first is None else str(first.facts.get("orchestrator", ""))
