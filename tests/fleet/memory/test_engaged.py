"""Which devices an engine uses, beside those of its slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.fleet.memory.device_trees import GIB

from stoker.domain.serve import Slot
from stoker.fleet.memory.devices import Accounting, Device, chosen
from stoker.fleet.memory.engaged import EngagedDevices, engaged

SMALL = Device(0, "GPU-11", "RTX 3060", "nvidia", 12 * GIB, address="0000:01:00.0")
LARGE = Device(1, "GPU-22", "RTX 4090", "nvidia", 24 * GIB, address="0000:41:00.0")
RADEON = Device(0, "a1b2", "RX 7900 XT", "amd", 20 * GIB, address="0000:03:00.0")
ARC = Device(0, "0000:08:00.0", "Intel GPU", "intel", None, address="0000:08:00.0")
ALL = [SMALL, LARGE, RADEON, ARC]


def of(said: str, *words: str, accounting: Accounting | None = None) -> EngagedDevices:
    slot = chosen(ALL, words)
    return engaged(slot, slot, ALL, said, accounting, (7,))


@pytest.mark.parametrize(
    ("said", "words", "problem"),
    [
        ("0000:41:00.0", ("nvidia:1",), ""),
        ("00000000:41:00.0", ("nvidia:1",), ""),
        ("0000:01:00.0, 0000:41:00.0", ("nvidia:0", "nvidia:1"), ""),
        ("0000:01:00.0", ("nvidia:0", "nvidia:1"), ""),
        ("0000:01:00.0", ("nvidia:1",), "uses nvidia:0 (RTX 3060), and its slot gives it nvidia:1 (RTX 4090)"),
        ("0000:41:00.0, 0000:01:00.0", ("nvidia:1",), "uses nvidia:0 (RTX 3060), and its slot gives"),
        ("0000:41:00.0, 0000:00:02.0", ("nvidia:1",), "uses 0000:00:02.0, and its slot gives"),
        ("0001:41:00.0", ("nvidia:1",), "uses 0001:41:00.0, and its slot gives"),
        ("cpu", ("amd:0",), "computes on the processor, and its slot gives it amd:0 (RX 7900 XT)"),
        ("cuda", ("amd:0",), ""),  # PyTorch's name for AMD's, too
        ("cuda", ("intel:0",), "computes with cuda, and its slot gives it intel:0 (Intel GPU)"),
        ("xpu", ("nvidia:0",), "computes with xpu, and its slot gives it nvidia:0 (RTX 3060)"),
        ("xpu", ("intel:0",), ""),
        ("", ("nvidia:0",), ""),
    ],
)
def test_what_an_engine_printed_is_compared_with_its_slot(said: str, words: tuple[str, ...], problem: str) -> None:
    found = of(said, *words).problem
    assert (problem in found) if problem else found == ""


def test_where_no_driver_says_who_holds_memory_the_engines_own_words_count() -> None:
    assert of("0000:01:00.0", "nvidia:0", "nvidia:1").used == {"GPU-11"}
    assert of("", "nvidia:0").used is of("cuda", "nvidia:0").used is None
    assert of("0000:01:00.0", "nvidia:0", accounting={7: {"GPU-22": 1}, 8: {"GPU-11": 1}}).used == {"GPU-22"}


def test_without_devices_of_its_own_nothing_is_compared() -> None:
    assert engaged([], [], ALL, "cpu", None, (7,)) == EngagedDevices()
    nowhere = [Device(0, "GPU-9", "Some GPU", "nvidia")]
    assert engaged(nowhere, nowhere, nowhere, "0000:01:00.0", None, (7,)) == EngagedDevices(("GPU-9",))


def test_a_serve_whose_engine_uses_another_device_shows_that_to_the_watchdog(tell: Callable[[Any], None]) -> None:
    line = "llama_prepare_model_devices: using device CUDA0 (RTX 3060) (0000:01:00.0) - 11000 MiB free"

    class Probe:
        source = "NVML"

        def devices(self) -> list[Device]:
            return ALL

        def by_process(self) -> Accounting | None:
            return None

        def notes(self) -> list[str]:
            return []

    async def story(workshop: Any) -> None:
        slot = Slot("gpu", devices=("nvidia:1",))
        fleet = workshop.supervisor(probe=Probe(), slot_of=lambda name: slot)
        running = await fleet.start(workshop.serve("--say", line, slot="gpu"), workshop.on_exit)
        assert running.facts["devices"] == "0000:01:00.0"
        assert "uses nvidia:0 (RTX 3060)" in fleet.host_state(running).devices.problem
        await fleet.close(leave_running=True)
        later = workshop.supervisor(probe=Probe(), slot_of=lambda name: slot)
        [adopted] = await later.adopt([running.serve], workshop.on_exit)
        assert "uses nvidia:0 (RTX 3060)" in later.host_state(adopted).devices.problem
        await later.close(leave_running=False)

    tell(story)
