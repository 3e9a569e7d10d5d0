"""`stoker doctor`: each part is found well or not, and everything that is not comes with a fix and a command."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from tests.cli.fake_stoker import FakeStoker, serve_status
from tests.fleet.memory.model_files import gguf, llama

from stoker.cli.commands.read_again import ReadOptions
from stoker.cli.console.answers import SlotStatus, StatusAnswer
from stoker.cli.machine import discover
from stoker.cli.machine.discover import Gpu, InstalledEngine
from stoker.cli.main import run
from stoker.config.demo import demo
from stoker.config.paths import default_state
from stoker.domain.access import ListenSettings, Media
from stoker.domain.doctor_finding import DoctorFinding, DoctorHealth
from stoker.domain.key import Key
from stoker.domain.serve import Secret, Serve, Slot
from stoker.engines import masks
from stoker.engines.masks import Card
from stoker.engines.record import Api
from stoker.fleet.memory.devices import Accounting, Device, Machine
from stoker.fleet.memory.host import HostMemory
from stoker.fleet.suspend import suspension
from stoker.store.state_dir import StateDir
from stoker_setup.commands import doctor_checks
from stoker_setup.commands.self_check import self_check

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an embedded llama.cpp, no GPU, and enough room."""
    monkeypatch.setattr(discover, "gpus", list)
    monkeypatch.setattr("stoker.fleet.memory.devices.machine", lambda: Machine(()))
    monkeypatch.setattr("stoker.fleet.memory.cards.this_machine", lambda with_vulkan=True: masks.MachineCards())
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
    everybody = doctor_checks.access(ListenSettings(host="0.0.0.0", auth=False, keys=(key,)))
    assert everybody.health is DoctorHealth.WARN
    assert doctor_checks.access(ListenSettings(host="0.0.0.0", keys=(key,))).health is DoctorHealth.OK
    assert "no key is needed" in doctor_checks.access(ListenSettings()).detail
    assert doctor_checks.access(ListenSettings(host="0.0.0.0", auth=True)).health is DoctorHealth.OK
    assert "marker-secret" not in repr(everybody)


def test_keys_that_were_made_while_stoker_runs_count() -> None:
    made = "a key that `stoker keys create` made"
    assert made in doctor_checks.access(ListenSettings(), asks_for_keys=True).detail
    assert made in doctor_checks.access(ListenSettings(host="0.0.0.0"), asks_for_keys=True).detail
    assert doctor_checks.access(ListenSettings(host="0.0.0.0"), asks_for_keys=False).health is DoctorHealth.WARN


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


def test_a_serve_that_the_driver_shall_suspend_is_a_warning_where_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor_checks.suspended([Serve("a"), Serve("b", sleep_level=1)]) is None
    for why, health in (("no driver", DoctorHealth.WARN), ("", DoctorHealth.OK)):
        monkeypatch.setattr(suspension, "unavailable_reason", lambda why=why: why)
        found = doctor_checks.suspended([Serve("a"), Serve("c", sleep_level=3)])
        assert found is not None
        assert (found.health, why in found.detail) == (health, True)
        assert found.detail.startswith("c")


def test_a_container_that_the_driver_shall_suspend_has_processes_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspension, "unavailable_reason", lambda: "")
    boxed = Serve("b", container="b", sleep_level=3)
    for user, note in ((0, ""), (1000, "; processes of b usually belong to root, and Stoker runs as another user")):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        found = doctor_checks.suspended([Serve("a", sleep_level=3), boxed])
        assert found is not None
        assert found.detail == f"a, b: the driver has what suspends processes{note}"


def test_a_directory_is_no_model(tmp_path: Path) -> None:
    assert "is a directory" in doctor_checks.weights(Serve("a", model=str(tmp_path))).detail


def test_devices_are_numbers_or_ids(config: Path) -> None:
    from stoker.config.load import load

    config.write_text(config.read_text().replace("[slots.gpu0]", '[slots.gpu0]\ndevices = [0, "GPU-b"]'))
    settings = load(config)
    both = [Gpu(0, "GPU-a", "X", None, "nvidia"), Gpu(1, "GPU-b", "X", None, "nvidia")]
    assert doctor_checks.devices(settings, both).health is DoctorHealth.OK
    assert doctor_checks.devices(settings, both[:1]).detail.endswith("gpu0: GPU-b")


def test_little_room_warns_and_none_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    health = []
    for free in (2**40, 2**30, 2**20):
        monkeypatch.setattr("shutil.disk_usage", lambda place, free=free: SimpleNamespace(free=free))
        health.append(doctor_checks.disk("disk", tmp_path / "not" / "there", "df").health)
    assert health == [DoctorHealth.OK, DoctorHealth.WARN, DoctorHealth.FAIL]


def test_where_no_file_is_found_that_of_the_stoker_that_runs_is_looked_at(
    home: Path, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = StateDir(default_state(), configuration=str(config))
    state.lock()
    with state.bind_socket():
        monkeypatch.chdir(home)
        run(["doctor"])
    state.close()
    assert f"configuration       {config}" in (out := capsys.readouterr().out)
    assert "stoker init" not in out


def test_completion_is_only_reported(home: Path) -> None:
    assert "stoker --install-completion" in doctor_checks.completion(home).detail
    (home / ".zfunc").mkdir()
    (home / ".zfunc" / "_stoker").touch()
    assert "installed (~/.zfunc/_stoker)" in doctor_checks.completion(home).detail


class Gpus:
    """One device, as a driver would show it."""

    source = "NVML"

    def __init__(self, accounting: Accounting | None, notes: tuple[str, ...] = ()) -> None:
        self.accounting, self.said = accounting, list(notes)

    def devices(self) -> list[Device]:
        return [Device(0, "GPU-a", "Test GPU", "nvidia", 24 * 2**30, 20 * 2**30, "8.9", "570.1")]

    def by_process(self) -> Accounting | None:
        return self.accounting

    def notes(self) -> list[str]:
        return self.said


def test_each_device_has_a_row_with_its_number_in_every_interface_and_pitfalls_are_named() -> None:
    four = Card("nvidia", 0, "GPU-a", "0000:01:00.0", "RTX 4090", "570.1", {Api.VULKAN: 1})
    six = replace(four, index=1, uuid="GPU-b", address="0000:02:00.0", name="RTX 3060", numbers={Api.VULKAN: 0})
    arc = Card("intel", 0, "0000:04:00.0", "0000:04:00.0", "Intel GPU", "xe", {Api.LEVEL_ZERO: 1})
    assert [found.detail for found in doctor_checks.cards(masks.MachineCards((four,)))] == [
        "RTX 4090, 570.1 driver; `nvidia:0`, GPU-a; CUDA 0, Vulkan 1",
        "Vulkan counts the devices of all vendors, in an order of its own",
    ]
    assert doctor_checks.cards(masks.MachineCards()) == []
    *rows, pitfalls = doctor_checks.cards(masks.MachineCards((four, six, arc)))
    assert [row.part for row in rows] == ["device 0000:01:00.0", "device 0000:02:00.0", "device 0000:04:00.0"]
    assert rows[2].detail == "Intel GPU, xe driver; `intel:0`, 0000:04:00.0; Level Zero 1, Vulkan unknown"
    for words in ("fastest device", "differ for intel:0", "several vendors", "vulkaninfo"):
        assert words in pitfalls.detail


def test_a_number_that_means_a_card_of_each_vendor_is_a_warning_that_names_the_other_way_to_write_it(
    tmp_path: Path,
) -> None:
    machine = masks.MachineCards((Card("nvidia", 0, "GPU-a"), Card("amd", 0, "b1")))

    def found_for(word: str) -> DoctorFinding:
        return doctor_checks.devices(replace(demo(tmp_path, 1), slots=(Slot("gpu", devices=(word,)),)), [], machine)

    found = found_for("0")
    assert (found.health, '`devices = ["amd:0"]`' in found.fix) == (DoctorHealth.WARN, True)
    assert "gpu: 7" in found_for("7").detail


def test_a_serve_that_its_devices_keep_from_starting_fails_and_parts_of_a_device_are_none_that_is_absent(
    tmp_path: Path,
) -> None:
    machine = masks.MachineCards((Card("nvidia", 0, "GPU-a"), Card("amd", 0, "b1")))
    settings = demo(tmp_path, 1)
    serve = replace(settings.serves[0], slot="gpu", engine="vllm", cmd=None, base_url=None)

    def found_for(*words: str) -> DoctorFinding:
        changed = replace(settings, slots=(Slot("gpu", devices=words),), serves=(serve,))
        return doctor_checks.devices(changed, [], machine)

    found = found_for("nvidia:0", "amd:0")
    assert (found.health, "vLLM uses devices of one vendor only" in found.detail) == (DoctorHealth.FAIL, True)
    assert found_for("MIG-7").health is DoctorHealth.OK


def test_accelerators_are_shown_with_memory_and_driver_and_who_holds_them_unknown_is_a_warning() -> None:
    main = HostMemory(2**34, 2**33)
    assert doctor_checks.accelerators(Machine(()), main).detail.startswith("none found")
    seen = doctor_checks.accelerators(Gpus({}), main)
    assert (seen.health, seen.detail) == (
        DoctorHealth.OK, "nvidia 0: Test GPU, 20.0 GiB of 24.0 GiB free, 570.1 driver"
    )  # fmt: skip
    assert doctor_checks.accelerators(Gpus(None), main).health is DoctorHealth.WARN
    assert "type this" in doctor_checks.accelerators(Gpus({}, ("type this",)), main).detail


def test_a_serve_that_could_not_start_is_a_failure_with_the_reason(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with config.open("a") as file:
        file.write('[[serve]]\nname = "boxed"\nengine = "openai"\ncmd = "no-such-command-at-all {port}"\n')
    run(["doctor", "--json"])
    findings = {one["part"]: one for one in json.loads(capsys.readouterr().out)}
    assert findings["serve boxed"]["health"] == "fail"
    assert "no-such-command-at-all" in findings["serve boxed"]["detail"]
    assert findings["serve boxed"]["next"] == "stoker serves up boxed --dry-run"


def test_a_container_serve_whose_image_is_not_here_is_a_failure_with_the_command_to_pull_it(
    plain: Path, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(
        '#!/bin/sh\ncase "$1" in version) echo 20.10;; *) echo "Error: No such object: x" >&2; exit 1;; esac\n'
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with plain.open("a") as file:
        file.write(
            '[[serve]]\nname = "boxed"\ncontainer = "boxed"\nport = 8301\nup = "docker run -d --name boxed org/img:1"\n'
        )
    assert run(["doctor", "--json"]) == 1
    found = findings(capsys)
    assert found["docker"].health == "ok"
    assert found["serve boxed"].health == "fail"
    assert found["serve boxed"].detail == "the image org/img:1 is not on this machine: type `docker pull org/img:1`"


@pytest.mark.parametrize(
    ("modalities", "media", "detail"),
    [
        (("text",), Media(), None),
        (("text", "image"), Media(), "eye takes images; addresses of images are refused"),
        (("vision",), Media(fetch=True), "eye takes images; Stoker fetches them from any public host"),
        (("images",), Media(fetch=True, hosts=("a.example", "b.example")), "fetches them from a.example, b.example"),
    ],
)
def test_whether_images_are_fetched_is_said_where_a_serve_takes_them(
    modalities: tuple[str, ...], media: Media, detail: str | None
) -> None:
    finding = doctor_checks.images([Serve("eye", modalities=modalities), Serve("blind")], media)
    assert (finding is None) == (detail is None)
    if finding is not None and detail is not None:
        assert detail in finding.detail
        assert finding.health is DoctorHealth.OK
        assert media.fetch or "[media] fetch = true" in finding.detail


def test_a_model_that_ollama_removed_is_named_with_what_to_do(tmp_path: Path) -> None:
    serve = Serve("m", model=str(tmp_path / "blobs" / "sha256-0123"), aliases=("llama3.2", "llama3.2:latest"))
    finding = doctor_checks.weights(serve)
    assert finding.health is DoctorHealth.FAIL
    assert "is gone: Ollama removed the model (llama3.2:latest), or updated it" in finding.detail
    assert finding.next == "stoker import ollama --check", "the file may hold more than Ollama's models"


@pytest.mark.parametrize(
    ("tensors", "size", "said"),
    [([], 0, "has no weights in it"), ([("x", (1024,), 0, 0)], 100, "is cut off"), ([("x", (32,), 0, 0)], 128, "")],
)
def test_a_file_that_no_engine_can_load_is_named(
    tmp_path: Path, tensors: list[tuple[str, tuple[int, ...], int, int]], size: int, said: str
) -> None:
    weights = gguf(tmp_path / "m.gguf", {"general.architecture": "llama"}, tensors, size)
    finding = doctor_checks.weights(Serve("m", model=str(weights)))
    assert said in finding.detail
    assert finding.health is (DoctorHealth.FAIL if said else DoctorHealth.OK)


def test_doctor_judges_memory_as_fit_does(plain: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    llama(plain.parent / "slow.gguf")
    monkeypatch.setattr("stoker.fleet.memory.host.host_memory", lambda credit=0: HostMemory(2**30, 2**30))
    assert run(["fit", "slow", "--json"]) == 1
    [judged] = json.loads(capsys.readouterr().out)
    assert run(["doctor", "--json"]) == 1
    found = findings(capsys)
    assert found["fit of slow"].health == "fail"
    assert found["fit of slow"].detail == "; ".join(judged["problems"])
    assert found["fit of slow"].next == "stoker fit slow"
    assert found["fit of fast"].health == "ok"


def test_memory_that_loaded_models_hold_counts_as_free(
    stoker: FakeStoker, plain: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """They give way to others; and a model that runs fits."""
    given: list[int] = []
    monkeypatch.setattr(
        "stoker.fleet.memory.host.host_memory", lambda credit=0: given.append(credit) or HostMemory(2**30, 2**30)
    )
    stoker.status(serve_status("fast", pid=os.getpgid(0)))
    run(["doctor", "--json"])
    assert max(given) > 2**20


CAPPED = "8192 is above the 2048 tokens that the model was trained for: longer requests are refused; set at most 2048"


def trained_for_2048(path: Path, context: int, more: str = "") -> None:
    text = path.read_text().replace('model = "fast.gguf"\n', f'model = "fast.gguf"\ncontext = {context}\n{more}', 1)
    path.write_text(text)
    llama(path.parent / "fast.gguf", layers=1, **{"llama.context_length": 2048})


def test_a_context_above_the_trained_one_is_told_with_its_line(plain: Path, capsys: Captured) -> None:
    trained_for_2048(plain, 8192)
    line = plain.read_text().splitlines().index("context = 8192") + 1
    said = f"{plain.resolve()}:{line}: key 'serve[fast].context': {CAPPED}"
    assert run(["config", "check"]) == 0
    assert f"warning: {said}" in capsys.readouterr().err
    assert run(["doctor", "--json"]) == 0
    assert said in findings(capsys)["configuration"].detail
    assert run(["fit", "fast"]) == 0
    assert f"warning: context {CAPPED}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("context", "more"),
    [
        (2048, ""),
        (8192, 'extra_args = ["--rope-scaling", "yarn", "--rope-scale", "4"]\nembedded = false\n'),
        (8192, 'extra_args = ["--override-kv", "llama.context_length=int:8192"]\nembedded = false\n'),
        (8192, 'env = { LLAMA_ARG_ROPE_SCALE = "4" }\n'),
    ],
)
def test_a_context_that_the_model_can_have_is_no_warning(
    plain: Path, capsys: Captured, context: int, more: str
) -> None:
    trained_for_2048(plain, context, more)
    assert run(["config", "check"]) == 0
    assert "trained" not in capsys.readouterr().err


def test_the_line_of_an_inherited_context_is_that_of_the_parent(plain: Path, capsys: Captured) -> None:
    trained_for_2048(plain, 8192)
    text = plain.read_text().replace('name = "slow"\nmodel = "slow.gguf"\n', 'name = "slow"\nextends = "fast"\n')
    plain.write_text(text)
    line = text.splitlines().index("context = 8192") + 1
    assert run(["config", "check"]) == 0
    assert capsys.readouterr().err.count(f":{line}: key 'serve[fast].context': {CAPPED}") == 2


def test_missing_weights_are_named_once_and_serves_that_lack_one_program_together(
    config: Path, capsys: Captured
) -> None:
    (config.parent / "fast.gguf").unlink()
    serve = '[[serve]]\nname = "{0}"\nengine = "vllm"\nmodel = "org/{0}"\nslot = "gpu0"\n'
    config.write_text(config.read_text() + serve.format("a") + serve.format("b"))
    assert run(["doctor", "--config", str(config)]) == 1
    out = capsys.readouterr().out
    assert out.count("fast.gguf does not exist") == 1
    assert "fast.gguf do not exist" not in out
    assert out.count("there is no `vllm` on PATH") == 1
    assert "serves a, b: correct this; these serves cannot start" in out
    assert f"next: stoker serves up a --dry-run --config {config}" in out


def test_doctor_names_serves_that_run_but_not_as_they_should() -> None:
    wrong = {"assertion": "devices", "ok": False, "detail": "its engine printed that it uses nvidia:0 (RTX 3060)"}
    right = {"assertion": "answers", "ok": True, "detail": "yes"}

    def finding(health: str, *findings: object, driver: str = "process") -> DoctorFinding | None:
        watchdog = {"health": health, "findings": findings}
        serves = [serve_status("a", "ready", watchdog=watchdog, driver=driver), serve_status("b")]
        return doctor_checks.sick(msgspec.convert({"version": "1", "pid": 1, "serves": serves}, StatusAnswer))

    assert doctor_checks.sick(None) is None
    assert finding("verified", right) is None
    found = finding("sick", right, wrong)
    assert found is not None
    assert (found.health.value, found.next) == ("warn", "stoker serves logs a")
    assert found.detail == "a: devices: its engine printed that it uses nvidia:0 (RTX 3060)"
    for driver, where in (("external", "where it runs"), ("systemd", "in the journal of its unit")):
        found = finding("sick", wrong, driver=driver)
        assert found is not None
        assert (found.fix, found.next) == (f"its log is {where}", "stoker serves status")


def test_doctor_says_what_is_paused_and_whether_it_can_see_who_uses_devices() -> None:
    def finding(*slots: SlotStatus) -> tuple[str, str]:
        found = doctor_checks.paused(StatusAnswer("1", 1, slots=list(slots)))
        return ("", "") if found is None else (found.health.value, found.next)

    assert finding(SlotStatus("gpu0")) == ("", "")
    assert finding(SlotStatus("gpu0", paused="comfyui", paused_by=["program"])) == ("ok", "")
    by_hand = SlotStatus("gpu0", paused="rendering", paused_by=["operator"])
    assert finding(by_hand) == ("warn", "stoker resume gpu0")
    slots = [Slot("gpu0", yields_to=("comfyui",)), Slot("gpu1")]
    blind = doctor_checks.yielding(slots, Machine(()))
    assert blind is not None
    assert (blind.health.value, "while they run" in blind.detail) == ("ok", True)
    useless = doctor_checks.yielding([Slot("gpu0", yields_above=1)], Machine(()))
    assert useless is not None
    assert useless.health.value == "warn"
    assert doctor_checks.yielding(slots[1:], Machine(())) is None
