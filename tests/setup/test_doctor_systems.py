"""`stoker doctor` in Windows Subsystem for Linux and on macOS, by files and programs as they have them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from stoker.cli.machine import nvidia_smi
from stoker.cli.main import run
from stoker.domain.doctor_finding import DoctorFinding, DoctorHealth
from stoker.domain.serve import Driver, Serve
from stoker.fleet.memory.devices import Apple, Machine
from stoker.fleet.memory.host import HostMemory
from stoker.system.memory import MainMemory
from stoker_setup.commands import doctor_checks, doctor_wsl

GIB = 2**30
MOUNTS = """\
/dev/sdc / ext4 rw,relatime 0 0
none /mnt/wsl tmpfs rw,relatime 0 0
C:\\134 /mnt/c 9p rw,noatime,aname=drvfs;path=C:\\;uid=1000 0 0
D:\\134 /mnt/d drvfs rw,noatime 0 0
"""


def wsl(root: Path, release: str = "5.15.153.1-microsoft-standard-WSL2", *, has_systemd: bool = True) -> Path:
    (root / "proc/sys/kernel").mkdir(parents=True)
    (root / "proc/sys/kernel/osrelease").write_text(f"{release}\n")
    (root / "proc/meminfo").write_text(f"MemTotal:       {16 * GIB // 1024} kB\nMemAvailable:   1 kB\n")
    (root / "proc/mounts").write_text(MOUNTS)
    if has_systemd:
        (root / "run/systemd/system").mkdir(parents=True)
    return root


def said(
    root: Path, folders: tuple[str, ...] = (), models: tuple[str, ...] = (), smi: str | None = "/bin/nvidia-smi"
) -> dict[str, DoctorFinding]:
    serves = [Serve(f"m{number}", model=model) for number, model in enumerate(models)]
    found = doctor_wsl.findings([Path(one) for one in folders], serves, root, lambda name: smi)
    return {one.part: one for one in found}


def test_a_linux_of_its_own_has_no_such_rows(tmp_path: Path) -> None:
    assert said(wsl(tmp_path, "6.1.0-18-amd64"), ("/mnt/c/models",)) == {}
    assert said(tmp_path / "none") == {}


def test_in_wsl_2_its_memory_is_said_and_nothing_is_wrong(tmp_path: Path) -> None:
    found = said(wsl(tmp_path), ("/home/me/.local/share/stoker",), ("/home/me/m.gguf", "org/model"))
    assert list(found) == ["wsl"]
    assert found["wsl"].health is DoctorHealth.OK
    assert "WSL 2 has 16.0 GiB of Windows' memory" in found["wsl"].detail
    assert ".wslconfig" in found["wsl"].detail
    assert "no MIG" in found["wsl"].detail


def test_wsl_1_is_refused_a_gpu(tmp_path: Path) -> None:
    [finding] = said(wsl(tmp_path, "4.4.0-19041-Microsoft")).values()
    assert finding.health is DoctorHealth.WARN
    assert "--set-version" in finding.fix


def test_weights_in_windows_file_system_are_named(tmp_path: Path) -> None:
    found = said(wsl(tmp_path), ("/mnt/d/vault", "/mnt/wsl/x"), ("/mnt/c/m.gguf", "/mnt/cd/m.gguf"))["wsl files"]
    assert found.health is DoctorHealth.WARN
    assert found.detail.endswith(": `m0` /mnt/c/m.gguf, /mnt/d/vault")


def test_windows_nvidia_smi_is_found_beside_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = wsl(tmp_path)
    assert "wsl GPU" not in said(root, smi=None), "no GPU at all"
    program = root / doctor_wsl.LIBRARIES / "nvidia-smi"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "0, RTX"\n')
    program.chmod(0o755)
    assert "wsl GPU" not in said(root)
    assert "/usr/lib/wsl/lib" in said(root, smi=None)["wsl GPU"].fix
    monkeypatch.setattr(nvidia_smi, "ON_WSL", str(program))
    monkeypatch.setenv("PATH", "/nowhere")
    assert nvidia_smi.query("gpu", ("index", "name")) == [{"index": "0", "name": "RTX"}]


def test_a_systemd_that_is_off_is_said(tmp_path: Path) -> None:
    assert "/etc/wsl.conf" in said(wsl(tmp_path, has_systemd=False))["wsl services"].detail


def test_on_a_mac_python_pidfds_and_docker_are_those_of_macos(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor_checks, "sys", SimpleNamespace(platform="darwin", version_info=(3, 12, 1)))
    monkeypatch.delattr(os, "waitid", raising=False)
    found = doctor_checks.python()
    assert found.health is DoctorHealth.WARN
    assert "have not run on a Mac; how engines end is known from Python 3.13 on" in found.detail
    assert run(["docs", "macos"]) == 0, "what it proposes is typed"
    assert "guides/macos.md" in capsys.readouterr().out
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.setattr(doctor_checks, "is_macos", lambda: True)
    ends = {one.part: one for one in doctor_checks.platform()}["pidfd"]
    assert (ends.health, ends.detail) == (
        DoctorHealth.OK, "macOS has none: the end of a process is noticed within 50 ms",
    )  # fmt: skip
    monkeypatch.setenv("PATH", "/nowhere")
    docker = doctor_checks.containers([Serve("a", driver=Driver.COMPOSE, up=("docker", "run"))])
    assert docker.next == "brew install --cask docker"


def test_a_macs_gpu_is_told_with_its_limit_and_how_to_raise_it() -> None:
    answers = {"hw.optional.arm64": "1", "machdep.cpu.brand_string": "Apple M4", "iogpu.wired_limit_mb": "0"}
    probe = Apple(lambda: True, answers.get, lambda: MainMemory(24 * GIB, 20 * GIB))
    found: DoctorFinding = doctor_checks.accelerators(Machine([probe]), HostMemory(24 * GIB, 20 * GIB))
    assert found.health is DoctorHealth.OK
    assert "apple 0: Apple M4, 16.0 GiB of 16.0 GiB free, Metal driver. Its memory is main memory" in found.detail
    assert "iogpu.wired_limit_mb" in found.detail
