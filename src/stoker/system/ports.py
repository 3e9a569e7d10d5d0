"""TCP ports of this machine: whether one is free, who has it, and how connections are kept."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_USUAL_EPHEMERAL = 32_768
"""Where most systems give ports to outgoing connections, or below: macOS begins at 49152."""


def keep_alive() -> tuple[tuple[int, int, int], ...]:
    """Options of a socket for TCP's own probes, in seconds: they keep a connection open on which an answer is long in
    coming, and end one whose other side is gone. What a system does not know is left out.
    """
    wanted: Sequence[tuple[str, int]]
    wanted = (("TCP_KEEPIDLE", 30), ("TCP_KEEPALIVE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4))
    if hasattr(socket, "TCP_KEEPIDLE"):
        wanted = tuple(one for one in wanted if one[0] != "TCP_KEEPALIVE")  # macOS's name for it
    known = ((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in wanted if hasattr(socket, name))
    return ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *known)


KEEP_ALIVE: Final = keep_alive()


def bind_error(host: str, port: int) -> int | None:
    """Why nothing could listen there, as a number of `errno`, negative for a name that does not exist; None: the port
    is free.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As servers do: connections of the last start that linger in TIME_WAIT are no obstacle, a listener is.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        return error.errno or errno.EINVAL
    return None


def holder(port: int) -> tuple[int, str] | None:
    """Process and program that listen there; None: unknown. Without root macOS tells of nobody's, Linux of our own."""
    import psutil  # a megabyte, for a rare message

    try:
        for found in psutil.net_connections(kind="tcp"):
            if found.status == psutil.CONN_LISTEN and found.laddr and found.laddr.port == port and found.pid:
                return found.pid, psutil.Process(found.pid).name()
    except (psutil.Error, OSError):
        return None  # another user's process, or one that has ended
    return None


def first_ephemeral() -> int:
    """The lowest port that the kernel gives to outgoing connections."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return _USUAL_EPHEMERAL
