"""Which devices an engine uses, beside those of its slot."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.fleet.memory.device_trees import GIB

from stoker.domain.serve import Serve, Slot
from stoker.engines.masks import Card, MachineCards, masked
from stoker.fleet.memory.devices import Accounting, Device, chosen
from stoker.fleet.memory.engaged import EngagedDevices, engaged
from stoker.fleet.supervision.memory_meter import MemoryMeter
from stoker.fleet.watchdog.assertions import Assertion, Observation, judge
from stoker_lab.testing.clock import FakeClock

SMALL = Device(0, "GPU-11", "RTX 3060", "nvidia", 12 * GIB, address="0000:01:00.0")
LARGE = Device(1, "GPU-22", "RTX 4090", "nvidia", 24 * GIB, address="0000:41:00.0")
RADEON = Device(0, "a1b2", "RX 7900 XT", "amd", 20 * GIB, address="0000:03:00.0")
ARC = Device(0, "0000:08:00.0", "Intel GPU", "intel", None, address="0000:08:00.0")
ALL = [SMALL, LARGE, RADEON, ARC]


class Probe:
    source = "NVML"

    def devices(self) -> list[Device]:
        return ALL

    def misses(self) -> bool:
        return False

    def by_process(self) -> Accounting | None:
        return None

    def notes(self) -> list[str]:
        return []


@pytest.fixture(autouse=True)
def _llama_server_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded engine, which is used without it, computes on processors."""
    monkeypatch.setattr("stoker.engines.llama_cpp.uses_embedded", lambda serve: False)


def of(said: str, *words: str, accounting: Accounting | None = None, **more: bool) -> EngagedDevices:
    slot = chosen(ALL, words)
    return engaged(slot, slot, ALL, said, accounting, (7,), **more)


def judged(devices: EngagedDevices) -> bool | None:
    [found] = [one for one in judge(Observation("a", devices=devices)) if one.assertion is Assertion.DEVICES]
    return found.ok


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
        ("00010000:41:00.0", ("nvidia:1",), ""),  # NVML's domain is cut to four digits
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
    assert of("0000:01:00.0", "nvidia:0").used == {"GPU-11"}
    assert of("", "nvidia:0").used is of("cuda", "nvidia:0").used is None
    assert of("0000:01:00.0", "nvidia:0", accounting={7: {"GPU-22": 1}, 8: {"GPU-11": 1}}).used == {"GPU-22"}


def test_a_device_that_was_not_printed_is_not_proved_to_be_idle() -> None:
    one_of_two = of("0000:01:00.0", "nvidia:0", "nvidia:1")  # `--split-mode none`
    assert (one_of_two.used, judged(one_of_two)) == (None, None)
    assert judged(of("0000:01:00.0", "nvidia:0", "nvidia:1", accounting={7: {"GPU-11": 1}})) is False


@pytest.mark.parametrize(
    ("said", "word", "held"),
    [("cpu", "nvidia:0", "GPU-11"), ("xpu", "nvidia:0", "GPU-11"), ("cuda", "intel:0", "0000:08:00.0")],
)
def test_what_is_measured_on_its_devices_precedes_what_was_printed(said: str, word: str, held: str) -> None:
    assert judged(of(said, word)) is False
    found = of(said, word, accounting={7: {held: 5 * GIB}})
    assert (found.problem, judged(found)) == ("", True)


@pytest.mark.parametrize("accounting", [{}, {8: {"GPU-22": GIB}}], ids=["unreadable", "no-process-of-it-in-sight"])
def test_a_driver_that_shows_nothing_of_it_proves_nothing(accounting: Accounting) -> None:
    assert judged(of("0000:08:00.0", "intel:0", accounting=accounting)) is True
    assert judged(of("", "intel:0", accounting=accounting)) is None


def test_nothing_is_compared_where_its_slot_or_the_engine_may_mean_a_device_that_is_not_shown() -> None:
    both = "0000:01:00.0, 0000:41:00.0"
    assert judged(of(both, "nvidia:0", accounting={7: {"GPU-11": 1}})) is False
    assert judged(of(both, "nvidia:0", accounting={7: {"GPU-11": 1}}, is_whole_slot=False)) is True
    assert judged(of("0000:99:00.0", "amd:0")) is judged(of("cuda", "intel:0")) is False
    assert judged(of("0000:99:00.0", "amd:0", may_miss=True)) is judged(of("cuda", "intel:0", may_miss=True)) is None
    assert judged(of("0000:01:00.0", "amd:0", may_miss=True)) is False


def meter_of(*words: str) -> MemoryMeter:
    return MemoryMeter(Probe(), FakeClock(), lambda name: Slot("gpu", devices=words), logging.getLogger("test"))


def test_a_slot_that_names_a_device_which_is_not_shown_is_told_from_one_that_names_another() -> None:
    serve = Serve("a", model="/m.gguf", slot="gpu")
    assert "uses nvidia:0" in meter_of("nvidia:1").devices(serve, (7,), "0000:01:00.0").problem
    assert meter_of("nvidia:1", "nvidia:5").devices(serve, (7,), "0000:01:00.0").problem == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"gpu_layers": 0},
        {"extra_args": ("-ngl", "0")},
        {"extra_args": ("--gpu-layers", "0")},
        {"extra_args": ("--n-gpu-layers=0",)},
        {"extra_args": ("--device", "none")},
        {"cmd": ("llama-server", "-ngl", "0")},
        {"cmd": ("sh", "-c", "exec llama-server -ngl 99 -ngl 0")},
        {"engine": "vllm", "extra_args": ("--device", "cpu")},
        {"env": {"CUDA_VISIBLE_DEVICES": ""}},
        {"env": {"GGML_VK_VISIBLE_DEVICES": "1"}},
        {"env": {"LLAMA_ARG_N_GPU_LAYERS": "0"}},
    ],
)
def test_a_serve_that_chooses_the_processor_or_its_devices_itself_is_not_compared(fields: dict[str, Any]) -> None:
    meter = meter_of("nvidia:0")
    given = {"name": "a", "engine": "llama.cpp", "model": "/m.gguf", "slot": "gpu"}
    assert judged(meter.devices(Serve(**given), (7,), "cpu")) is False
    machine = MachineCards((Card("nvidia", 0, "GPU-11"),))
    for serve in (Serve(**(given | fields)), masked(Serve(**(given | fields)), Slot("gpu", devices=("0",)), machine)):
        assert meter.devices(serve, (7,), "cpu") == EngagedDevices()


@pytest.mark.parametrize(
    "fields",
    [{}, {"extra_args": ("-ngl", "0", "-ngl", "99")}, {"cmd": ("x", "-ngl")}, {"env": {"CUDA_VISIBLE_DEVICES": "0"}}],
)
def test_a_mask_that_its_slot_gave_it_is_no_choice_of_its_own(fields: dict[str, Any]) -> None:
    slot, machine = Slot("gpu", devices=("0",)), MachineCards((Card("nvidia", 0, "GPU-11"),))
    serve = masked(Serve(**({"name": "a", "engine": "llama.cpp", "slot": "gpu"} | fields)), slot, machine)
    assert "CUDA_VISIBLE_DEVICES" in serve.env
    assert judged(meter_of("0").devices(serve, (7,), "cpu")) is False


def test_without_devices_of_its_own_nothing_is_compared() -> None:
    assert engaged([], [], ALL, "cpu", None, (7,)) == EngagedDevices()
    nowhere = [Device(0, "GPU-9", "Some GPU", "nvidia")]
    assert engaged(nowhere, nowhere, nowhere, "0000:01:00.0", None, (7,)) == EngagedDevices(("GPU-9",))


def test_a_serve_whose_engine_uses_another_device_shows_that_to_the_watchdog(tell: Callable[[Any], None]) -> None:
    line = "llama_prepare_model_devices: using device CUDA0 (RTX 3060) (0000:01:00.0) - 11000 MiB free"

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
