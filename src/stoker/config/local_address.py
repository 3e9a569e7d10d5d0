"""Whether an address is on this machine or in a private network, judged by its form: no name is looked up."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

_LOCAL = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8", "127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10",
        "::/128", "::1/128", "fc00::/7", "fe80::/10",
    )
)  # fmt: skip
_LOCAL_ENDINGS = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


def is_local(url: str) -> bool:
    """Whether a URL leads to this machine or to a private network:

    1. an address: loopback, private (RFC 1918, RFC 4193), link-local or shared (RFC 6598), also as IPv4 in IPv6
    2. a name without a dot (`localhost`, `gpu-box`), or one that ends as names of local networks do (`.local`, ...)
    """
    try:
        host = (urlsplit(url).hostname or "").removesuffix(".")
    except ValueError:
        return False
    address = _address(host)
    if address is not None:  # 1
        return any(address in network for network in _LOCAL)
    return bool(host) and ("." not in host or host.endswith(_LOCAL_ENDINGS))  # 2


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Also in the short forms that resolvers take: `127.1`, `0x7f000001`."""
    try:
        found = ip_address(host)
    except ValueError:
        try:
            return IPv4Address(socket.inet_aton(host)) if host[:1].isdigit() else None
        except OSError:
            return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found
