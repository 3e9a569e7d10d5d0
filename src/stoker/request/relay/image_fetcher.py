"""Downloads images that requests give by URL, if the operator allows it, by these rules:

1. `fetch` is on, and at most `max_images` different images are asked for
2. the address is http(s) without a user, on a known port, of an allowed host: `parse_image_address`
3. the host's name is resolved once; all its addresses must be public; the connection goes to one of them
4. TLS is verified against the host's name
5. no header of the client is sent, and no compressed reply is requested
6. a redirect is checked like a new URL, from rule 2 on; three at most
7. at most `max_bytes`, counted as they come, and `timeout` seconds in all
8. its first bytes are those of an image, whatever its Content-Type says

An image that breaks rules 1 to 3 is refused (400 `image_url_refused`); the other rules fail (400 `image_unavailable`).
Both messages name only the host: the rest of the URL may hold a secret.
"""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from stoker.domain.access import Media
from stoker.domain.errors import ClientError
from stoker.domain.host_port import host_port
from stoker.domain.special_addresses import is_public
from stoker.http.response import ResponseReader
from stoker.http.tls_contexts import tls_contexts
from stoker.request.translate.neutral.media import sniff

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


REDIRECTS = 3
_MOVED = (301, 302, 303, 307, 308)
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Host and port to network addresses. Raises OSError."""


async def resolve(host: str, port: int) -> list[str]:
    """Ask the system's resolver. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class ImageFetcher:
    """Fetches images. `policy` may be replaced; downloads under way keep the one that they began with."""

    def __init__(
        self,
        policy: Media,
        resolve: Resolve = resolve,
        is_allowed_address: Callable[[str], bool] = is_public,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.policy = policy
        self._resolve = resolve
        self._is_allowed_address = is_allowed_address
        self._tls = tls

    async def fetch_all(self, urls: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Media type and base64 data by URL, downloaded concurrently. Raises ClientError 400 for the first failure.
        Then, and on cancel, no connection stays open.
        """
        different = list(dict.fromkeys(urls))
        if len(different) > self.policy.max_images:
            limit = f"the limit is {self.policy.max_images} ([media] max_images): send the others as data: URLs"
            text = f"the request has {len(different)} image URLs; {limit}"
            raise ClientError(text, code="image_url_refused")  # 1
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.fetch(url)) for url in different]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return {url: task.result() for url, task in zip(different, tasks, strict=True)}

    async def fetch(self, url: str) -> tuple[str, str]:
        """Media type and base64 data of one image. Raises ClientError 400. On cancel no connection stays open."""
        policy = self.policy
        first = parse_image_address(url, policy.hosts)  # 2
        if not policy.fetch:
            advice = "send the image as a data: URL; the operator can allow it with `fetch = true` in [media]"
            raise refused(first.host, f"addresses of images are not fetched here: {advice}")  # 1
        try:
            async with asyncio.timeout(policy.timeout):
                return await self._follow(first, policy)
        except TimeoutError:
            raise unavailable(first.host, f"it did not arrive within {policy.timeout:g} s") from None  # 7

    async def _follow(self, at: ImageAddress, policy: Media) -> tuple[str, str]:
        for _ in range(1 + REDIRECTS):
            answer = await self._answer(at, policy)
            if answer.status not in _MOVED or not answer.location:
                return await asyncio.to_thread(_image, at, answer)  # it may be large
            at = parse_image_address(answer.location, policy.hosts, at)  # 6
        raise unavailable(at.host, f"it redirects more than {REDIRECTS} times")  # 6

    async def _answer(self, at: ImageAddress, policy: Media) -> ResponseReader:
        reader, writer = await self._connect(at)
        answer = ResponseReader()
        try:
            writer.write(_request(at))
            await answer.read(reader, policy.max_bytes, only_success=True)
            if answer.is_cut:
                raise ValueError(f"it is larger than {policy.max_bytes} bytes")
        except OSError:
            raise unavailable(at.host, "the connection broke") from None
        except ValueError as error:
            raise unavailable(at.host, str(error)) from None
        finally:
            writer.transport.abort()
        return answer

    async def _connect(self, at: ImageAddress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to an address that was checked: resolving the name again could give another one."""
        reason = "its name has no address"
        for address in await self._addresses(at):
            try:
                if at.scheme == "https":
                    tls = self._tls or await tls_contexts.get()
                    return await asyncio.open_connection(address, at.port, ssl=tls, server_hostname=at.host)
                return await asyncio.open_connection(address, at.port)
            except ssl.SSLError:
                reason = "no valid TLS connection to it could be made"  # 4
            except OSError:
                reason = "it cannot be reached"
        raise unavailable(at.host, reason)

    async def _addresses(self, at: ImageAddress) -> list[str]:
        try:
            found = await self._resolve(at.host, at.port)
        except (OSError, UnicodeError):
            raise unavailable(at.host, "its name cannot be resolved") from None
        if not all(map(self._is_allowed_address, found)):
            raise refused(at.host, "it is not a host on the public internet")  # 3
        return found


def _request(at: ImageAddress) -> bytes:
    return (
        f"GET {at.path} HTTP/1.1\r\nhost: {at.authority()}\r\nuser-agent: stoker\r\naccept: image/*\r\n"
        "accept-encoding: identity\r\nconnection: close\r\n\r\n"
    ).encode()  # 5


def _image(at: ImageAddress, answer: ResponseReader) -> tuple[str, str]:
    if answer.status != 200:
        raise unavailable(at.host, f"it answered HTTP {answer.status}")
    data = base64.b64encode(answer.body).decode()
    kind = sniff(data)
    if kind is None or not kind.startswith("image/"):
        raise unavailable(at.host, "it is not a PNG, JPEG, GIF, WebP or BMP image")  # 8
    return kind, data
