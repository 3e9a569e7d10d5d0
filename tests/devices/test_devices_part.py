"""The part of the server that watches devices: what it shows, when it speaks up, and what energy requests took."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.app.server_parts import ServerContext
from stoker.domain.access import ListenSettings, Paths, Settings
from stoker.domain.serve import Driver, Serve, Slot
from stoker.fleet.memory.devices import Device
from stoker.store.metrics import Metrics
from stoker_devices import server
from stoker_devices.reading import DeviceReading, Throttle
from stoker_devices.server import DevicesPart, families

ZERO = DeviceReading(
    Device(0, "GPU-a", "NVIDIA L4", "nvidia", total=100, free=40, driver="570.1"),
    use=0.5, temperature=66.4, temperature_limit=92, watts=60.0, watts_limit=72.0, joules=1234.5, core_mhz=2040,
    throttled=frozenset({Throttle.POWER}),
)  # fmt: skip
ONE = replace(ZERO, device=Device(1, "GPU-b", "NVIDIA L4", "nvidia"), watts=40.0)
SERVES = (
    Serve("a", slot="gpu0", gpu_layers=99), Serve("b", slot="gpu0+gpu1", gpu_layers=99), Serve("loose", gpu_layers=99),
    Serve("slow", slot="gpu0", gpu_layers=0),
    Serve("cloud", driver=Driver.EXTERNAL, base_url="http://x", slot="gpu0"),
)  # fmt: skip
SLOTS = (Slot("gpu0", devices=("0",)), Slot("gpu1", devices=("1",)))


class Stage:
    """A part that is told what devices say and which serves have requests under way."""

    def __init__(self, sampler: Any = None) -> None:
        self.notes: list[tuple[str, str]] = []
        settings = Settings(ListenSettings(), Paths("", "", ""), SLOTS, SERVES)
        context = ServerContext(
            lambda: settings, Path(), None, lambda event: None, Metrics(),  # type: ignore[arg-type]
            lambda kind, serve, text: self.notes.append((kind, text)),
        )  # fmt: skip
        self.part = DevicesPart(context, sampler)
        self.states = {serve.name: SimpleNamespace(name=serve.name, serve=serve, leases={}) for serve in SERVES}
        scheduler = SimpleNamespace(serves=self.states)
        self.part.connect(SimpleNamespace(conductor=SimpleNamespace(scheduler=scheduler)))  # type: ignore[arg-type]
        self.part.configure(settings)
        self._now = 0.0

    def look(self, *readings: DeviceReading, busy: str = "") -> None:
        for name, state in self.states.items():
            state.leases = {1: ()} if name in busy.split() else {}
        self._now += 2.0
        self.part.on_readings(readings, self._now)


def samples(*readings: DeviceReading) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.values())}": sample.value
        for family in families(readings)
        for sample in family.samples
    }


def test_what_status_and_metrics_say_of_a_device() -> None:
    stage = Stage()
    assert stage.part.status() == {"devices": []}
    assert stage.part.metrics() == []
    stage.look(ZERO)
    assert stage.part.status() == {"devices": [{
        "name": "nvidia:0", "title": "NVIDIA L4", "uuid": "GPU-a", "use": 0.5, "memory_used": 60, "memory": 100,
        "temperature": 66, "temperature_limit": 92, "watts": 60, "watts_limit": 72, "core_mhz": 2040,
        "memory_mhz": None, "throttled": ["power"], "suspended": False,
    }]}  # fmt: skip
    found = samples(ZERO)
    assert found["stoker_device_power_watts['nvidia:0']"] == 60.0
    assert found["stoker_device_energy_joules_total['nvidia:0']"] == 1234.5
    assert found["stoker_device_clock_hertz['core', 'nvidia:0']"] == 2.04e9
    assert found["stoker_device_throttled['nvidia:0', 'power']"] == 1.0
    assert found["stoker_device_throttled['heat', 'nvidia:0']"] == 0.0


def test_what_a_device_does_not_say_is_no_sample_rather_than_zero() -> None:
    found = samples(DeviceReading(ZERO.device))
    assert {name.partition("[")[0] for name in found} == {
        "stoker_device_info", "stoker_device_memory_bytes", "stoker_device_memory_used_bytes",
    }  # fmt: skip


def test_lasting_heat_is_an_event_and_so_is_its_end_but_a_power_limit_is_none() -> None:
    stage = Stage()
    hot = replace(ZERO, temperature=93.0, throttled=frozenset({Throttle.HEAT, Throttle.POWER}))
    for _ in range(server.LASTING - 1):
        stage.look(hot)
    stage.look(ZERO)
    assert stage.notes == [], "it did not last"
    for _ in range(server.LASTING + 3):
        stage.look(hot)
    [(kind, text)] = stage.notes
    assert kind == "throttled"
    assert text.startswith("nvidia:0 (NVIDIA L4) slows itself down at 93 °C: heat; check its cooling")
    stage.look(ZERO)
    assert stage.notes[1:] == [("recovered", "nvidia:0 (NVIDIA L4) runs at full speed again")]


def test_a_serve_takes_the_power_of_its_slots_devices_while_it_works() -> None:
    stage = Stage()
    watts_of = stage.part.watts_of
    stage.look(ZERO, ONE)
    assert watts_of("a") is None, "it has not worked yet"
    stage.look(ZERO, ONE, busy="a")
    assert watts_of("a") == 60.0
    stage.look(ZERO, ONE, busy="b")
    assert watts_of("b") == 100.0
    stage.look(ZERO, ONE, busy="loose cloud slow")
    assert watts_of("loose") is None, "it may use either device"
    assert watts_of("cloud") is None, "it runs elsewhere"
    assert watts_of("slow") is None, "it computes on processors"
    assert watts_of("nobody") is None
    stage.look(replace(ZERO, watts=None), ONE, busy="a")
    assert watts_of("a") is None
    alone = Stage()
    alone.look(ZERO)
    alone.look(ZERO, busy="loose")
    assert alone.part.watts_of("loose") == 60.0, "there is no other device"


class Scripted:
    """A sampler. `says`: of each reading in turn, then of all."""

    def __init__(self, *says: Callable[[], tuple[DeviceReading, ...]]) -> None:
        self._says = says
        self.looks = 0

    def read(self) -> tuple[DeviceReading, ...]:
        self.looks += 1
        return self._says[min(self.looks, len(self._says)) - 1]()


@asynccontextmanager
async def watching(monkeypatch: pytest.MonkeyPatch, sampler: Scripted) -> AsyncIterator[Callable[[Any], Any]]:
    """The part at work, without pauses. Gives what waits until the power of the first device is some value."""
    monkeypatch.setattr(server, "ANSWERS_WITHIN", 0.05)
    monkeypatch.setattr(server, "EVERY", 0.01)
    monkeypatch.setattr(server, "pause", lambda has_devices, took: 0.01)
    stage = Stage(sampler)
    running = asyncio.get_running_loop().create_task(stage.part.run(None))  # type: ignore[arg-type]

    async def until(watts: float | None) -> None:
        async with asyncio.timeout(10):
            while [one["watts"] for one in stage.part.status()["devices"]] != [watts]:  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)

    yield until
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_a_driver_that_hangs_makes_its_devices_unknown_and_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def hangs() -> tuple[DeviceReading, ...]:
        gate.wait(20)
        return (replace(ZERO, watts=33.0),)

    async def story() -> None:
        sampler = Scripted(lambda: (ZERO,), hangs, lambda: (ZERO,))
        async with watching(monkeypatch, sampler) as until:
            await until(60)
            await until(None)
            assert sampler.looks == 2, "one thread hangs, and no other one is started"
            gate.set()
            await until(60)

    asyncio.run(story())


def test_a_first_reading_that_comes_late_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without persistence mode the driver starts with it."""
    gate, hold = threading.Event(), threading.Event()

    def late() -> tuple[DeviceReading, ...]:
        gate.wait(20)
        return (ZERO,)

    def holds() -> tuple[DeviceReading, ...]:
        hold.wait(20)
        return ()

    async def story() -> None:
        async with watching(monkeypatch, Scripted(late, holds)) as until:
            await asyncio.sleep(0.1)
            monkeypatch.setattr(server, "ANSWERS_WITHIN", 20.0)
            gate.set()
            await until(60)
            hold.set()

    asyncio.run(story())


def test_a_reading_that_fails_is_shown_as_silence_and_the_next_one_counts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hold = threading.Event()

    def fails() -> tuple[DeviceReading, ...]:
        raise RuntimeError("can't start new thread")

    def holds() -> tuple[DeviceReading, ...]:
        hold.wait(20)
        return (ZERO,)

    async def story() -> None:
        async with watching(monkeypatch, Scripted(lambda: (ZERO,), fails, fails, holds)) as until:
            await until(60)
            await until(None)
            hold.set()
            await until(60)

    asyncio.run(story())
    assert len([one for one in caplog.records if "could not be read" in one.getMessage()]) == 1
