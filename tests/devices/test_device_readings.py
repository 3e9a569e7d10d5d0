"""What follows from the figures of devices, and what stays unknown."""

from __future__ import annotations

import pytest

from stoker.fleet.memory.devices import Device
from stoker_devices.power import SlotPower
from stoker_devices.reading import (
    DeviceReading,
    EngineBusy,
    Throttle,
    amd_throttled,
    completed,
    hottest,
    nvidia_throttled,
    silent,
)
from stoker_devices.sampler import EVERY, LOOK_AGAIN, pause

CARD = Device(1, "GPU-b", "Card", "intel", total=100, free=40)
POWER, HEAT, HARDWARE = Throttle.POWER, Throttle.HEAT, Throttle.HARDWARE


def test_a_device_is_named_as_in_the_configuration_and_its_use_of_memory_is_what_is_not_free() -> None:
    assert (DeviceReading(CARD).name, DeviceReading(CARD).memory_used) == ("intel:1", 60)
    gone = silent(DeviceReading(CARD, use=1.0, watts=100.0), at=5.0)
    assert (gone.name, gone.memory_used, gone.use, gone.watts, gone.throttled) == ("intel:1", None, None, None, None)
    assert gone.device.total == 100


def test_power_and_use_follow_from_counters_where_the_device_says_neither() -> None:
    engines = {"ccs": EngineBusy(10, 100), "bcs": EngineBusy(0, 100)}
    before = DeviceReading(CARD, at=10.0, joules=500.0, engines=engines)
    later = {"ccs": EngineBusy(35, 150), "bcs": EngineBusy(5, 150)}
    found = completed(before, DeviceReading(CARD, at=12.0, joules=560.0, engines=later))
    assert (found.watts, found.use) == (30.0, 0.5)
    said = completed(before, DeviceReading(CARD, at=12.0, joules=560.0, engines=later, watts=7.0, use=0.1))
    assert (said.watts, said.use) == (7.0, 0.1)


@pytest.mark.parametrize(
    ("joules", "engines"),
    [
        (None, {}),
        (490.0, {"ccs": EngineBusy(9, 150)}),  # the driver was loaded again; a program ended
        (None, {"rcs": EngineBusy(9, 150)}),  # another kind of engine
        (None, {"ccs": EngineBusy(10, 100)}),  # no time has passed on it
    ],
)
def test_they_stay_unknown_where_counters_went_back_or_are_not_there(
    joules: float | None, engines: dict[str, EngineBusy]
) -> None:
    before = DeviceReading(CARD, at=10.0, joules=500.0, engines={"ccs": EngineBusy(10, 100)})
    found = completed(before, DeviceReading(CARD, at=12.0, joules=joules, engines=engines))
    assert (found.watts, found.use) == (None, None)
    assert completed(None, before).watts is None


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0x0, set()),
        (0x1 | 0x2 | 0x10 | 0x100, set()),  # idle, clocks that somebody set
        (0x4, {POWER}),
        (0x20, {HEAT}),
        (0x40 | 0x8, {HEAT}),
        (0x8, {HARDWARE}),
        (0x80 | 0x8, {HARDWARE}),
        (0x4 | 0x40 | 0x80, {POWER, HEAT, HARDWARE}),
    ],
)
def test_why_an_nvidia_device_is_slow(bits: int, reasons: set[Throttle]) -> None:
    assert nvidia_throttled(bits) == reasons


def gpu_metrics(bits: int, revision: tuple[int, int] = (1, 3)) -> bytes:
    return bytes((120, 0, *revision)).ljust(112, b"\0") + bits.to_bytes(8, "little")


@pytest.mark.parametrize(
    ("content", "reasons"),
    [
        (gpu_metrics(0), set()),
        (gpu_metrics(1 << 1), {POWER}),
        (gpu_metrics(1 << 16), {POWER}),
        (gpu_metrics(1 << 36 | 1 << 45), {HEAT}),
        (gpu_metrics(1 << 47), {HARDWARE}),
        (gpu_metrics(1 << 57), {POWER}),
        (gpu_metrics(2**64 - 1), None),
        (gpu_metrics(1 << 36, (1, 4)), None),
        (gpu_metrics(1 << 36)[:-1], None),
        (b"", None),
    ],
)
def test_why_an_amd_device_is_slow(content: bytes, reasons: set[Throttle] | None) -> None:
    assert amd_throttled(content) == reasons


def test_the_sensor_nearest_to_its_limit_counts() -> None:
    assert hottest([(60.0, 100.0), (80.0, 110.0), (90.0, None)]) == (80.0, 110.0)
    assert hottest([(60.0, None), (70.0, None)]) == (70.0, None)
    assert hottest([]) == (None, None)


def test_reading_takes_a_twentieth_of_the_time_at_most_and_nothing_is_seldom_looked_for() -> None:
    assert pause(True, 0.001) == EVERY
    assert pause(True, 1.0) == 20.0
    assert pause(False, 0.001) == LOOK_AGAIN


def test_the_power_of_a_device_is_divided_among_the_slots_that_are_busy_on_it() -> None:
    power = SlotPower()
    assert power.watts("a") is None
    power.add(2.0, {"nvidia:0": 300.0, "nvidia:1": 100.0}, {"a": ("nvidia:0",), "b": ("nvidia:0", "nvidia:1")})
    assert (power.watts("a"), power.watts("b")) == (150.0, 250.0)
    power.add(2.0, {"nvidia:0": 50.0, "nvidia:1": 100.0}, {})  # idle: nobody pays
    assert power.watts("a") == 150.0
    for _ in range(300):
        power.add(2.0, {"nvidia:0": 400.0}, {"a": ("nvidia:0",)})
    assert power.watts("a") == pytest.approx(400.0, abs=1.0), "what was long ago is forgotten"


def test_power_is_unknown_where_a_device_does_not_say_it_or_it_is_not_known_which_is_used() -> None:
    power = SlotPower()
    power.add(2.0, {"nvidia:0": 300.0}, {"a": ("nvidia:0",)})
    power.add(2.0, {"nvidia:0": None}, {"a": ("nvidia:0",), "b": ("nvidia:0", "nvidia:1"), "c": ()})
    assert [power.watts(slot) for slot in "abc"] == [None, None, None]
