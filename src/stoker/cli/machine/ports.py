"""Whether a port is free, and which program uses it."""

from __future__ import annotations

import errno
import socket

from stoker.system import ports

_LOOKED_AT = 100


def is_free(host: str, port: int) -> bool:
    """Whether we could listen there. Raises OSError for an address that is not this machine's or not allowed."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def another_port(host: str, port: int) -> int:
    """The next port after `port` that is free now, of a hundred; the next one if none is."""
    following = [(port + step) % 65535 + 1 for step in range(_LOOKED_AT)]
    return next((one for one in following if _is_certainly_free(host, one)), following[0])


def _is_certainly_free(host: str, port: int) -> bool:
    try:
        return is_free(host, port)
    except OSError:  # one that this user may not use
        return False


def free_port(host: str = "127.0.0.1") -> int:
    """A port that is free now. It is not reserved."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
    return port


def holder(port: int) -> str:
    """`nginx (pid 812)`, or `another program` where this user may not see whose it is."""
    who = ports.holder(port)
    return f"{who[1]} (pid {who[0]})" if who is not None else "another program"
