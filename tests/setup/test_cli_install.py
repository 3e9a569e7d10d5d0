"""`stoker install systemd`: what it writes under another root, what it refuses, what it says."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.cli.main import run
from stoker.store.active_residents import ActiveResidents
from stoker_setup import service_install as install
from stoker_setup.service_install import Changes

Captured = pytest.CaptureFixture[str]
ME = pwd.getpwuid(os.geteuid()).pw_name
UNITS = "etc/systemd/system"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No command is run, and nobody typed `sudo`."""
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr(install, "command", lambda argv: pytest.fail(f"{argv} was run"))


@pytest.fixture
def root(home: Path) -> Path:
    return home / "root"


def put(root: Path, *options: str) -> int:
    return run(["install", "systemd", "--root", str(root), *options])


def text(root: Path, name: str) -> str:
    return (root / UNITS / name).read_text()


def test_units_are_written_and_the_next_command_is_told(config: Path, root: Path, capsys: Captured) -> None:
    assert put(root) == 0
    out = capsys.readouterr().out
    assert f"wrote   {root}/{UNITS}/stoker.service\n" in out
    assert out.endswith(f"next: systemctl --root={root} enable stoker.socket stoker.service\n")
    assert f"up --config {config.resolve()} --leave-running --resume\n" in text(root, "stoker.service")
    assert f"User={ME}\n" in text(root, "stoker.service")
    assert put(root) == 0
    assert "every unit is up to date" in capsys.readouterr().out
    assert put(root, "--remove") == 0
    assert "removed" in capsys.readouterr().out
    assert list((root / UNITS).iterdir()) == []
    assert put(root, "--remove") == 0
    assert "nothing to remove" in capsys.readouterr().out


def test_a_dry_run_prints_every_file_and_command_and_writes_nothing(config: Path, root: Path, capsys: Captured) -> None:
    assert put(root, "--dry-run", "--profile", "fast") == 0
    out = capsys.readouterr().out
    assert f"would write  {root}/{UNITS}/stoker.service\n" in out
    assert "    KillMode=process\n" in out
    assert "fast would run in slot gpu0 after the next start" in out
    assert not root.exists()
    assert run(["install", "systemd", "--run-as", ME, "--start", "--dry-run"]) == 0
    assert "would run systemctl enable stoker.socket stoker.service\n" in capsys.readouterr().out


def test_programs_get_one_document(config: Path, root: Path, capsys: Captured) -> None:
    assert put(root, "--json") == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["done"] is True
    assert document["files"][f"{root}/{UNITS}/stoker.service"] == text(root, "stoker.service")
    assert document["next"] == [["systemctl", f"--root={root}", "enable", "stoker.socket", "stoker.service"]]


def test_profile_is_what_runs_after_the_next_start(config: Path, root: Path, capsys: Captured) -> None:
    assert put(root, "--profile", "slow") == 0
    path = root / str(config.resolve().parent / "state").lstrip("/") / "active.json"
    assert ActiveResidents(path).read() == {"gpu0": "slow"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "slow will run in slot gpu0 after the next start" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--profile", "slwo"), 2, "did you mean 'slow'"),
        (("--profile", "odd"), 2, "'odd' is rejected: wrong answers"),
        (("--start",), 2, "leave out --start"),
        (("--remove", "--profile", "fast"), 2, "leave out --profile"),
        (("--user", "--run-as", "root"), 2, "leave out --run-as"),
        (("--run-as", "no-such-user"), 2, "useradd --system --create-home no-such-user"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_written(
    config: Path, root: Path, capsys: Captured, options: tuple[str, ...], code: int, said: str
) -> None:
    assert put(root, *options) == code
    assert said in capsys.readouterr().err
    assert not root.exists()


def test_a_serve_without_a_slot_is_no_profile(config: Path, root: Path, capsys: Captured) -> None:
    config.write_text(config.read_text() + '\n[[serve]]\nname = "alone"\nmodel = "fast.gguf"\n')
    assert put(root, "--profile", "alone") == 2
    assert "keep_loaded = true" in capsys.readouterr().err


def test_a_serve_that_is_a_unit_gets_one_and_what_it_lacks_is_told(
    config: Path, root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    server = home / "bin" / "llama-server"
    server.parent.mkdir()
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    monkeypatch.setenv("PATH", f"{server.parent}:{os.environ['PATH']}")
    more = '\n[[serve]]\nname = "unit"\nmodel = "unit.gguf"\ndriver = "systemd"\nport = 8109\nembedded = false\n'
    config.write_text(config.read_text() + more)
    assert put(root) == 1
    assert "the weights of serve 'unit': " in capsys.readouterr().err
    assert not root.exists()
    shutil.copyfile(config.parent / "fast.gguf", config.parent / "unit.gguf")
    assert put(root) == 0
    assert f"ExecStart={server} -m {config.resolve().parent}/unit.gguf " in text(root, "stoker-serve-unit.service")


def test_a_secret_of_the_shell_has_to_be_in_a_file_that_nobody_else_reads(
    config: Path, root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = 'keys = [{ name = "me", value = "env:STOKER_TEST_KEY", scope = "admin" }]\n'
    config.write_text(config.read_text().replace("[front_door]\n", f"[front_door]\n{key}"))
    monkeypatch.setenv("STOKER_TEST_KEY", "hunter2hunter2hunter2")
    assert put(root) == 1
    err = capsys.readouterr().err
    path = config.resolve().with_name("stoker.env")
    assert f"write `STOKER_TEST_KEY=...` into {path}" in err
    assert f"install -m 600 /dev/null {path}" in err
    monkeypatch.delenv("STOKER_TEST_KEY")
    path.write_text("STOKER_TEST_KEY='hunter2hunter2hunter2'\n")
    path.chmod(0o644)
    assert put(root) == 1
    assert f"chmod 600 {path}" in capsys.readouterr().err
    path.chmod(0o600)
    assert put(root) == 0
    assert f"EnvironmentFile=-{path}\n" in text(root, "stoker.service")
    written = "".join(p.read_text() for p in root.rglob("*") if p.is_file())
    assert "hunter2" not in written + "".join(capsys.readouterr())


def test_units_of_a_user_go_into_the_users_home(
    config: Path, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert put(root, "--user") == 0
    where = root / pwd.getpwuid(os.geteuid()).pw_dir.lstrip("/") / ".config/systemd/user"
    assert "User=" not in (where / "stoker.service").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can install for somebody else")
def test_installed_by_root_the_state_belongs_to_the_services_user(
    config: Path, root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = next(one for one in pwd.getpwall() if one.pw_uid != 0)
    root.mkdir()
    config.write_text(config.read_text().replace('state = "state"', 'state = "/state"'))
    for place in (root, root.parent):
        place.chmod(0o777)
    monkeypatch.setenv("SUDO_USER", other.pw_name)
    assert put(root, "--profile", "fast") == 0
    assert f"User={other.pw_name}\n" in text(root, "stoker.service")
    found = root / "state" / "active.json"
    assert (found.stat().st_uid, found.parent.stat().st_uid) == (other.pw_uid, other.pw_uid)
    assert os.geteuid() == 0
    assert (root / UNITS / "stoker.service").stat().st_uid == 0


def test_when_the_installation_fails_the_profile_is_not_changed(
    config: Path, root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert put(root, "--profile", "slow") == 0

    def fail(changes: Changes, run: object) -> None:
        raise install.InstallRefused("no", code="cannot_install")

    monkeypatch.setattr(install, "carry_out", fail)
    assert put(root, "--profile", "fast") == 1
    path = root / str(config.resolve().parent / "state").lstrip("/") / "active.json"
    assert ActiveResidents(path).read() == {"gpu0": "slow"}


def test_a_program_that_is_nowhere_is_told(
    config: Path, root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    assert put(root) == 1
    assert "there is no `stoker` beside /nowhere/python" in capsys.readouterr().err


def test_route_sync_gets_a_timer_of_its_own(config: Path, root: Path, capsys: Captured) -> None:
    assert put(root, "--route-sync") == 2
    assert "--route-sync needs an edge with an ingress" in capsys.readouterr().err
    edge = '[edge.gpu]\nstatic = "10.0.0.7"\nport = 8000\nmodel = "qwen"\ningress = "nginx"\n'
    edge += 'upstream_file = "up.conf"\nroutes = ["https://llm.example/v1/*"]\n'
    config.write_text(f"{config.read_text()}\n{edge}")
    assert put(root, "--route-sync") == 0
    assert capsys.readouterr().out.endswith(f"next: systemctl --root={root} enable stoker-route-sync.timer\n")
    service = text(root, "stoker-route-sync.service")
    assert f"route-sync --quiet --config {config.resolve()}\n" in service
    assert "User=" not in service
    assert "OnUnitInactiveSec=30s\n" in text(root, "stoker-route-sync.timer")
    assert not (root / UNITS / "stoker.service").exists()
    assert put(root) == 0
    assert (root / UNITS / "stoker-route-sync.timer").exists()
    assert put(root, "--remove") == 0
    assert list((root / UNITS).iterdir()) == []


def test_route_sync_and_a_profile_are_two_commands(config: Path, root: Path, capsys: Captured) -> None:
    assert put(root, "--route-sync", "--profile", "fast") == 2
    assert "--route-sync installs units of its own" in capsys.readouterr().err
