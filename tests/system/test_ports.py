"""Ports of this machine."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from stoker.system import ports


def test_tcps_own_probes_have_the_names_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
    for name in names:
        monkeypatch.delattr(socket, name, raising=False)
    assert ports.keep_alive() == ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),)
    monkeypatch.setattr(socket, "TCP_KEEPALIVE", 16, raising=False)
    assert (socket.IPPROTO_TCP, 16, 30) in ports.keep_alive(), "macOS"
    monkeypatch.setattr(socket, "TCP_KEEPIDLE", 4, raising=False)
    assert [option for _, option, _ in ports.keep_alive()[1:]] == [4], "Linux, which knows one of them"


def test_a_port_is_free_or_has_a_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert ports.bind_error("127.0.0.1", port) == errno.EADDRINUSE
        found = ports.holder(port)
        assert found is not None
        assert found[0] == os.getpid()
    assert ports.bind_error("127.0.0.1", port) is None
    assert ports.holder(port) is None
    assert (ports.bind_error("no-such-machine.invalid", port) or 0) < 0
