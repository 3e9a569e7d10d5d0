"""Gets what an address on the public internet holds, for images that requests name and for pages that a model reads.
By these rules:

1. the address is http(s) without a user, on a known port, of an allowed host: `parse_public_address`
2. the host's name is resolved once; all its addresses must be public; the connection goes to one of them
3. TLS is verified against the host's name
4. no header of a client is sent, no cookie, no key, and no compressed reply is requested
5. a redirect is checked like a new address, from rule 1 on; three at most
6. at most `max_bytes`, counted as they come

What breaks rule 1 or 2 is refused, before anything was sent there; the other rules fail.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from stoker.domain.host_port import host_port
from stoker.domain.special_addresses import is_public
from stoker.http.response import ResponseReader
from stoker.http.tls_contexts import tls_contexts

PORTS = {80, 443, 8080, 8443}
LONGEST = 8192
"""Characters of an address."""
REDIRECTS = 3
_MOVED = (301, 302, 303, 307, 308)
_USUAL = {"http": 80, "https": 443}
_BLANK = re.compile(r"[\x00-\x20\x7f]")
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.ASCII)
_AS_IS = "/%:@!$&'()*+,;=~?"


class FetchRefused(Exception):
    """The address may not be asked. `host`: empty if there is none to name; the rest of an address may hold a secret.
    `is_unlisted`: the host is not among those allowed.
    """

    def __init__(self, host: str, why: str, is_unlisted: bool = False) -> None:
        super().__init__(why)
        self.host = host
        self.why = why
        self.is_unlisted = is_unlisted


class FetchFailed(Exception):
    """Nothing of use came."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__(why)
        self.host = host
        self.why = why


class PublicAddress(NamedTuple):
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


def parse_public_address(url: str, hosts: Sequence[str], origin: PublicAddress | None = None) -> PublicAddress:
    """Parse a URL. `hosts`: those allowed; empty: all. `origin`: what the URL may be relative to.

    Raises FetchRefused, which names the host alone:

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
        raise FetchRefused("", "its URL is not valid") from None  # 1, 4
    if parts.scheme not in _USUAL:
        raise FetchRefused(host, "its URL is neither http nor https")  # 2
    if "@" in parts.netloc:
        raise FetchRefused(host, "its URL contains a user or a password")  # 3
    if port not in PORTS:
        raise FetchRefused(host, f"port {port} is not one of {', '.join(map(str, sorted(PORTS)))}")  # 5
    if hosts and not any(host == known or (known[:2] == "*." and host.endswith(known[1:])) for known in hosts):
        raise FetchRefused(host, "the host is not among those allowed", is_unlisted=True)  # 6
    query = f"?{parts.query}" if parts.query else ""
    return PublicAddress(parts.scheme, host, port, quote((parts.path or "/") + query, safe=_AS_IS))


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


Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Host and port to network addresses. Raises OSError."""


async def resolve(host: str, port: int) -> list[str]:
    """Ask the system's resolver. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class FetchRules(NamedTuple):
    """What one fetch may do."""

    hosts: Sequence[str]
    """Those allowed: names, and `*.NAME` for subdomains; empty: all."""
    max_bytes: int
    accept: str
    """The Accept header."""
    check: Callable[[PublicAddress], None] | None = None
    """Another rule for each address, redirects included. Raises FetchRefused."""


class PublicFetcher:
    """Fetches from the public internet, and from nowhere else."""

    def __init__(
        self,
        resolve: Resolve = resolve,
        is_allowed_address: Callable[[str], bool] = is_public,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._resolve = resolve
        self._is_allowed_address = is_allowed_address
        self._tls = tls

    async def get(self, url: str, rules: FetchRules) -> tuple[PublicAddress, ResponseReader]:
        """The answer, and the address that gave it. Its status is anything but a redirect; only of a 200 the body is
        read. Raises FetchRefused, FetchFailed. The caller bounds the time; on cancel no connection stays open.
        """
        at = parse_public_address(url, rules.hosts)  # 1
        for _ in range(1 + REDIRECTS):
            if rules.check is not None:
                rules.check(at)
            answer = await self._answer(at, rules)
            if answer.status not in _MOVED or not answer.location:
                return at, answer
            at = parse_public_address(answer.location, rules.hosts, at)  # 5
        raise FetchFailed(at.host, f"it redirects more than {REDIRECTS} times")  # 5

    async def check(self, url: str, rules: FetchRules) -> None:
        """That the rules allow the address, and all of its host are public. Nothing is sent to it. Raises FetchRefused,
        FetchFailed.
        """
        at = parse_public_address(url, rules.hosts)
        if rules.check is not None:
            rules.check(at)
        await self._addresses(at)

    async def _answer(self, at: PublicAddress, rules: FetchRules) -> ResponseReader:
        reader, writer = await self._connect(at)
        answer = ResponseReader()
        try:
            writer.write(_request(at, rules.accept))
            await answer.read(reader, rules.max_bytes, only_success=True)
        except OSError:
            raise FetchFailed(at.host, "the connection broke") from None
        except ValueError as error:
            raise FetchFailed(at.host, str(error)) from None
        finally:
            writer.transport.abort()
        return answer

    async def _connect(self, at: PublicAddress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to an address that was checked: resolving the name again could give another one."""
        reason = "its name has no address"
        for address in await self._addresses(at):
            try:
                if at.scheme == "https":
                    tls = self._tls or await tls_contexts.get()
                    return await asyncio.open_connection(address, at.port, ssl=tls, server_hostname=at.host)
                return await asyncio.open_connection(address, at.port)
            except ssl.SSLError:
                reason = "no valid TLS connection to it could be made"  # 3
            except OSError:
                reason = "it cannot be reached"
        raise FetchFailed(at.host, reason)

    async def _addresses(self, at: PublicAddress) -> list[str]:
        try:
            found = await self._resolve(at.host, at.port)
        except (OSError, UnicodeError):
            raise FetchFailed(at.host, "its name cannot be resolved") from None
        if not all(map(self._is_allowed_address, found)):
            raise FetchRefused(at.host, "it is not a host on the public internet")  # 2
        return found


def _request(at: PublicAddress, accept: str) -> bytes:
    return (
        f"GET {at.path} HTTP/1.1\r\nhost: {at.authority()}\r\nuser-agent: stoker\r\naccept: {accept}\r\n"
        "accept-encoding: identity\r\nconnection: close\r\n\r\n"
    ).encode()  # 4
