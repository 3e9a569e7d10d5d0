"""`stoker doctor --gpu`: without a GPU it says what it skipped; with one, each difference from the driver is named.

The GPUs are a stand-in (`nvidia_stand_in`); the engine on them is a real llama.cpp, which computes on processors.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.cli import nvidia_stand_in

from stoker.cli.main import run
from stoker.fleet.memory.devices import INITIAL_NAMESPACE, Device, Machine
from stoker.fleet.memory.measure import Snapshot
from stoker_setup import gpu_proof
from stoker_setup.commands import doctor_gpu
from stoker_setup.gpu_proof import ProofResult

MIB, GIB = 2**20, 2**30
GPU = Device(0, "GPU-a", "L4", "nvidia", 24 * GIB, 18 * GIB, "8.9", "570.1")
SMI = {"uuid": "GPU-a", "name": "L4", "driver_version": "570.1", "memory.total": "24576", "memory.free": "18432"}
with_engine = pytest.mark.skipif(
    find_spec("xllamacpp") is None
    or not os.path.exists("/proc/self/ns/pid")
    or os.readlink("/proc/self/ns/pid") != INITIAL_NAMESPACE,
    reason="needs the embedded engine, and the host's process numbers, which a driver counts",
)


def test_without_a_gpu_each_part_says_why_it_was_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stoker.fleet.memory.devices.machine", lambda: Machine(()))
    assert run(["doctor", "--gpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["part"] for one in found] == ["telemetry", "mask", "memory", "memory by process", "freed memory"]
    assert {(one["result"], one["why"]) for one in found} == {("skipped", "no GPU was found")}
    assert run(["doctor", "--gpu"]) == 0
    assert "nothing was proved" in capsys.readouterr().out


def told(environment: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-c", "from stoker.cli.entry import main; main()", "doctor", "--gpu", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
    assert done.stdout, done.stderr
    return done.returncode, {one["part"]: one for one in json.loads(done.stdout)}


@with_engine
@pytest.mark.llama
def test_started_on_a_gpu_everything_is_as_the_driver_says(tmp_path: Path) -> None:
    code, found = told(nvidia_stand_in.install(tmp_path / "driver"))
    assert {part: (one["result"], one["why"]) for part, one in found.items() if one["result"] != "ok"} == {}
    assert code == 0
    assert {part.partition(", ")[2] for part in found if "mask" in part} == {
        "devices = [0]", "devices = [GPU-stand-in-0]"
    }  # fmt: skip


@with_engine
@pytest.mark.llama
def test_started_where_a_mask_is_not_obeyed_it_differs_and_is_to_be_reported(tmp_path: Path) -> None:
    environment = nvidia_stand_in.install(tmp_path / "driver", count=2, held=2 * GIB, fault="mask")
    code, found = told(environment)
    assert code == 1
    wrong = {part for part, one in found.items() if one["result"] == "differs"}
    # It is on device 0 whatever the slot names, and holds more than a small model needs.
    assert wrong == {"mask, devices = [1]", *(part for part in found if part.startswith("memory, "))}


def test_the_mask_compares_where_memory_is_held() -> None:
    def result(wanted: list[str], held: list[str] | None, embedded: bool = False) -> ProofResult:
        return gpu_proof.mask(wanted, held, may_compute_on_processors=embedded).result

    assert result(["a"], ["a"]) is ProofResult.OK
    assert result(["a"], ["b"]) is ProofResult.DIFFERS
    assert result(["a"], ["a", "b"]) is ProofResult.DIFFERS
    assert result(["a"], []) is ProofResult.DIFFERS
    assert result(["a"], [], embedded=True) is ProofResult.SKIPPED
    assert result(["a"], None) is ProofResult.SKIPPED


@pytest.mark.parametrize(
    ("measured", "estimate", "result"),
    [
        (16 * GIB, 16 * GIB + 700 * MIB, ProofResult.OK),
        (16 * GIB, 15 * GIB, ProofResult.DIFFERS),
        (700 * MIB, 410 * MIB, ProofResult.OK),
        (800 * MIB, 410 * MIB, ProofResult.DIFFERS),
        (None, 410 * MIB, ProofResult.SKIPPED),
        (0, 410 * MIB, ProofResult.SKIPPED),
    ],
)
def test_an_estimate_is_right_within_five_percent_or_300_mib(
    measured: int | None, estimate: int, result: ProofResult
) -> None:
    assert gpu_proof.memory(measured, estimate).result is result


def test_telemetry_is_compared_by_uuid() -> None:
    def results(**changes: str) -> list[ProofResult]:
        return [one.result for one in gpu_proof.telemetry([GPU], [SMI | changes])]

    assert results() == [ProofResult.OK]
    assert results(**{"memory.free": "18400"}) == [ProofResult.OK]
    assert results(**{"memory.free": "18000"}) == [ProofResult.DIFFERS]
    assert results(**{"memory.free": "[N/A]"}) == [ProofResult.OK]
    assert results(driver_version="571") == [ProofResult.DIFFERS]
    assert results(uuid="GPU-b") == [ProofResult.DIFFERS]
    assert gpu_proof.telemetry([GPU], None)[0].result is ProofResult.SKIPPED
    assert gpu_proof.telemetry([], [SMI])[0].result is ProofResult.SKIPPED


def test_memory_by_process_is_compared_over_the_engines_processes() -> None:
    def result(used: str, pid: str = "7") -> ProofResult:
        row = {"pid": pid, "gpu_uuid": "GPU-a", "used_memory": used}
        return gpu_proof.held_by_process({7: {"GPU-a": 400 * MIB}}, [row], [7]).result

    assert result("400") is ProofResult.OK
    assert result("900") is ProofResult.DIFFERS
    assert result("400", pid="8") is ProofResult.DIFFERS
    assert gpu_proof.held_by_process(None, [], [7]).result is ProofResult.SKIPPED
    assert gpu_proof.held_by_process({}, None, [7]).result is ProofResult.SKIPPED


def test_memory_is_freed_when_all_that_was_held_is_free() -> None:
    before = Snapshot({"GPU-a": 18 * GIB}, {7: {"GPU-a": 2 * GIB}})

    def result(free: int, accounting: dict[int, Any] | None) -> ProofResult:
        return gpu_proof.freed(before, Snapshot({"GPU-a": free}, accounting), [7], 0.5).result

    assert result(20 * GIB, {}) is ProofResult.OK
    assert result(19 * GIB, {}) is ProofResult.DIFFERS
    assert result(20 * GIB, {7: {"GPU-a": GIB}}) is ProofResult.DIFFERS
    assert result(20 * GIB, None) is ProofResult.SKIPPED
    assert gpu_proof.freed(Snapshot({}, None, False), before, [7], 0.5).result is ProofResult.SKIPPED


def test_what_to_report_names_version_card_and_difference() -> None:
    wrong = [*gpu_proof.telemetry([GPU], [SMI | {"driver_version": "571"}]), gpu_proof.failed("start", "no port")]
    lines = doctor_gpu.report([*wrong, gpu_proof.skipped("mask", "no engine")], [GPU])
    assert lines[0].startswith("stoker ")
    assert lines[1] == "nvidia 0: L4, driver 570.1"
    assert lines[2].startswith("telemetry: differs: L4, driver 570.1")
    assert lines[3:] == ["start: failed: no port"]
    assert doctor_gpu.report([gpu_proof.skipped("mask", "no engine")], [GPU]) == []


def test_if_something_differs_the_lines_to_report_follow_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stoker.fleet.memory.devices.machine", lambda: Machine(()))
    wrong = gpu_proof.telemetry([GPU], [SMI | {"driver_version": "571"}])
    monkeypatch.setattr(doctor_gpu, "prove", lambda probe, say: wrong)
    assert run(["doctor", "--gpu"]) == 1
    table, _, lines = capsys.readouterr().out.partition("please report these lines:")
    assert "differs" in table
    assert "expected L4, driver 571" in lines
