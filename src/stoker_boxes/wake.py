"""Wakes a machine: the packet of wake-on-LAN, six bytes of FF and sixteen times the MAC address, by UDP."""

from __future__ import annotations

import socket
from ipaddress import ip_address


def magic_packet(mac: str) -> bytes:
    """`mac`: twelve hexadecimal digits, with separators or without."""
    return b"\xff" * 6 + bytes.fromhex(mac.replace(":", "").replace("-", "")) * 16


def send(mac: str, address: str, port: int) -> None:
    """Sends it once. Raises OSError: no network leads there. Does not block, and nothing answers."""
    family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sending:
        sending.setblocking(False)
        if family == socket.AF_INET:
            sending.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sending.sendto(magic_packet(mac), (address, port))
