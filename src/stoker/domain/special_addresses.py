"""Which network addresses belong to the public internet: all but those of this table. Pure.

The tables are our own, and the same with every Python: `ipaddress.is_global` follows the registries of its version, and
knows nothing of clouds.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

IPV4: Final = {
    "0.0.0.0/8": "this network",
    "10.0.0.0/8": "private use",
    "100.64.0.0/10": "shared address space of providers; Alibaba Cloud's metadata (100.100.100.200)",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local; the metadata of most clouds (169.254.169.254, 169.254.170.2, 169.254.42.42)",
    "172.16.0.0/12": "private use",
    "192.0.0.0/24": "IETF protocol assignments; Oracle Cloud's metadata (192.0.0.192)",
    "192.0.2.0/24": "documentation",
    "192.31.196.0/24": "AS112",
    "192.52.193.0/24": "AMT",
    "192.88.99.0/24": "6to4 relays, deprecated",
    "192.168.0.0/16": "private use",
    "192.175.48.0/24": "AS112, direct delegation",
    "198.18.0.0/15": "benchmarks",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "240.0.0.0/4": "reserved; limited broadcast",
    # not in that registry
    "224.0.0.0/4": "multicast (RFC 5771)",
    "168.63.129.16/32": "Azure's virtual public address: agent, DNS, health",
}
"""IANA IPv4 Special-Purpose Address Registry (RFC 6890), entries up to 2025, and what else leads inside a cloud.
https://www.iana.org/assignments/iana-ipv4-special-registry
"""
IPV6: Final = {
    "2001::/23": "IETF protocol assignments: Teredo, benchmarks, AMT, AS112, ORCHID, DRIP",
    "2001:db8::/32": "documentation",
    "2620:4f:8000::/48": "AS112, direct delegation",
    "3fff::/20": "documentation",
    # not in that registry
    "3ffe::/16": "6bone, returned (RFC 3701)",
}
"""Special addresses among PUBLIC_IPV6. IANA IPv6 Special-Purpose Address Registry (RFC 6890), entries up
to 2025 (RFC 9780).
https://www.iana.org/assignments/iana-ipv6-special-registry

Outside PUBLIC_IPV6, and so never public: `::`, `::1`, IPv4-compatible `::/96`, `64:ff9b:1::/48`, `100::/64`,
`100:0:0:1::/64`, `5f00::/16`, `fc00::/7` (the metadata of AWS, Google Cloud and Scaleway: `fd00:ec2::254`,
`fd20:ce::254`, `fd00:42::42`), `fe80::/10`, `fec0::/10`, `ff00::/8`.
"""
PUBLIC_IPV6: Final = IPv6Network("2000::/3")
"""All that is assigned for the public internet (IANA IPv6 Address Space)."""
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_6TO4: Final = IPv6Network("2002::/16")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
_IPV4: Final = tuple(map(IPv4Network, IPV4))
_IPV6: Final = tuple(map(IPv6Network, IPV6))


def is_public(address: str) -> bool:
    """Whether a network address belongs to the public internet.

    1. no address, or one with a zone                                            -> no
    2. IPv4: whether it is in no network of IPV4
    3. IPv6 that only stands for an IPv4 address (mapped, NAT64, 6to4)           -> as that one
    4. IPv6 with an IPv4 address in its last half (ISATAP, RFC 5214)             -> no, if that one is not public
    5. IPv6: whether it is in PUBLIC_IPV6, and in no network of IPV6; so Teredo, whose addresses have two of IPv4 in
       them, is not
    """
    try:
        found = ip_address(address)
    except ValueError:
        return False  # 1
    if isinstance(found, IPv4Address):
        return _is_in_none(found, _IPV4)  # 2
    if found.scope_id is not None:
        return False  # 1
    number = int(found)
    if found in _MAPPED or found in _NAT64:
        return _is_in_none(IPv4Address(number % 2**32), _IPV4)  # 3
    if found in _6TO4:
        return _is_in_none(IPv4Address(number >> 80 & 0xFFFFFFFF), _IPV4)  # 3
    if number >> 32 & 0xFFFFFFFF in _ISATAP and not _is_in_none(IPv4Address(number % 2**32), _IPV4):
        return False  # 4
    return found in PUBLIC_IPV6 and _is_in_none(found, _IPV6)  # 5


def _is_in_none(address: IPv4Address | IPv6Address, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    return not any(address in network for network in networks)
