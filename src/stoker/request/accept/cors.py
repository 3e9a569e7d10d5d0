"""Web pages of other origins: what a browser is told so that those which are allowed can use the API (CORS).

A browser asks before it sends (a preflight, without a key), then sends, and shows a page the reply only where its head
names the page's origin. So these headers are on every reply to an allowed page: streams and errors too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stoker.domain.errors import ClientError

Headers = dict[bytes, bytes]

MAX_AGE = 600
"""Seconds that a browser may go by a preflight's answer."""
METHODS = b"GET, HEAD, POST"
EXPOSED = (
    b"x-request-id, request-id, retry-after, x-should-retry, x-stoker-serve, x-stoker-tier, x-stoker-class, "
    b"x-stoker-fallback, x-stoker-translation, x-stoker-token-count"
)
_NAMES = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,2000}")
_OWN_SITES = (b"none", b"same-origin")


class Cors:
    """Which origins are allowed, and what their browsers are told."""

    def __init__(self, allowed_origins: tuple[str, ...]) -> None:
        self._allowed = {origin.lower().encode("latin-1", "replace") for origin in allowed_origins}
        self.has_allowed_origins = bool(self._allowed)

    def allows(self, origin: bytes) -> bool:
        return origin.lower() in self._allowed

    def reply_headers(self, headers: Mapping[bytes, bytes]) -> Headers:
        """What every reply carries: the page's origin where it is allowed, and that replies differ by it."""
        told = {b"vary": b"Origin"}
        origin = headers.get(b"origin")
        if origin is not None and self.allows(origin):
            told[b"access-control-allow-origin"] = origin
            told[b"access-control-expose-headers"] = EXPOSED
        return told

    def preflight(self, method: str, headers: Mapping[bytes, bytes]) -> Headers | None:
        """The rest of a preflight's answer; None: it is none, or its page is not allowed.

        The headers that are asked for are allowed: which ones an SDK sends is its own affair, and the key in them is
        looked at when the request comes.
        """
        origin = headers.get(b"origin")
        if method != "OPTIONS" or origin is None or b"access-control-request-method" not in headers:
            return None
        if not self.allows(origin):
            return None
        told = {b"access-control-allow-methods": METHODS, b"access-control-max-age": b"%d" % MAX_AGE}
        told[b"vary"] = b"Origin, Access-Control-Request-Headers, Access-Control-Request-Private-Network"
        wanted = headers.get(b"access-control-request-headers", b"")
        if _NAMES.fullmatch(wanted):
            told[b"access-control-allow-headers"] = wanted
        if headers.get(b"access-control-request-private-network") == b"true":
            told[b"access-control-allow-private-network"] = b"true"
        return told

    def refuse_embedding(self, headers: Mapping[bytes, bytes]) -> None:
        """Raises ClientError 403 for a request that somebody else's page made a browser send without an Origin: an
        image, a link, a frame. Browsers say so themselves, in Sec-Fetch-Site; programs say nothing.
        """
        site = headers.get(b"sec-fetch-site")
        if site is None or site.lower() in _OWN_SITES or self.allows(headers.get(b"origin", b"")):
            return
        text = (
            "a web page of another origin made the browser send this request: open the URL yourself, or add the page's "
            "origin to front_door.allowed_origins and use fetch()"
        )
        raise ClientError(text, code="foreign_page", status=403)
