"""Parses the URL of an image."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from stoker.domain.errors import ClientError
from stoker.domain.host_port import host_port

PORTS = {80, 443, 8080, 8443}
LONGEST = 8192
"""Characters of an address."""
_USUAL = {"http": 80, "https": 443}
_BLANK = re.compile(r"[\x00-\x20\x7f]")
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.ASCII)
_AS_IS = "/%:@!$&'()*+,;=~?"


class ImageAddress(NamedTuple):
    """`host` is a name or an address, in lower case, without brackets; `path` has its query and is all ASCII."""

    scheme: str
    host: str
    port: int
    path: str

    def authority(self) -> str:
        """As the Host header has it."""
        whole = host_port(self.host, self.port)
        return whole.rpartition(":")[0] if self.port == _USUAL[self.scheme] else whole

    def address(self) -> str:
        return f"{self.scheme}://{self.authority()}{self.path}"


def parse_image_address(url: str, hosts: Sequence[str], origin: ImageAddress | None = None) -> ImageAddress:
    """Parse a URL. `hosts`: those allowed; empty: all. `origin`: what the URL may be relative to.

    Raises ClientError 400 `image_url_refused`, which names the host alone:

    1. no URL: too long, contains blanks or control characters, or has unbalanced brackets
    2. neither http nor https
    3. a user or password in it
    4. a host that cannot be one
    5. another port than 80, 443, 8080, 8443
    6. a host that is not among `hosts`
    """
    try:
        if len(url) > LONGEST or _BLANK.search(url):
            raise ValueError
        parts = urlsplit(urljoin(origin.address(), url) if origin is not None else url)
        host = _host(parts.hostname or "")
        port = _USUAL.get(parts.scheme, 0) if parts.port is None else parts.port
    except ValueError:
        raise refused("", "its URL is not valid") from None  # 1, 4
    if parts.scheme not in _USUAL:
        raise refused(host, "its URL is neither http nor https")  # 2
    if "@" in parts.netloc:
        raise refused(host, "its URL contains a user or a password")  # 3
    if port not in PORTS:
        raise refused(host, f"port {port} is not one of {', '.join(map(str, sorted(PORTS)))}")  # 5
    if hosts and not any(host == known or (known[:2] == "*." and host.endswith(known[1:])) for known in hosts):
        advice = "send the image as a data: URL; the operator can add the host there"
        raise refused(host, f"the host is not in [media] hosts: {advice}")  # 6
    query = f"?{parts.query}" if parts.query else ""
    return ImageAddress(parts.scheme, host, port, quote((parts.path or "/") + query, safe=_AS_IS))


def refused(host: str, why: str) -> ClientError:
    """`host`: empty if there is none to name."""
    where = f"the image at '{host[:100]}'" if host else "an image"
    return ClientError(f"{where} is not fetched: {why}", code="image_url_refused")


def unavailable(host: str, why: str) -> ClientError:
    return ClientError(f"the image at '{host[:100]}' could not be fetched: {why}", code="image_unavailable")


def _host(text: str) -> str:
    """Raises ValueError: no host."""
    if ":" in text:
        return str(ip_address(text))
    host = text.removesuffix(".")
    if not host.isascii():
        host = host.encode("idna").decode().lower()
    if _NAME.fullmatch(host) is None:
        raise ValueError
    return host
