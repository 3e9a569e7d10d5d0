"""On a real NVIDIA GPU: what Stoker sees of it, what it measures of each serve, and swaps that need memory to be free.

The engines are PyTorch programs that hold some of its memory; more or less of it in each story.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.plane import Plane, poll, running, serve

from stoker.cli.machine import discover
from stoker.fleet.memory.devices import Nvidia

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not Nvidia().devices(), reason="no NVIDIA GPU here, or no nvidia-ml-py"),
]
ENGINE = Path(__file__).with_name("gpu_engine.py")
GIB = 2**30


def total() -> int:
    """Bytes of the first device."""
    return Nvidia().devices()[0].total or 0


def engine(name: str, share: float, **keys: object) -> str:
    """A serve that holds `share` of the first device."""
    gib = f"{share * total() / GIB:.1f}"
    command = [sys.executable, str(ENGINE), "--port", "{port}", "--id", name, "--gib", gib]
    return serve(name, None, **{"cmd": command, "dialects": ["chat"], **keys})


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    pytest.importorskip("torch", reason="the engines of these stories are PyTorch programs")
    serves = [engine(name, share) for name, share in (("large", 0.7), ("other", 0.7), ("giant", 1.5))]
    together = [
        engine(name, share, slot="shared", memory=f"{1.2 * share * total() / GIB:.1f}GiB")
        for name, share in (("small", 0.1), ("tiny", 0.05))
    ]
    shared = f'[slots.shared]\ndevices = [0]\nmemory = "{0.2 * total() / GIB:.0f}GiB"'
    with running(*serves, *together, slots=f"[slots.gpu0]\ndevices = [0]\n\n{shared}") as found:
        assert ask(found, "large")[0] == 200
        assert found.admin("unload", serve="large")[0] == 200
        poll(lambda: not found.processes(), "its engine has ended")
        found.note_idle()  # the driver's library keeps its descriptors from its first use on
        yield found


def ask(plane: Plane, model: str) -> tuple[int, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": "how much is it?"}]}
    return plane.ask("POST", "/v1/chat/completions", body)


def test_the_device_is_seen_with_its_memory_and_driver() -> None:
    device = Nvidia().devices()[0]
    assert device.total
    assert device.free
    assert device.driver
    assert device.arch
    (found, *_) = discover.gpus()
    assert device.name in found.name
    assert abs(found.memory / device.total - 1) < 0.05


def test_models_that_fill_the_device_take_turns_and_each_is_measured(plane: Plane) -> None:
    for name in ("large", "other", "large"):
        status, answer = ask(plane, name)
        assert status == 200, answer
        assert answer["choices"][0]["message"]["content"] == f"{name} says 9"
        seen = plane.serve(name)
        assert seen["measured_by"] == "measured (NVML)"
        assert 0.68 * total() < seen["measured"] < 0.75 * total()


def test_what_cannot_be_allocated_is_named_as_the_devices_memory(plane: Plane) -> None:
    status, answer = ask(plane, "giant")
    assert status == 503, answer
    assert answer["error"]["code"] == "out_of_memory"


def test_two_models_that_fit_their_slot_stay_loaded_together(plane: Plane) -> None:
    for name in ("small", "tiny", "small", "tiny"):
        status, answer = ask(plane, name)
        assert status == 200, answer
    poll(lambda: all(plane.serve(name)["state"] == "ready" for name in ("small", "tiny")), "both are loaded")
    assert sum(plane.serve(name)["measured"] for name in ("small", "tiny")) < 0.2 * total()


def test_doctor_finds_the_device_and_no_fault_with_it(plane: Plane) -> None:
    said = plane.run("doctor", "--json")
    assert Nvidia().devices()[0].name.split()[-1] in said.stdout, said.stdout + said.stderr
