"""An edge: a worker whose address may change, and the ingress whose public routes lead to it. As configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from stoker.domain.host_port import host_port
from stoker.domain.serve import Secret
from stoker.domain.special_addresses import is_public


class IngressKind(StrEnum):
    NGINX = "nginx"
    CADDY = "caddy"


class AddressKind(StrEnum):
    """What an address leads to, judged by its form alone."""

    PRIVATE = "private"
    """RFC 1918, RFC 4193, or shared by a carrier (RFC 6598)."""
    LOOPBACK = "loopback"
    PUBLIC = "public"
    UNUSABLE = "unusable"
    """Link-local (the metadata service of clouds is one), multicast, unspecified or reserved: no worker has it."""


_PRIVATE = tuple(
    ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)


def address_kind(text: str) -> AddressKind:
    """Raises ValueError if `text` is no IP address. An IPv4 address within IPv6 counts as what it is."""
    address: IPv4Address | IPv6Address = ip_address(text)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback:
        return AddressKind.LOOPBACK
    if any(address in network for network in _PRIVATE):
        return AddressKind.PRIVATE
    return AddressKind.PUBLIC if is_public(str(address)) else AddressKind.UNUSABLE


@dataclass(frozen=True, slots=True)
class WorkerAddress:
    """Where a worker answers: an IP address, never a name, so that what was checked is what is used."""

    host: str
    port: int

    def __str__(self) -> str:
        return host_port(self.host, self.port)


@dataclass(frozen=True, slots=True)
class StaticAddress:
    address: str


@dataclass(frozen=True, slots=True)
class DnsName:
    name: str


@dataclass(frozen=True, slots=True)
class DiscoveryCommand:
    """A program that prints the addresses, one a line. No shell."""

    argv: tuple[str, ...]
    directory: str = "."


@dataclass(frozen=True, slots=True)
class Ec2Instances:
    """Running instances with this id, or with all of these tags. Only private addresses are read."""

    region: str = ""
    """Empty: as the AWS environment says."""
    instance_id: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


Discovery = StaticAddress | DnsName | DiscoveryCommand | Ec2Instances


@dataclass(frozen=True, slots=True)
class EdgeWorker:
    """How the worker is found, and how it proves itself."""

    discovery: Discovery
    port: int
    model: str
    """The id that /v1/models has to show."""
    path: str = ""
    """The path before `/v1/...` on the worker; usually empty."""
    health: str = "/health"
    key: Secret | None = None
    allow_public: bool = False
    allow_loopback: bool = False


@dataclass(frozen=True, slots=True)
class EdgeIngress:
    """The reverse proxy in front. Paths are absolute."""

    kind: IngressKind
    config: str
    """Its main configuration file."""
    upstream_file: str
    """The file that route-sync writes. The main configuration includes it."""
    template: str = ""
    """Empty: the one that ships."""
    validate: tuple[str, ...] = ()
    """`{config}` stands for a copy of the main configuration that includes the candidate."""
    reload: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PublicRoutes:
    """The fixed URLs that clients use, and how route-sync verifies them."""

    urls: tuple[str, ...]
    """Up to, and without, `/v1`."""
    key: Secret | None = None
    connect_to: str = ""
    """The address that is connected to instead of looking up the host name; empty: look it up."""
    ca: str = ""
    """File with the certificates to trust; empty: those of this machine."""
    timeout: float = 15.0
    """Seconds within which all routes have to be verified after a reload."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One `[edge.NAME]`. Without an ingress it only finds the worker, for `base_url = "edge:NAME"`."""

    name: str
    worker: EdgeWorker
    ingress: EdgeIngress | None = None
    routes: PublicRoutes | None = None
