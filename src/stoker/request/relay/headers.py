"""Which headers are passed on, and what Retry-After says. Credentials, hop-by-hop headers and those that identify the
client's own connection are not passed on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from typing import Final

from stoker.domain.errors import forwarded_twice
from stoker.domain.lease import Target
from stoker.request.codec.content_coding import readable_codings

LONGEST_PAUSE: Final = 3600.0
"""Seconds: a longer Retry-After counts as this."""
_SECONDS: Final = re.compile(rb"[0-9]++(\.[0-9]++)?")
FORWARDED: Final = b"x-stoker-forwarded"
"""In a request: another Stoker sends it to an `also` of its serve, or to a slot of a box."""
_SESSION: Final = {b"x-stoker-session", b"x-stoker-parent-session"}
"""Only another Stoker gets them."""
_HOP: Final = {
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authentication-info",
    b"proxy-authorization", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"content-length", b"expect",
}  # fmt: skip
_NOT_FORWARDED: Final = _HOP | {
    b"host", b"authorization", b"x-api-key", b"api-key", b"cookie", b"origin", b"referer",
    b"x-request-id", b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip",
    FORWARDED, *_SESSION,
}  # fmt: skip
_UNENCODED: Final = _NOT_FORWARDED | {b"accept-encoding"}
_NOT_RETURNED: Final = _HOP | {
    b"date", b"server", b"set-cookie", b"x-request-id", b"access-control-allow-origin",
    b"access-control-allow-credentials", b"access-control-allow-headers", b"access-control-allow-methods",
    b"access-control-allow-private-network", b"access-control-expose-headers", b"access-control-max-age",
    b"x-powered-by", b"alt-svc", b"strict-transport-security", b"location",
}  # fmt: skip
_WEBSOCKET: Final = b"sec-websocket-"
_ACCEPTS: Final = b"\r\naccept-encoding: "
_OURS: Final = b"x-stoker-"
"""The prefix of headers that only Stoker adds to a reply."""
_PLAIN_CONNECTION: Final = (b"keep-alive", b"close", b"")


def request_head(
    method: bytes, path: str, target: Target, headers: Sequence[tuple[bytes, bytes]], length: int, plain: bool
) -> bytes:
    """The upstream request's head. `plain`: ask for an unencoded reply, since a frame of it may have to be removed.
    Else the serve may use the codings that both the client and Stoker read.

    Raises ClientError `forwarded_twice` for a request that another Stoker forwarded, if the target is one, too.
    """
    parts = [b"%b %b%b HTTP/1.1\r\nhost: %b:%d\r\n" % (
        method, target.base_path.encode(), path.encode(), target.host.encode(), target.port,
    )]  # fmt: skip
    excluded = _UNENCODED if plain else _NOT_FORWARDED
    for name, value in _end_to_end(headers, excluded - _SESSION if target.is_replica_elsewhere else excluded):
        parts += (name, b": ", value, b"\r\n")
    if target.key is not None:
        bearer = b"x-api-key: %b\r\n" if target.key_header == "x-api-key" else b"authorization: Bearer %b\r\n"
        parts.append(bearer % target.key.encode())
    if target.is_replica_elsewhere:
        if any(name == FORWARDED for name, _ in headers):
            raise forwarded_twice(target.served_name)
        parts.append(b"%b: 1\r\n" % FORWARDED)
    parts.append(b"content-length: %d\r\n\r\n" % length)
    head = b"".join(parts)
    return head if plain or head.find(_ACCEPTS) < 0 else _with_readable_codings(head)


def tunnel_head(
    path: str, target: Target, handshake: Iterable[tuple[bytes, bytes]], headers: Sequence[tuple[bytes, bytes]]
) -> bytes:
    """The head of the request that opens a WebSocket session at a serve. `handshake`: its own headers; of `headers`,
    the client's, those go along that any request takes along.
    """
    parts = [b"GET %b%b HTTP/1.1\r\nhost: %b:%d\r\n" % (
        target.base_path.encode(), path.encode(), target.host.encode(), target.port,
    )]  # fmt: skip
    others = (header for header in _end_to_end(headers, _NOT_FORWARDED) if not header[0].startswith(_WEBSOCKET))
    for name, value in (*handshake, *others):
        parts += (name, b": ", value, b"\r\n")
    if target.key is not None:
        bearer = b"x-api-key: %b\r\n" if target.key_header == "x-api-key" else b"authorization: Bearer %b\r\n"
        parts.append(bearer % target.key.encode())
    parts.append(b"\r\n")
    return b"".join(parts)


def reply_headers(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of the serve's reply that the client gets."""
    return [header for header in _end_to_end(headers, _NOT_RETURNED) if not header[0].startswith(_OURS)]


def accepted_codings(head: bytes) -> bytes:
    """The Accept-Encoding of an upstream request's head; empty: it has none."""
    start = head.find(_ACCEPTS)
    return b"" if start < 0 else head[start + len(_ACCEPTS) : head.index(b"\r\n", start + len(_ACCEPTS))]


def _with_readable_codings(head: bytes) -> bytes:
    """The head with one Accept-Encoding, of what Stoker reads."""
    first, *others = head.split(_ACCEPTS)
    values, rests = zip(*((value, rest) for value, _, rest in (one.partition(b"\r\n") for one in others)), strict=True)
    return b"%b%b%b\r\n%b" % (first, _ACCEPTS, readable_codings(b", ".join(values)), b"\r\n".join(filter(None, rests)))


def _end_to_end(headers: Sequence[tuple[bytes, bytes]], excluded: set[bytes]) -> list[tuple[bytes, bytes]]:
    """Drop `excluded` and what the Connection header lists (RFC 9110, 7.6.1). `connection` itself must be in
    `excluded`.
    """
    passed: list[tuple[bytes, bytes]] = []
    nominated: set[bytes] = set()
    for header in headers:
        name, value = header
        if name not in excluded:
            passed.append(header)
        elif name == b"connection" and value.lower() not in _PLAIN_CONNECTION:
            nominated.update(part.strip().lower() for part in value.split(b","))
    return [header for header in passed if header[0] not in nominated] if nominated else passed


def retry_after(headers: Iterable[tuple[bytes, bytes]], now: float | None = None) -> float | None:
    """Seconds that Retry-After asks for, at most LONGEST_PAUSE; None: it is missing, or neither seconds nor an HTTP
    date (RFC 9110, 10.2.3). A date counts from the reply's own Date, whatever our clock says; without one, from `now`
    (Unix time; default: the clock's).
    """
    by_name = dict(headers)
    value = by_name.get(b"retry-after", b"").strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), LONGEST_PAUSE)
    until = _moment(value)
    if until is None:
        return None
    sent = _moment(by_name.get(b"date", b""))
    since = sent if sent is not None else time.time() if now is None else now
    return min(max(0.0, until - since), LONGEST_PAUSE)


def _moment(value: bytes) -> float | None:
    """Unix time of an HTTP date."""
    if not value or len(value) > 64:
        return None
    from email.utils import parsedate_to_datetime  # half a megabyte, for the servers that write a date here

    try:
        return parsedate_to_datetime(value.decode("ascii")).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
