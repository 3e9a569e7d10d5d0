"""A Mac's GPU computes in main memory: how much of it a model may have there.

What macOS answers is scripted here, as a program on PATH. Apple's own figures have not been read on a Mac.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.fleet.memory.headers import write

from stoker.domain.serve import Serve, Slot, Tuning
from stoker.engines import llama_cpp, masks
from stoker.fleet.memory.cards import look
from stoker.fleet.memory.devices import Apple, Device
from stoker.fleet.memory.fit import check
from stoker.fleet.memory.fit.estimate import GIB, FitAnswer
from stoker.fleet.memory.host import HostMemory
from stoker.system.memory import MainMemory

SYSCTL = """#!/bin/sh
case "$2" in
  hw.optional.arm64) echo {arm} ;;
  machdep.cpu.brand_string) echo "Apple M4 Max" ;;
  iogpu.wired_limit_mb) echo {limit} ;;
  *) echo "sysctl: unknown oid '$2'" >&2; exit 1 ;;
esac
"""


def mac(folder: Path, monkeypatch: pytest.MonkeyPatch, total: int = 64, free: int = 50, **said: int) -> Apple:
    program = folder / "sysctl"
    program.write_text(SYSCTL.format(**{"arm": 1, "limit": 0, **said}))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return Apple(lambda: True, main=lambda: MainMemory(total * GIB, free * GIB))


def test_its_gpu_is_a_device_with_a_part_of_main_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [device] = mac(tmp_path, monkeypatch).devices()
    assert (device.name, device.vendor, device.driver) == ("Apple M4 Max", "apple", "Metal")
    assert (device.total, device.free, device.is_unified) == (48 * GIB, 48 * GIB, True)
    [raised] = mac(tmp_path, monkeypatch, limit=57344, free=40).devices()
    assert (raised.total, raised.free) == (56 * GIB, 40 * GIB)
    assert mac(tmp_path, monkeypatch).by_process() is None, "macOS does not tell"


def test_other_machines_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mac(tmp_path, monkeypatch, arm=0).devices() == [], "an Intel Mac"
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert Apple(lambda: True).devices() == []
    assert Apple(lambda: False, ask=lambda name: "1").devices() == []


def test_a_slot_names_it_and_no_engine_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = look((mac(tmp_path, monkeypatch),), {}, lambda: "")
    assert [card.vendor for card in machine.cards] == ["apple"]
    for word in ("0", "apple:0"):
        serve = Serve("a", model="/m.gguf", slot="gpu0", embedded=True)
        placed = masks.masked(serve, Slot("gpu0", (word,)), machine)
        assert (placed.device_problem, dict(placed.env), placed.extra_args) == ("", {}, ())
    wrong = masks.masked(Serve("a", model="/m.gguf", embedded=True), Slot("gpu0", ("nvidia:0",)), machine)
    assert wrong.device_problem


def gpu(total: int, free: int) -> Device:
    return Device(0, "apple-0", "Apple M4", "apple", total * GIB, free * GIB, driver="Metal", is_unified=True)


def serve(model: Path, **tuning: object) -> Serve:
    return Serve("m", model=str(model), context=8192, parallel=1, embedded=False, tuning=Tuning(**tuning))  # type: ignore[arg-type]


def test_what_is_beside_the_gpu_counts_in_the_same_memory(tmp_path: Path) -> None:
    model = write(tmp_path / "moe.gguf", "qwen3moe 30B")  # 16 GiB, 15 of them experts
    main = HostMemory(24 * GIB, 22 * GIB)
    own = Device(0, "GPU-0", "L4", "nvidia", 16 * GIB, 16 * GIB)
    of_its_own, shared = (
        check.check_fit(serve(model, kv_offload=5 * GIB, cpu_moe=True), [one], main) for one in (own, gpu(16, 16))
    )
    assert of_its_own.rows[-1].place == shared.rows[-1].place == check.MAIN_MEMORY
    on_device = shared.rows[0].need.total
    assert on_device > GIB
    assert (of_its_own.rows[-1].free, shared.rows[-1].free) == (22 * GIB, 22 * GIB - on_device)
    assert of_its_own.fit.answer is not FitAnswer.TOO_LARGE
    assert shared.fit.answer is FitAnswer.TOO_LARGE


def test_a_model_larger_than_the_limit_does_not_fit_though_main_memory_would_hold_it(tmp_path: Path) -> None:
    model = write(tmp_path / "m.gguf", "qwen3moe 30B")
    main = HostMemory(24 * GIB, 22 * GIB)
    report = check.check_fit(serve(model), [gpu(16, 16)], main)
    assert report.fit.answer is FitAnswer.TOO_LARGE
    assert check.check_fit(serve(model), [gpu(21, 21)], main).fit.answer is not FitAnswer.TOO_LARGE
    assert check.check_fit(serve(model), [gpu(21, 9)], main).fit.answer is FitAnswer.TOO_LARGE, "others have it now"


def test_the_embedded_engine_computes_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Serve("a", model="/m.gguf", embedded=True)
    monkeypatch.setattr(llama_cpp, "is_macos", lambda: False)
    assert llama_cpp.on_processors(plain)
    monkeypatch.setattr(llama_cpp, "is_macos", lambda: True)
    assert not llama_cpp.on_processors(plain)
    assert check.devices_for(plain, None, [gpu(16, 16)]) == [gpu(16, 16)]
    assert llama_cpp.on_processors(Serve("a", model="/m.gguf", embedded=True, gpu_layers=0))
