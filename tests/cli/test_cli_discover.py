"""What is found on a machine: GPUs, GGUF files, engines."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fleet.memory.device_trees import write
from tests.fleet.memory.test_memory_probes import AMD

from stoker.cli.machine import discover
from stoker.cli.machine.discover import Gpu
from stoker.fleet.memory import devices
from stoker.fleet.memory.devices import Amd, Machine

SPARK = Path(discover.__file__).parents[2] / "models" / "spark.gguf"


def gguf(path: Path, content: bytes = SPARK.read_bytes()) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def names(*places: Path, **more: object) -> list[str]:
    return [m.path.name for m in discover.models(places, **more)]  # type: ignore[arg-type]


def test_later_parts_and_other_files_are_no_models(tmp_path: Path) -> None:
    for name in (
        "a.gguf",
        "b-00001-of-00002.gguf",
        "b-00002-of-00002.gguf",
        "C.GGUF",
    ):
        gguf(tmp_path / name)
    gguf(tmp_path / "line\nbreak.gguf")
    gguf(tmp_path / "pointer.gguf", b"version https://git-lfs")
    gguf(tmp_path / "notes.txt")
    assert sorted(names(tmp_path)) == ["C.GGUF", "a.gguf", "b-00001-of-00002.gguf"]


def test_a_file_with_two_names_is_one_model(tmp_path: Path) -> None:
    blob = gguf(tmp_path / "hub" / "models--x" / "blobs" / "0123")
    snapshot = tmp_path / "hub" / "models--x" / "snapshots" / "abc" / "x.gguf"
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(blob)
    gguf(tmp_path / "y.gguf")
    (tmp_path / "z.gguf").symlink_to(blob)
    assert names(tmp_path / "hub", tmp_path) == ["x.gguf", "y.gguf"]  # the first place's name stays


def test_depth_and_time_are_bounded(tmp_path: Path) -> None:
    gguf(tmp_path / "1" / "2" / "deep.gguf")
    gguf(tmp_path / "near.gguf")
    assert names(tmp_path, depth=1) == ["near.gguf"]
    assert names(tmp_path, tmp_path / "1", depth=2) == ["deep.gguf", "near.gguf"]
    gguf(tmp_path / "0.gguf")
    times = iter([0.0, 1.0, 1.0, *[9.0] * 9])
    said: list[str] = []
    assert names(tmp_path, patience=3.0, clock=lambda: next(times), on_unusable=said.append) == ["0.gguf"]
    assert said == ["the rest of this machine: the search took longer than 3 s"]


def test_circles_and_places_that_are_not_there_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path)
    (tmp_path / "broken.gguf").symlink_to(tmp_path / "nowhere")
    gguf(tmp_path / "a.gguf")
    assert names(tmp_path / "nowhere", tmp_path) == ["a.gguf"]


def test_nvidia_smi_is_read_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        "#!/bin/sh\necho '0, GPU-aa, NVIDIA H200, 143771\n1, GPU-bb, Odd One, [N/A]\nNo devices were found'\n"
    )
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(devices, "machine", lambda: Machine(()))
    assert discover.gpus() == [
        Gpu(0, "GPU-aa", "NVIDIA H200", 143771 * 2**20, "nvidia"),
        Gpu(1, "GPU-bb", "Odd One", None, "nvidia"),
    ]


def test_a_driver_that_fails_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, GPU-aa, X, 1'; exit $CODE\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CODE", "0")
    monkeypatch.setattr(devices, "machine", lambda: Machine(()))
    assert [g.uuid for g in discover.gpus()] == ["GPU-aa"]
    monkeypatch.setenv("CODE", "9")
    assert discover.gpus() == []


def test_a_card_is_found_as_the_rest_of_stoker_sees_it_and_nvidias_by_its_tool_if_no_library_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "machine", lambda: Machine((Amd(write(tmp_path / "sys", AMD), tmp_path),)))
    radeon = Gpu(0, "a1b2", "AMD GPU (gfx1101)", 16 * 2**30, "amd")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert discover.gpus() == [radeon]
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, GPU-aa, X, 1'\n")
    smi.chmod(0o755)
    assert discover.gpus() == [Gpu(0, "GPU-aa", "X", 2**20, "nvidia"), radeon]


def test_engines_are_commands_or_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(discover, "is_importable", lambda package: package == "sglang")
    assert [e.name for e in discover.engines()] == ["sglang"]
    assert not discover.has_default(discover.engines())
    server = tmp_path / "llama-server"
    server.write_text("")
    server.chmod(0o755)
    assert discover.engines()[0].where == str(server)
    assert discover.has_default(discover.engines())
