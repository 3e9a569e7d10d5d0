"""The part of the server that watches devices: /status, /metrics, events, and the energy in usage."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from stoker.app.server_parts import RunningServer, ServerAccess, ServerContext, ServerPart
from stoker.blocking import in_own_thread
from stoker.domain.access import Settings
from stoker.domain.serve import Driver, Serve, Slot, joined_slot, replicas_of
from stoker.engines.registry import engine_of
from stoker.fleet.swapping.conductor import Conductor
from stoker_devices.power import SlotPower
from stoker_devices.reading import ALARMING, DeviceReading, Throttle
from stoker_devices.sampler import EVERY, Sampler, all_silent, pause

if TYPE_CHECKING:
    from prometheus_client.core import Metric

log = logging.getLogger("stoker.devices")
ANSWERS_WITHIN = 5.0
"""Seconds after which devices are shown as silent; the reading goes on, and no second one is started until it ends."""
LASTING = 5
"""Readings in a row after which throttling is an event."""
_SUBJECT = "the accelerators"


def build(context: ServerContext) -> ServerPart:
    return DevicesPart(context, Sampler())


class DevicesPart(ServerPart):
    def __init__(self, context: ServerContext, sampler: Sampler) -> None:
        self._context = context
        self._sampler = sampler
        self._conductor: Conductor | None = None
        self._replicas: Mapping[str, Sequence[Serve]] = {}
        self._on_devices: frozenset[str] = frozenset()
        """Serves and replicas that compute on devices of this machine."""
        self._slots: Mapping[str, Slot] = {}
        self._readings: tuple[DeviceReading, ...] = ()
        self._slot_power = SlotPower()
        self._sampled_at: float | None = None
        self._throttled_for: dict[str, int] = {}
        """By device: how many readings in a row."""
        self._has_failed = False
        """A reading: the first one is logged."""
        self.watts_of = self._watts_of

    def connect(self, server: ServerAccess) -> None:
        self._conductor = server.conductor

    def configure(self, settings: Settings) -> None:
        self._replicas = {serve.name: replicas_of(serve) for serve in settings.serves}
        self._slots = {slot.name: slot for slot in settings.slots}
        every = [replica for replicas in self._replicas.values() for replica in replicas]
        self._on_devices = frozenset(replica.name for replica in every if uses_devices(replica))

    async def run(self, server: RunningServer) -> None:
        while True:
            began = time.monotonic()
            readings = await self._read(began)
            now, is_first = time.monotonic(), not self._readings
            self.on_readings(readings, now)
            took = 0.0 if is_first else now - began  # the first one may have had to start the driver
            await asyncio.sleep(pause(bool(readings), took))

    async def _read(self, began: float) -> tuple[DeviceReading, ...]:
        """What devices say, however late: until then, and if reading fails, they are silent."""
        reading = asyncio.get_running_loop().create_task(in_own_thread(self._sampler.read, _SUBJECT))
        try:
            limit = ANSWERS_WITHIN
            while not (await asyncio.wait({reading}, timeout=limit))[0]:
                now = time.monotonic()
                self.on_readings(all_silent(self._readings, now), now)
                limit = EVERY
            return reading.result()
        except Exception as error:
            if not self._has_failed:
                log.warning("accelerators could not be read, and are again in a moment: %r", error)
            self._has_failed = True
            return all_silent(self._readings, began)
        finally:
            reading.cancel()

    def on_readings(self, readings: tuple[DeviceReading, ...], now: float) -> None:
        """`now`: monotonic seconds."""
        self._readings = readings
        self._note_throttling()
        if self._sampled_at is not None and readings:
            watts = {one.name: one.watts for one in readings}
            self._slot_power.add(now - self._sampled_at, watts, self._busy())
        self._sampled_at = now

    def _note_throttling(self) -> None:
        for one in self._readings:
            before = self._throttled_for.get(one.name, 0)
            why = sorted((one.throttled or frozenset()) & ALARMING)
            self._throttled_for[one.name] = before + 1 if why else 0
            if why and before + 1 == LASTING:
                at = f" at {one.temperature:.0f} °C" if one.temperature is not None else ""
                text = f"{one.name} ({one.device.name}) slows itself down{at}: {' and '.join(why)}"
                self._context.note("throttled", "", f"{text}; check its cooling and its power supply")
            elif not why and before >= LASTING:
                self._context.note("recovered", "", f"{one.name} ({one.device.name}) runs at full speed again")

    # -- power of slots ------------------------------------------------------------------------------------------------

    def _busy(self) -> dict[str, tuple[str, ...]]:
        """The slots that have requests under way, with the names of their devices."""
        if self._conductor is None:
            return {}
        states = self._conductor.scheduler.serves.values()
        busy = [state.serve for state in states if state.leases and state.name in self._on_devices]
        return {_place(serve): self._devices(serve) for serve in busy}

    def _devices(self, serve: Serve) -> tuple[str, ...]:
        """Those of its slot. None, if it may use several and the slot does not say which."""
        slot = joined_slot(serve.slot or "", self._slots)
        words = slot.devices if slot is not None else ()
        if not words:
            return tuple(one.name for one in self._readings) if len(self._readings) == 1 else ()
        return tuple(one.name for one in self._readings if any(one.device.is_named(word) for word in words))

    def _watts_of(self, name: str) -> float | None:
        """See `ServerPart.watts_of`."""
        replicas = [one for one in self._replicas.get(name, ()) if one.name in self._on_devices]
        known = [watts for one in replicas if (watts := self._slot_power.watts(_place(one))) is not None]
        return sum(known) / len(known) if known else None

    # -- what is shown -------------------------------------------------------------------------------------------------

    def status(self) -> Mapping[str, object]:
        return {"devices": [document(one) for one in self._readings]}

    def metrics(self) -> Sequence[Metric]:
        return families(self._readings)


def uses_devices(serve: Serve) -> bool:
    """Whether it computes on devices of this machine, as far as that is known. May look for its program."""
    is_elsewhere = serve.driver in (Driver.EXTERNAL, Driver.RAY, Driver.BOX)
    return not is_elsewhere and not engine_of(serve.engine).on_processors(serve)


def _place(serve: Serve) -> str:
    """Its slot; a serve without one is a slot of its own."""
    return serve.slot or f"~{serve.name}"


def document(one: DeviceReading) -> dict[str, object]:
    """What `/status` says of a device. Rounded, so that a reader of /events is not told of every trifle."""
    return {
        "name": one.name,
        "title": one.device.name,
        "uuid": one.device.uuid,
        "use": round(one.use, 2) if one.use is not None else None,
        "memory_used": one.memory_used,
        "memory": one.device.total,
        "temperature": _whole(one.temperature),
        "temperature_limit": _whole(one.temperature_limit),
        "watts": _whole(one.watts),
        "watts_limit": _whole(one.watts_limit),
        "core_mhz": _whole(one.core_mhz),
        "memory_mhz": _whole(one.memory_mhz),
        "throttled": sorted(one.throttled) if one.throttled is not None else None,
        "suspended": one.is_suspended,
    }


def _whole(value: float | None) -> int | None:
    return round(value) if value is not None else None


def families(readings: Sequence[DeviceReading]) -> list[Metric]:
    """What a device does not say has no sample."""
    if not readings:
        return []
    from stoker.store.families import counter, gauge

    info = [((one.name, one.device.name, one.device.uuid, one.device.driver or ""), 1.0) for one in readings]
    found: list[Metric] = [
        gauge("stoker_device_info", "Accelerators of this machine.", ("device", "name", "uuid", "driver"), info)
    ]
    rows: tuple[tuple[str, str, Callable[[DeviceReading], float | None]], ...] = (
        ("use_ratio", "Share of the time in which it computed.", lambda one: one.use),
        ("memory_used_bytes", "Its memory in use.", lambda one: one.memory_used),
        ("memory_bytes", "Its memory.", lambda one: one.device.total),
        ("temperature_celsius", "The sensor nearest to its limit.", lambda one: one.temperature),
        ("temperature_limit_celsius", "From which on it slows itself down.", lambda one: one.temperature_limit),
        ("power_watts", "Power of the whole device.", lambda one: one.watts),
        ("power_limit_watts", "Its power limit.", lambda one: one.watts_limit),
    )
    for name, text, value in rows:
        samples = [((one.name,), float(known)) for one in readings if (known := value(one)) is not None]
        found.append(gauge(f"stoker_device_{name}", text, ("device",), samples))
    energy = [((one.name,), one.joules) for one in readings if one.joules is not None]
    found.append(counter("stoker_device_energy_joules", "Energy since its driver was loaded.", ("device",), energy))
    clocks = [
        ((one.name, clock), mhz * 1e6)
        for one in readings
        for clock, mhz in (("core", one.core_mhz), ("memory", one.memory_mhz))
        if mhz is not None
    ]
    found.append(gauge("stoker_device_clock_hertz", "Its clocks: core, memory.", ("device", "clock"), clocks))
    reasons = [
        ((one.name, str(why)), float(why in one.throttled))
        for one in readings
        if one.throttled is not None
        for why in Throttle
    ]
    text = "Whether it runs slower than it could, by reason: power, heat, hardware."
    found.append(gauge("stoker_device_throttled", text, ("device", "reason"), reasons))
    return found
