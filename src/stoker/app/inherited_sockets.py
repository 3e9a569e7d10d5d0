"""Sockets that systemd opened for Stoker: socket activation, sd_listen_fds(3).

systemd keeps its copy while Stoker restarts, so that clients wait instead of being refused.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

from stoker.domain.access import ListenSettings
from stoker.domain.errors import StokerError
from stoker.domain.host_port import host_port

FIRST = 3
"""The first descriptor that is passed: SD_LISTEN_FDS_START."""
_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


def inherited_socket(door: ListenSettings, environment: MutableMapping[str, str]) -> socket.socket | None:
    """The listening TCP socket that this process was started with. None: it was started without one.

    The variables are removed from `environment`, and the descriptor is not inherited by engines. Raises StokerError
    `socket_activation` for sockets that are not the front door's.
    """
    pid, count, _ = (environment.pop(name, "") for name in _VARIABLES)
    if pid != str(os.getpid()) or not count.isdigit() or count == "0":
        return None
    if count != "1":
        text = f"systemd passes {count} sockets: let stoker.socket have exactly one ListenStream"
        raise StokerError(text, code="socket_activation")
    os.set_inheritable(FIRST, False)
    try:
        found = socket.socket(fileno=FIRST)
        is_listening = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    except OSError as error:
        raise StokerError(f"descriptor {FIRST} is no socket ({error.strerror})", code="socket_activation") from error
    if found.family not in (socket.AF_INET, socket.AF_INET6) or not is_listening:
        raise StokerError("systemd passes no listening TCP socket: see stoker.socket", code="socket_activation")
    host, port = found.getsockname()[:2]
    if port != door.port:
        text = (
            f"systemd's socket listens on {host_port(host, port)}, the configuration says port {door.port}: "
            "type `stoker install systemd` again, or correct ListenStream in stoker.socket"
        )
        raise StokerError(text, code="socket_activation")
    found.setblocking(False)
    return found
