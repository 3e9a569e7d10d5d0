"""What a serve requires is looked at before anything is touched."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.host_port import reachable
from stoker.domain.serve import Driver, Requires, Secret, Serve, Status, Tuning
from stoker.fleet.process.environment import free_port, port_problem
from stoker.fleet.process.identity import KeySigner, fingerprint
from stoker.fleet.supervision import start_problems
from stoker.fleet.supervision.start_problems import problems
from stoker.system import ports


def serve(directory: Path, **fields: Any) -> Serve:
    return Serve(name="a", engine="openai", directory=str(directory), cmd=(sys.executable, "{port}"), **fields)


def test_files_commands_and_packages_that_are_not_there_are_all_named(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    wanted = Requires(
        files=("there", "nothere"),
        commands=("sh", "no-such-command"),
        packages={"psutil": ">=999", "no-such-package": ""},
    )
    found = problems(serve(tmp_path, requires=wanted), (), ())
    assert len(found) == 4
    for part, sentence in zip(
        (f"{tmp_path}/nothere", "`no-such-command`", "psutil>=999, but ", "no-such-package"), found, strict=True
    ):
        assert part in sentence


@pytest.mark.parametrize("with_packaging", [True, False])
@pytest.mark.parametrize(
    ("version", "wanted", "is_met"),
    [
        ("0.8.3", ">=0.8,<0.9", True),
        ("0.9", ">=0.8,<0.9", False),
        ("1.2", "==1.2.0", True),
        ("1.2", "!=1.2", False),
        ("1.10", ">1.9", True),
        ("2.4.1", "~=2.4", True),
        ("3.0", "~=2.4", False),
        ("1", "", True),
        ("1", "nonsense", False),
    ],
)
def test_version_specifiers(
    monkeypatch: pytest.MonkeyPatch, version: str, wanted: str, is_met: bool, with_packaging: bool
) -> None:
    if not with_packaging:
        monkeypatch.setitem(sys.modules, "packaging.specifiers", None)
    assert start_problems.meets_specifier(version, wanted) is is_met


def test_a_conflict_that_runs_is_named_with_its_pid(tmp_path: Path) -> None:
    me = psutil.Process(os.getppid())
    [problem] = problems(serve(tmp_path, conflicts=(f"{me.name()}.service", "no-such-thing")), (), ())[:1]
    assert "cannot run beside serve 'a'" in problem
    assert problems(serve(tmp_path, conflicts=("no-such-thing",)), (), ()) == []
    named = serve(tmp_path, conflicts=(me.name(),))
    assert not any(f"process {me.pid} " in problem for problem in problems(named, (), {me.pid}))


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "does not exist: create it" in problems(serve(tmp_path / "gone"), (), ())[0]


def test_an_external_serve_is_not_looked_at_beyond_its_url(tmp_path: Path) -> None:
    assert problems(Serve(name="a", driver=Driver.EXTERNAL, base_url="http://x/v1"), (), ()) == []
    assert "base_url" in problems(Serve(name="a", driver=Driver.EXTERNAL, base_url="nowhere"), (), ())[0]


def test_a_port_of_an_address_that_is_not_ours_is_a_problem() -> None:
    assert "not an address of this machine" in (port_problem("192.0.2.1", 8000) or "")
    port = free_port("127.0.0.1", ())
    assert port_problem("127.0.0.1", port) is None
    assert reachable("0.0.0.0") == "127.0.0.1"
    assert reachable("10.0.0.1") == "10.0.0.1"


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-machine.invalid"])
def test_a_command_may_start_its_server_on_another_machine(tmp_path: Path, host: str) -> None:
    assert problems(serve(tmp_path, host=host, port=8000), (), ()) == [], (
        "a container network, or ssh: the start finds out"
    )
    assert port_problem(host, 8000) is not None


def test_a_picked_port_is_none_that_the_kernel_gives_to_connections() -> None:
    lowest = ports.first_ephemeral()
    assert all(free_port("127.0.0.1", ()) < lowest for _ in range(20))


def test_a_fingerprint_does_not_change_with_a_key_that_a_later_version_adds(tmp_path: Path) -> None:
    """A tuned serve is not restarted by an upgrade of Stoker that knows one more key of `Tuning`."""
    asked: list[str] = []

    class Signer(KeySigner):
        def digest(self, *parts: str) -> str:
            asked.extend(parts)
            return ""

    fingerprint(serve(tmp_path, tuning=Tuning(batched_tokens=64)), Signer(lambda: bytes(32)))
    assert json.loads(asked[1])["tuning"] == {"batched_tokens": 64}


def test_a_fingerprint_changes_exactly_with_what_concerns_the_launch(tmp_path: Path) -> None:
    signer = KeySigner(lambda: bytes(32))
    one = serve(tmp_path, env={"A": "1", "B": "2"}, key=Secret("k", "env:K"), requires=Requires(files=("x",)))
    assert fingerprint(one, signer) == fingerprint(one, KeySigner(lambda: bytes(32)))
    fields: dict[str, Any] = {
        "env": {"B": "2", "A": "1"},
        "key": Secret("k", "env:L"),
        "requires": Requires(files=("x",)),
    }
    for change, is_same in (
        ({}, True),
        ({"max_active": 9, "status": Status.BLOCKED, "stop_grace": 1.0}, True),
        ({"context": 5}, False),
        ({"env": {"A": "1"}}, False),
        ({"key": Secret("z", "env:K")}, False),
        ({"dialects": frozenset({Dialect.CHAT})}, False),
    ):
        other = serve(tmp_path, **{**fields, **change})
        assert (fingerprint(other, signer) == fingerprint(one, signer)) is is_same, change
        assert one.launches_like(other) is is_same, change
