"""Lets web pages of allowed origins use the API (CORS).

A browser asks before it sends (a preflight request, without a key). It shows the page a reply only if the head names
the page's origin. So every reply to an allowed page has these headers: streams and errors, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stoker.domain.errors import ClientError

Headers = dict[bytes, bytes]

MAX_AGE = 600
"""Seconds for which a browser may remember the answer to a preflight request."""
METHODS = b"GET, HEAD, POST"
EXPOSED = (
    b"x-request-id, request-id, retry-after, x-should-retry, x-stoker-serve, x-stoker-tier, x-stoker-class, "
    b"x-stoker-fallback, x-stoker-translation, x-stoker-edits, x-stoker-token-count"
)
_NAMES = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,2000}")
_OWN_SITES = (b"none", b"same-origin")


class Cors:
    """Which origins are allowed, and the headers for their browsers."""

    def __init__(self, allowed_origins: tuple[str, ...]) -> None:
        self._allowed = {origin.lower().encode("latin-1", "replace") for origin in allowed_origins}
        self.has_allowed_origins = bool(self._allowed)

    def allows(self, origin: bytes) -> bool:
        return origin.lower() in self._allowed

    def reply_headers(self, headers: Mapping[bytes, bytes]) -> Headers:
        """Headers for every reply: that it varies by origin, and the page's origin if it is allowed."""
        answer = {b"vary": b"Origin"}
        origin = headers.get(b"origin")
        if origin is not None and self.allows(origin):
            answer[b"access-control-allow-origin"] = origin
            answer[b"access-control-expose-headers"] = EXPOSED
        return answer

    def preflight(self, method: str, headers: Mapping[bytes, bytes]) -> Headers | None:
        """The headers that answer a preflight request; None: it is no preflight request, or its page is not allowed.

        Every header that the browser asks for is allowed: SDKs send many, and the key is checked with the request
        itself.
        """
        origin = headers.get(b"origin")
        if method != "OPTIONS" or origin is None or b"access-control-request-method" not in headers:
            return None
        if not self.allows(origin):
            return None
        answer = {b"access-control-allow-methods": METHODS, b"access-control-max-age": b"%d" % MAX_AGE}
        answer[b"vary"] = b"Origin, Access-Control-Request-Headers, Access-Control-Request-Private-Network"
        wanted = headers.get(b"access-control-request-headers", b"")
        if _NAMES.fullmatch(wanted):
            answer[b"access-control-allow-headers"] = wanted
        if headers.get(b"access-control-request-private-network") == b"true":
            answer[b"access-control-allow-private-network"] = b"true"
        return answer

    def refuse_embedding(self, headers: Mapping[bytes, bytes]) -> None:
        """Raises ClientError 403 for a request that a page of another site made a browser send without an Origin: an
        image, a link, a frame. Browsers mark such requests with Sec-Fetch-Site; other programs do not send it.
        """
        site = headers.get(b"sec-fetch-site")
        if site is None or site.lower() in _OWN_SITES or self.allows(headers.get(b"origin", b"")):
            return
        text = (
            "a web page of another origin made the browser send this request: open the URL yourself, or add the page's "
            "origin to front_door.allowed_origins and use fetch()"
        )
        raise ClientError(text, code="foreign_page", status=403)
