"""One GET over HTTP(S), through redirects and the environment's proxy. Blocks, and ends at once when it is not wanted.

Nothing is sent that could be a secret, so a redirect to another host carries none; what a redirect's address says
beyond its host may be a signature, and is not named.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from urllib.parse import SplitResult, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from stoker import __version__
from stoker.fleet.weights.copying import CopyStopped, SourceUnreadable

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
    """The response to a GET, its body unread. Only redirects are followed, other statuses are returned.

    Raises SourceUnreadable (a retry is no use), CopyStopped, and TRANSIENT ones, also inside the block.
    """
    sent = {"user-agent": f"stoker/{__version__}", "accept": "*/*", "accept-encoding": "identity", **headers}
    with _Wire(stop) as wire:
        for _ in range(REDIRECTS + 1):
            answer = wire.get(urlsplit(url), sent)
            if answer.status not in _MOVED:
                yield answer
                return
            url = redirected(url, answer)
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
