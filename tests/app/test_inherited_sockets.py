"""Sockets that systemd passes: read in a process of its own, as descriptor 3 and the process id are given."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

READER = """
import json, os, subprocess, sys
from stoker.app.inherited_sockets import inherited_socket
from stoker.domain.access import ListenSettings
from stoker.domain.errors import StokerError

environment = dict(json.loads(sys.argv[2]))
if environment.get("LISTEN_PID") == "own":
    environment["LISTEN_PID"] = str(os.getpid())
try:
    found = inherited_socket(ListenSettings(port=int(sys.argv[1])), environment)
    answer = None if found is None else found.getsockname()[1]
except StokerError as error:
    answer = str(error)
inherits = not isinstance(answer, str) and os.get_inheritable(3)
print(json.dumps([answer, sorted(environment), inherits]))
"""
ACTIVATED = {"LISTEN_PID": "own", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "stoker.socket"}


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def read(given: socket.socket, environment: dict[str, str], port: int | None = None) -> tuple[object, list[str], bool]:
    """What a process makes of it: the port or the error, the variables that are left, whether children inherit it."""
    port = given.getsockname()[1] if port is None else port
    done = subprocess.run(
        [sys.executable, "-c", READER, str(port), json.dumps(environment)],
        preexec_fn=lambda: os.dup2(given.fileno(), 3),
        pass_fds=(3,), capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    answer, left, inherits = json.loads(done.stdout)
    return answer, left, inherits


def test_the_socket_is_taken_its_variables_are_removed_and_engines_do_not_inherit_it(listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    assert read(listening, {**ACTIVATED, "HOME": "/"}) == (port, ["HOME"], False)


@pytest.mark.parametrize("environment", [{}, {**ACTIVATED, "LISTEN_PID": "1"}, {**ACTIVATED, "LISTEN_FDS": "0"}])
def test_variables_for_another_process_are_ignored_and_removed(
    listening: socket.socket, environment: dict[str, str]
) -> None:
    assert read(listening, environment) == (None, [], True)


def test_a_socket_at_another_port_is_an_error_that_names_both(listening: socket.socket) -> None:
    answer, _, _ = read(listening, ACTIVATED, port=1)
    assert f":{listening.getsockname()[1]}, the configuration says port 1: type `stoker install systemd`" in str(answer)


def test_several_sockets_are_an_error(listening: socket.socket) -> None:
    answer, _, _ = read(listening, {**ACTIVATED, "LISTEN_FDS": "2"})
    assert "exactly one ListenStream" in str(answer)


def test_a_socket_that_does_not_listen_is_an_error() -> None:
    with socket.socket() as made:
        answer, _, _ = read(made, ACTIVATED, port=8000)
    assert "no listening TCP socket" in str(answer)
