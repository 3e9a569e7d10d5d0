"""Downloads a file over HTTP(S), with its hash. Everything here blocks: call it in a thread.

What was received is kept, with a note about the remote file. The next attempt asks for the rest of that very file
(`Range` with `If-Range`: RFC 9110, 13.1.5 and 14.2); if the server has another file by now, or does not support ranges,
it sends everything, and the download starts again. A connection that breaks is tried again, at most TRIES times in a
row without a new byte.

No credential is sent, and neither the query of an address nor a redirect's target is ever named or kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.client import HTTPResponse
from io import FileIO
from pathlib import Path

from stoker.fleet.weights.copying import (
    CopyStopped,
    DraftUnwritable,
    OnProgress,
    SourceUnreadable,
    check,
    feed,
    note_of,
    write_all,
)
from stoker.fleet.weights.http_connection import TRANSIENT, ConnectionBroken, opened
from stoker.fleet.weights.sources import WeightSource

CHUNK = 2**20
TRIES = 5
PAUSE = 1.0
"""Seconds before the second try; twice as long before each further one."""
_NO_SUCH_PART = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
_BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
_SPAN = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


@dataclass(frozen=True, slots=True)
class Remote:
    """The file that a server has. `size` in bytes, None: it does not say. `etag` only if it is a strong one."""

    size: int | None = None
    etag: str = ""
    modified: str = ""

    @property
    def validator(self) -> str:
        """Lets a server recognise the same file; empty: it cannot."""
        return self.etag or self.modified


def remote_file(source: WeightSource, stop: threading.Event) -> Remote:
    """The remote file, by asking for its first byte: signed addresses often allow no HEAD. Raises SourceUnreadable,
    CopyStopped.
    """
    try:
        with opened(source.url, {"range": "bytes=0-0"}, stop) as answer:
            if answer.status == _NO_SUCH_PART:
                return Remote(0)  # an empty file has no first byte
            return _remote(answer)
    except TRANSIENT as failure:
        raise SourceUnreadable(_words(failure)) from failure


def fetch(source: WeightSource, draft: Path, is_proved: bool, stop: threading.Event, on_progress: OnProgress) -> str:
    """Download it to `draft`, synced to disk; returns the hex SHA-256. Raises CopyStopped, SourceUnreadable,
    DraftUnwritable.

    `is_proved`: the caller compares the hash. Without that, a file whose end cannot be told from a broken connection is
    refused.
    """
    download = _Download(source, draft, is_proved, stop, on_progress)
    tries, most = 0, -1
    while True:
        try:
            return download.attempt()
        except TRANSIENT as failure:
            tries = 1 if download.done > most else tries + 1
            most = max(most, download.done)
            if tries >= TRIES:
                raise SourceUnreadable(f"{_words(failure)}, {TRIES} times in a row") from failure
        if stop.wait(PAUSE * 2 ** (tries - 1)):
            raise CopyStopped


class _Download:
    """One file over as many tries as it takes; what was hashed once is not read again."""

    def __init__(
        self, source: WeightSource, draft: Path, is_proved: bool, stop: threading.Event, on_progress: OnProgress
    ) -> None:
        self._source, self._draft, self._is_proved = source, draft, is_proved
        self._stop, self._on_progress = stop, on_progress
        self._digest = hashlib.sha256()
        self.done = 0
        """Bytes that are on disk and in the digest."""

    def attempt(self) -> str:
        """Raises CopyStopped, SourceUnreadable, DraftUnwritable, and TRANSIENT ones: try again.

        1. the server has no such part: start again
        2. it sends all of it: the file changed, or it does not support ranges
        3. it sends the rest, as asked
        """
        known, start = self._kept()
        headers = {"range": f"bytes={start}-", "if-range": known.validator} if start else {}
        with opened(self._source.url, headers, self._stop) as answer:
            if start and answer.status == _NO_SUCH_PART:  # 1
                self._forget()
                raise ConnectionBroken("the server does not have the requested range")
            remote = _remote(answer)
            begin = _begin(answer)
            if begin is None:  # 2
                return self._take(answer, remote, 0)
            if not start or begin != start or not _is_same(known, remote):  # 1
                self._forget()
                raise ConnectionBroken("the server sends another range than requested")
            return self._take(answer, known, start)  # 3

    def _kept(self) -> tuple[Remote, int]:
        """The remote file that the draft belongs to, and how many bytes of it can be used; 0: start again."""
        try:
            noted = json.loads(note_of(self._draft).read_text(encoding="utf-8"))
            is_ours = noted.pop("source") == str(self._source)
            known = Remote(**noted)
            size = self._draft.stat().st_size
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return Remote(), 0
        # Another query may mean another file, which a date does not tell.
        if not is_ours or not known.validator or (self._source.query and not known.etag):
            return known, 0
        if known.size is not None and size >= known.size:
            size = known.size - 1 if size == known.size else 0  # complete: its last byte proves that it is the same
        return known, max(0, size)

    def _forget(self) -> None:
        note_of(self._draft).unlink(missing_ok=True)

    def _take(self, answer: HTTPResponse, remote: Remote, start: int) -> str:
        if remote.size is None and not answer.chunked and not self._is_proved:
            raise SourceUnreadable(
                "the server sends no length, so a broken connection looks like the end: give `sha256`"
            )
        with self._draft_at(start, remote) as target:
            self._on_progress(self.done)
            while piece := answer.read1(CHUNK):
                check(self._stop)
                write_all(target.write, piece)
                self._digest.update(piece)
                self.done += len(piece)
                self._on_progress(self.done)
                if remote.size is not None and self.done > remote.size:
                    self._forget()
                    raise SourceUnreadable(f"the server sends more than the {remote.size:,} bytes that it announced")
            check(self._stop)
            if remote.size is not None and self.done != remote.size:
                raise ConnectionBroken(f"the connection ended after {self.done:,} of {remote.size:,} bytes")
            try:
                os.fsync(target.fileno())
            except OSError as error:
                raise DraftUnwritable(error) from error
        return self._digest.hexdigest()

    def _draft_at(self, start: int, remote: Remote) -> FileIO:
        """The draft, open and at `start`, everything before it hashed; at 0 with a new note. Raises DraftUnwritable."""
        try:
            if not start:
                self._forget()  # what comes now is not what it described
            handle = os.open(self._draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (0 if start else os.O_TRUNC), 0o666)
            target = FileIO(handle, "r+b")
            try:
                if not start:
                    note = json.dumps({"source": str(self._source), **asdict(remote)})
                    note_of(self._draft).write_text(note, encoding="utf-8")
                if not start or start != self.done:
                    self._digest, self.done = hashlib.sha256(), 0
                    feed(target.read, start, self._digest.update, self._stop)
                    self.done = start
                target.seek(start)
                target.truncate()
            except BaseException:
                target.close()
                raise
        except OSError as error:
            raise DraftUnwritable(error) from error
        return target


def _remote(answer: HTTPResponse) -> Remote:
    """What the server says it has. Raises SourceUnreadable: it will not send it; ConnectionBroken: not now."""
    if answer.status in _BUSY or answer.status >= 500:
        raise ConnectionBroken(f"the server answers {answer.status} {answer.reason}")
    if answer.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        raise SourceUnreadable(f"the server answers {answer.status} {answer.reason}")
    if answer.getheader("content-encoding", "identity").lower() != "identity":
        raise SourceUnreadable("the server sends the file compressed, although it was asked not to")
    size = answer.length
    if answer.status == HTTPStatus.PARTIAL_CONTENT:
        found = _SPAN.fullmatch(answer.getheader("content-range", ""))
        if found is None:
            raise SourceUnreadable("the server sends a range without saying which")
        size = None if found[3] == "*" else int(found[3])
    etag = answer.getheader("etag", "")
    return Remote(size, "" if etag.startswith("W/") else etag, answer.getheader("last-modified", ""))


def _begin(answer: HTTPResponse) -> int | None:
    """Where the part that comes begins; None: it is no part, but all of it."""
    found = _SPAN.fullmatch(answer.getheader("content-range", ""))
    return None if found is None or answer.status != HTTPStatus.PARTIAL_CONTENT else int(found[1])


def _is_same(known: Remote, remote: Remote) -> bool:
    return (not remote.etag or remote.etag == known.etag) and remote.size in (None, known.size)


def _words(failure: BaseException) -> str:
    if isinstance(failure, ConnectionBroken):
        return str(failure)
    if isinstance(failure, TimeoutError):
        return "the server sends nothing"
    if isinstance(failure, OSError):
        return failure.strerror or type(failure).__name__
    return f"the server's answer cannot be understood ({type(failure).__name__})"
