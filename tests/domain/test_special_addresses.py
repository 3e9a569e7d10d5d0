"""Which network addresses are public: a table, the same with every Python."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.special_addresses import IPV4, IPV6, is_public

PUBLIC = (
    "1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "168.63.129.15", "168.63.129.17",
    "172.32.0.1", "192.0.1.1", "198.20.0.1", "223.255.255.255", "2606:4700::1111", "2001:4860:4860::8888",
    "2001:200::1", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1", "2606:4700::5efe:808:808",
)  # fmt: skip
SPECIAL = (
    "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "0.0.0.0", "0.1.2.3",
    "100.64.0.1", "224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "198.19.255.255",
    "192.0.2.1", "198.51.100.7", "203.0.113.7", "192.88.99.1", "192.31.196.1", "192.52.193.1", "192.175.48.1",
    "192.0.0.1", "192.0.0.8", "192.0.0.9", "192.0.0.170", "192.0.0.255",
    "::1", "::", "fc00::1", "fd00::1", "fe80::1", "fe80::1%eth0", "2606:4700::1%eth0", "fec0::1", "ff0e::1", "ff02::1",
    "100::1", "100:0:0:1::1", "5f00::1", "3fff::1", "3ffe::1", "4000::1", "2001:db8::1", "2001:2::1", "2001:3::1",
    "2001:4:112::1", "2001:10::1", "2001:20::1", "2001:30::1", "2620:4f:8000::1", "64:ff9b:1::808:808",
    "", "localhost", "1.1.1", "0x7f.1", "2130706433", "1.1.1.1/32", " 1.1.1.1",
)  # fmt: skip
CLOUDS = (
    "169.254.169.254", "169.254.170.2", "169.254.42.42", "168.63.129.16", "192.0.0.192", "100.100.100.200",
    "fd00:ec2::254", "fd20:ce::254", "fd00:42::42",
)  # fmt: skip
GUISES = (
    "::ffff:{a}", "64:ff9b::{a}", "2002:{hex}::", "2002:{hex}::1", "2606:4700::5efe:{a}", "2606:4700::200:5efe:{a}",
    "::{a}", "::ffff:0:{a}", "64:ff9b:1::{a}", "2001:0:{hex}::", "2001:0:808:808:0:0:{inverted}",
)  # fmt: skip
"""Ways in which an IPv6 address can lead to one of IPv4."""


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", [*SPECIAL, *CLOUDS])
def test_addresses_that_lead_inside_or_nowhere(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("network", [*IPV4, *IPV6])
def test_a_network_of_the_table_is_special_from_its_first_address_to_its_last(network: str) -> None:
    found: IPv4Network | IPv6Network = IPv6Network(network) if ":" in network else IPv4Network(network)
    assert not is_public(str(found[0]))
    assert not is_public(str(found[-1]))


@pytest.mark.parametrize("guise", GUISES)
@pytest.mark.parametrize(
    "address",
    [a for a in (*SPECIAL, *CLOUDS) if a.count(".") == 3 and a[-1].isdigit() and "/" not in a and " " not in a],
)
def test_no_special_address_is_public_in_another_guise(address: str, guise: str) -> None:
    assert not is_public(in_guise(guise, address))


@given(st.ip_addresses(v=4), st.sampled_from(("::ffff:{a}", "64:ff9b::{a}", "2002:{hex}::1")))
def test_an_address_of_version_4_is_the_same_in_any_guise(address: object, guise: str) -> None:
    assert is_public(in_guise(guise, str(address))) == is_public(str(address))


def in_guise(guise: str, address: str) -> str:
    number = int(IPv4Address(address))
    flipped = number ^ 0xFFFFFFFF
    return guise.format(
        a=address, hex=f"{number >> 16:x}:{number & 0xFFFF:x}", inverted=f"{flipped >> 16:x}:{flipped & 0xFFFF:x}"
    )


def test_each_network_is_written_as_what_it_is() -> None:
    for network in IPV4:
        IPv4Network(network)
    for network in IPV6:
        IPv6Network(network)
