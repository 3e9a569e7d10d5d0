"""`stoker doctor`: each part is found well or not, and everything that is not comes with a fix and a command."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.cli.fake_stoker import FakeStoker

from stoker.cli.commands import doctor_checks
from stoker.cli.commands.doctor_checks import DoctorFinding, DoctorHealth
from stoker.cli.commands.read_again import ReadOptions
from stoker.cli.commands.self_check import self_check
from stoker.cli.machine import discover
from stoker.cli.machine.discover import InstalledEngine
from stoker.cli.main import run
from stoker.config.demo import demo
from stoker.domain.access import FrontDoor
from stoker.domain.key import Key
from stoker.domain.serve import Secret, Serve
from stoker.fleet.memory.probe import Machine

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an embedded llama.cpp, no GPU, and enough room."""
    monkeypatch.setattr(discover, "gpus", list)
    monkeypatch.setattr("stoker.fleet.memory.probe.machine", lambda: Machine(()))
    monkeypatch.setattr(discover, "engines", lambda: [InstalledEngine("llama.cpp, embedded", "a wheel")])
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=2**40))


@pytest.fixture
def plain(config: Path) -> Path:
    """The configuration without the serve whose command this machine does not have, and which has a secret."""
    config.write_text(config.read_text().split('[[serve]]\nname = "odd"')[0])
    return config


def findings(capsys: Captured) -> dict[str, DoctorFinding]:
    return {f["part"]: DoctorFinding(**f) for f in json.loads(capsys.readouterr().out)}


def test_a_machine_in_order(plain: Path, capsys: Captured) -> None:
    assert run(["doctor"]) == 0
    assert "no problems; next: stoker up" in capsys.readouterr().out
    assert run(["doctor", "--json"]) == 0
    found = findings(capsys)
    assert {f.health for f in found.values()} == {"ok"}
    assert {"python", "pidfd", "unix sockets", "uvloop", "configuration", "state directory", "port", "keys", "engines",
            "weights of fast", "weights of slow", "fit of fast", "fit of slow", "slots",
            "disk for the vault", "disk for logs", "docker", "shell completion", "accelerators",
            "stored responses"} == set(found)  # fmt: skip


def test_whether_responses_are_stored_is_said(plain: Path, capsys: Captured) -> None:
    run(["doctor", "--json"])
    said = findings(capsys)["stored responses"].detail
    assert "previous_response_id" in said
    assert "[responses] store = true" in said
    plain.write_text(plain.read_text() + '\n[responses]\nstore = true\nmax_bytes = "64MiB"\n')
    run(["doctor", "--json"])
    assert "64.0 MiB" in findings(capsys)["stored responses"].detail


def test_whatever_is_wrong_has_a_fix_and_a_next_command(plain: Path, port: int, capsys: Captured) -> None:
    (plain.parent / "fast.gguf").write_bytes(b"<html>")
    (plain.parent / "slow.gguf").unlink()
    (plain.parent / "state").chmod(0o777)
    plain.write_text(plain.read_text().replace("[slots.gpu0]", "[slots.gpu1]\n[slots.gpu0]\ndevices = [0]"))
    with socket.create_server(("127.0.0.1", port)):
        assert run(["doctor", "--json"]) == 1
    wrong = {part: f for part, f in findings(capsys).items() if f.health != "ok"}
    assert {part: str(f.health) for part, f in wrong.items()} == {
        "state directory": "fail",
        "port": "fail",
        "weights of fast": "fail",
        "weights of slow": "fail",
        "slots": "warn",
    }
    assert all(f.fix and f.next for f in wrong.values())
    assert "not a GGUF file" in wrong["weights of fast"].detail
    assert run(["doctor"]) == 1
    out = capsys.readouterr().out
    assert f"next: chmod 700 {plain.parent / 'state'}" in out


def test_a_broken_configuration_fails_with_every_problem_and_the_rest_is_still_checked(
    config: Path, capsys: Captured
) -> None:
    config.write_text("nonsense = 1\nfolly = 2\n")
    assert run(["doctor", "--json"]) == 1
    found = findings(capsys)
    assert "nonsense" in found["configuration"].detail
    assert "folly" in found["configuration"].detail
    assert found["engines"].health == "ok"


def test_no_configuration_is_a_warning_that_names_init(home: Path, capsys: Captured) -> None:
    assert run(["doctor", "--json"]) == 0
    assert findings(capsys)["configuration"].next == "stoker init"
    assert run(["doctor", "-c", "none.toml", "--json"]) == 1


def test_the_demo_needs_no_configuration(home: Path, port: int) -> None:
    found = self_check(ReadOptions(None), demo(home / "demo", port))
    assert found["problems"] == []
    assert [one["health"] for one in found["findings"] if one["part"] == "configuration"] == [DoctorHealth.OK]


def test_a_running_stoker_checks_itself_with_the_port_and_the_state_it_was_started_with(plain: Path) -> None:
    elsewhere = plain.parent / "elsewhere"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = ReadOptions(str(plain), taken.getsockname()[1], str(elsewhere))
        found = {one["part"]: one["detail"] for one in self_check(given)["findings"]}
    assert str(given.port) in found["port"]
    assert str(elsewhere) in found["state directory"]


def test_what_the_running_stoker_holds_is_ours(stoker: FakeStoker, config: Path, port: int, capsys: Captured) -> None:
    with socket.create_server(("127.0.0.1", port)):
        run(["doctor", "--json"])
    found = findings(capsys)
    assert "pid 4242" in found["port"].detail
    assert "pid 4242" in found["state directory"].detail
    assert found["port"].health == "ok"


def test_where_a_stoker_runs_none_has_to_be_started(
    stoker: FakeStoker, plain: Path, port: int, capsys: Captured
) -> None:
    with socket.create_server(("127.0.0.1", port)):
        assert run(["doctor"]) == 0
    assert "no problems; next: stoker serves status" in capsys.readouterr().out


def test_a_lock_without_an_answer_is_told(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o700)
    with (tmp_path / "s" / "lock").open("w") as lock:
        lock.write(f"{os.getpid()}\n/etc/stoker/stoker.toml\n")
        lock.flush()
        assert doctor_checks.state_directory(tmp_path / "s", None).health is DoctorHealth.OK
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = doctor_checks.state_directory(tmp_path / "s", None)
    assert found.health is DoctorHealth.WARN
    assert f"pid {os.getpid()}" in found.detail


def test_who_can_reach_the_port_needs_a_key() -> None:
    key = Key("me", Secret("marker-secret", "env:X"))
    everybody = doctor_checks.access(FrontDoor(host="0.0.0.0", auth=False, keys=(key,)))
    assert everybody.health is DoctorHealth.WARN
    assert doctor_checks.access(FrontDoor(host="0.0.0.0", keys=(key,))).health is DoctorHealth.OK
    assert "no key is needed" in doctor_checks.access(FrontDoor()).detail
    assert doctor_checks.access(FrontDoor(host="0.0.0.0", auth=True)).health is DoctorHealth.OK
    assert "marker-secret" not in repr(everybody)


def test_keys_that_were_made_while_stoker_runs_count() -> None:
    made = "a key that `stoker keys create` made"
    assert made in doctor_checks.access(FrontDoor(), asks_for_keys=True).detail
    assert made in doctor_checks.access(FrontDoor(host="0.0.0.0"), asks_for_keys=True).detail
    assert doctor_checks.access(FrontDoor(host="0.0.0.0"), asks_for_keys=False).health is DoctorHealth.WARN


@pytest.mark.parametrize(
    ("serve", "engines", "health"),
    [
        (Serve("a", embedded=True), [InstalledEngine("llama.cpp", "/x")], DoctorHealth.FAIL),
        (Serve("a", embedded=False), [InstalledEngine("llama.cpp, embedded", "x")], DoctorHealth.FAIL),
        (Serve("a"), [InstalledEngine("llama.cpp, embedded", "x")], DoctorHealth.OK),
        (Serve("a", cmd=("sh", "-c", "x")), [], DoctorHealth.OK),
        (Serve("a", engine="openai", cmd=("no-such-command-here",)), [], DoctorHealth.FAIL),
        (Serve("a", engine="openai", cmd=("{dir}/run",)), [], DoctorHealth.OK),
    ],
)
def test_each_serve_needs_its_engine(serve: Serve, engines: list[InstalledEngine], health: DoctorHealth) -> None:
    assert doctor_checks.engines([serve], engines).health is health


def test_a_command_that_is_missing_is_checked_again_by_what_found_it() -> None:
    own = Serve("own", engine="llama.cpp", model="x", cmd=("no-such-server", "{port}"))
    found = doctor_checks.engines([own], [])
    assert (found.health, found.next) == (DoctorHealth.FAIL, "stoker doctor")


def test_a_directory_is_no_model(tmp_path: Path) -> None:
    assert "is a directory" in doctor_checks.weights(Serve("a", model=str(tmp_path))).detail


def test_devices_are_numbers_or_ids(config: Path) -> None:
    from stoker.config.load import load

    config.write_text(config.read_text().replace("[slots.gpu0]", '[slots.gpu0]\ndevices = [0, "GPU-b"]'))
    settings = load(config)
    serve = '[[serve]]\nname = "{0}"\nengine = "vllm"\nmodel = "org/{0}"\nslot = "gpu0"\n'
    config.write_text(config.read_text() + serve.format("a") + serve.format("b"))
    assert run(["doctor", "--config", str(config)]) == 1
    out = capsys.readouterr().out
    assert out.count("fast.gguf does not exist") == 1
    assert "fast.gguf do not exist" not in out
    assert out.count("there is no `vllm` on PATH") == 1
    assert "serves a, b: correct this; these serves cannot start" in out
    assert f"next: stoker serves up a --dry-run --config {config}" in out
