"""Downloads a file over HTTP(S), with its hash, through redirects and the environment's proxy.

Everything here blocks: call it in a thread. It ends at once when it is not wanted. What was received is kept, with a
note about the remote file. The next attempt asks for the rest of that very file (`Range` with `If-Range`: RFC 9110,
13.1.5 and 14.2); if the server has another file by now, or does not support ranges, it sends everything, and the
download starts again. A connection that breaks is tried again, at most TRIES times in a row without a new byte.

A credential (of the hub: see `hub`) is not sent on to another host; neither the query of an address nor a redirect's
target, which may be a signature, is ever named or kept.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.client import HTTPResponse
from io import FileIO
from pathlib import Path
from types import TracebackType
from urllib.parse import SplitResult, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from stoker import __version__
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
from stoker.fleet.weights.sources import WeightSource

REDIRECTS = 5
CONNECT = 15.0
SILENCE = 60.0
"""Seconds without a byte after which a connection counts as broken."""
POLL_INTERVAL = 0.1
_MOVED = (301, 302, 303, 307, 308)


class ConnectionBroken(Exception):
    """It did not come through, and may the next time."""


TRANSIENT = (OSError, http.client.HTTPException, ConnectionBroken)
"""What is worth another try."""


@contextlib.contextmanager
def opened(url: str, headers: Mapping[str, str], stop: threading.Event) -> Iterator[http.client.HTTPResponse]:
    """The response to a GET, its body unread. Only redirects are followed, other statuses are returned. A header
    `authorization` is not sent on to another host.

    Raises SourceUnreadable (a retry is no use), CopyStopped, and TRANSIENT ones, also inside the block.
    """
    sent = {"user-agent": f"stoker/{__version__}", "accept": "*/*", "accept-encoding": "identity", **headers}
    with _Wire(stop) as wire:
        for _ in range(REDIRECTS + 1):
            answer = wire.get(urlsplit(url), sent)
            if answer.status not in _MOVED:
                yield answer
                return
            before, url = url, redirected(url, answer)
            if urlsplit(url).netloc != urlsplit(before).netloc:
                sent.pop("authorization", None)
        raise SourceUnreadable(f"it is redirected more than {REDIRECTS} times, last to {urlsplit(url).hostname}")


def redirected(url: str, answer: http.client.HTTPResponse) -> str:
    """Where it is redirected to. Raises SourceUnreadable."""
    target = urljoin(url, answer.getheader("location") or "")
    before, after = urlsplit(url), urlsplit(target)
    if after.scheme not in ("http", "https") or not after.hostname or target == url:
        raise SourceUnreadable(f"{before.hostname} redirects without a target ({answer.status})")
    if before.scheme == "https" and after.scheme == "http":
        raise SourceUnreadable(
            f"{before.hostname} redirects to {after.hostname} without encryption, which is not followed"
        )
    return target


class _Wire:
    """The connection that is open now. A thread watches `stop` meanwhile, and cuts the connection then."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._over = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._answer: http.client.HTTPResponse | None = None
        self._watch = threading.Thread(target=self._cut_on_stop, name="fetch-watch", daemon=True)

    def __enter__(self) -> _Wire:
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._watch.join()
        self._close()
        if isinstance(error, TRANSIENT) and self._stop.is_set():
            raise CopyStopped from error

    def get(self, url: SplitResult, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        """Raises SourceUnreadable where no second try can help, and TRANSIENT ones."""
        self._close()
        self._connection, target, more = _connection(url)
        try:
            self._connection.connect()
            self._socket = self._connection.sock
            self._socket.settimeout(SILENCE)
            self._connection.request("GET", target, headers={**headers, **more})
            self._answer = self._connection.getresponse()
        except ssl.SSLCertVerificationError as error:
            raise SourceUnreadable(f"the certificate of {url.hostname} is not valid: {error.verify_message}") from error
        except socket.gaierror as error:
            raise SourceUnreadable(f"there is no host {url.hostname} ({error.strerror})") from error
        return self._answer

    def _close(self) -> None:
        for each in (self._answer, self._connection, self._socket):  # an answer outlives its connection
            if each is not None:
                each.close()

    def _cut_on_stop(self) -> None:
        while not self._over.wait(POLL_INTERVAL):
            if self._stop.is_set() and self._socket is not None:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # TLS, too: its own would wait for a lock


def _connection(url: SplitResult) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
    """Not connected yet; what to ask it for; headers for a proxy that is asked in plain."""
    host = url.hostname or ""
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    is_tls = url.scheme == "https"
    port = url.port or (443 if is_tls else 80)
    proxy = urlsplit(getproxies().get(url.scheme, ""))
    if not proxy.hostname or proxy_bypass(host):
        if is_tls:
            return http.client.HTTPSConnection(host, port, timeout=CONNECT), target, {}
        return http.client.HTTPConnection(host, port, timeout=CONNECT), target, {}
    who = _login(proxy)
    where = (proxy.hostname, proxy.port or 8080)
    if not is_tls:
        whole = f"http://{url.netloc}{target}"
        return http.client.HTTPConnection(*where, timeout=CONNECT), whole, who
    connection = http.client.HTTPSConnection(*where, timeout=CONNECT)
    connection.set_tunnel(host, port, who)
    return connection, target, {}


def _login(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"proxy-authorization": f"Basic {base64.b64encode(pair).decode()}"}


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


def remote_file(source: WeightSource, stop: threading.Event, headers: Mapping[str, str] = {}) -> Remote:
    """The remote file, by asking for its first byte: signed addresses often allow no HEAD. `headers` are sent along.
    Raises SourceUnreadable, CopyStopped.
    """
    try:
        with opened(source.url, {**headers, "range": "bytes=0-0"}, stop) as answer:
            if answer.status == _NO_SUCH_PART:
                return Remote(0)  # an empty file has no first byte
            return _remote(answer)
    except TRANSIENT as failure:
        raise SourceUnreadable(reason_of(failure)) from failure


def fetch(
    source: WeightSource,
    draft: Path,
    is_proved: bool,
    stop: threading.Event,
    on_progress: OnProgress,
    headers: Mapping[str, str] = {},
) -> str:
    """Download it to `draft`, synced to disk; returns the hex SHA-256. Raises CopyStopped, SourceUnreadable,
    DraftUnwritable.

    `is_proved`: the caller compares the hash. Without that, a file whose end cannot be told from a broken connection is
    refused. `headers` are sent along with each request.
    """
    download = _Download(source, draft, is_proved, stop, on_progress, headers)
    tries, most = 0, -1
    while True:
        try:
            return download.attempt()
        except TRANSIENT as failure:
            tries = 1 if download.done > most else tries + 1
            most = max(most, download.done)
            if tries >= TRIES:
                raise SourceUnreadable(f"{reason_of(failure)}, {TRIES} times in a row") from failure
        if stop.wait(PAUSE * 2 ** (tries - 1)):
            raise CopyStopped


class _Download:
    """One file over as many tries as it takes; what was hashed once is not read again."""

    def __init__(
        self,
        source: WeightSource,
        draft: Path,
        is_proved: bool,
        stop: threading.Event,
        on_progress: OnProgress,
        headers: Mapping[str, str],
    ) -> None:
        self._source, self._draft, self._is_proved, self._headers = source, draft, is_proved, headers
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
        rest = {"range": f"bytes={start}-", "if-range": known.validator} if start else {}
        with opened(self._source.url, {**self._headers, **rest}, self._stop) as answer:
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


def reason_of(failure: BaseException) -> str:
    """Why a try failed, in words without any address."""
    if isinstance(failure, ConnectionBroken):
        return str(failure)
    if isinstance(failure, TimeoutError):
        return "the server sends nothing"
    if isinstance(failure, OSError):
        return failure.strerror or type(failure).__name__
    return f"the server's answer cannot be understood ({type(failure).__name__})"
