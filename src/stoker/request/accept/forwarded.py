"""What a trusted proxy says about the request that it passes on: the client's address, scheme, host, prefix.

The headers are believed only from peers in `front_door.trusted_proxies`; from others they change nothing. Of several
values the last one counts, which the nearest proxy added: the ones before it may be the client's inventions.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from stoker.request.accept.connection import Forwarded, HttpExchange
from stoker.request.accept.routes import BEHIND_PROXIES, TREES_BEHIND_PROXIES

EVERYBODY = "*"
MAX_REMEMBERED = 1024
"""Peers of which is remembered whether they are trusted."""
_PREFIX = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+){1,16}", re.ASCII)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """Reads the headers of the proxies in `networks` (addresses, networks, or `*`)."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._trusts_everybody = False
        self._networks = []
        for text in networks:
            if text == EVERYBODY:
                self._trusts_everybody = True
            else:
                self._networks.append(ipaddress.ip_network(text))
        self._remembered: dict[str, bool] = {}

    def apply(self, exchange: HttpExchange) -> None:
        """Make the request what the proxy says it is; unchanged if it did not come from a trusted proxy."""
        peer = exchange.address
        if self._trusts(peer):
            exchange.apply_forwarded(self.read(peer, exchange.path, exchange.raw_headers))

    def read(self, peer: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> Forwarded:
        """What the headers say, which `peer`, a trusted proxy, passed on."""
        hops: list[str] = []
        last: dict[bytes, bytes] = {}
        for name, value in headers:
            if name == b"x-forwarded-for":
                hops += value.decode("latin-1").split(",")
            elif name.startswith(b"x-forwarded-"):
                last[name] = value.rpartition(b",")[2].strip()
        scheme = last.get(b"x-forwarded-proto", b"").lower()
        return Forwarded(
            self._client(peer, hops),
            scheme.decode() if scheme in (b"http", b"https") else "",
            last.get(b"x-forwarded-host", b""),
            _without_prefix(path, last.get(b"x-forwarded-prefix", b"").decode("latin-1")),
        )

    def _client(self, peer: str, hops: list[str]) -> str:
        """The nearest address that is no proxy of ours; what is left of it could be invented."""
        client = peer
        for hop in reversed(hops):
            address = _parsed(_without_port(hop.strip()))
            if address is None:
                break  # "unknown", or nonsense: the proxy that said so is as far as we know
            client = str(address)
            if self._trusts_everybody or not self._trusts(client):
                break
        return client

    def _trusts(self, peer: str) -> bool:
        found = self._remembered.get(peer)
        if found is None:
            address = _parsed(peer)
            found = address is not None and (
                self._trusts_everybody or any(address in network for network in self._networks)
            )
            if len(self._remembered) < MAX_REMEMBERED:
                self._remembered[peer] = found
        return found


def _without_prefix(path: str, prefix: str) -> str:
    """Only from paths of the API, the page and what only reads. Below a prefix that a client invented, the proxy's own
    rule for `/admin` would not be found; `front_door.prefixes`, which nobody can invent, are taken from every path.
    """
    prefix = prefix.rstrip("/")
    if not _PREFIX.fullmatch(prefix) or not path.startswith(prefix + "/"):
        return ""
    rest = path[len(prefix) :]
    return rest if rest in BEHIND_PROXIES or rest.startswith(TREES_BEHIND_PROXIES) else ""


def _without_port(hop: str) -> str:
    """`192.0.2.1:4711` and `[2001:db8::1]:4711` too."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _parsed(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, ipaddress.IPv6Address) else found
