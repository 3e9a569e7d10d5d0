"""Gives a slot's devices up while another program needs them: `yields_to` and `yields_above`.

`next_state` decides, `look` finds out who needs the devices, and `SlotYielder` asks every two seconds, beside the event
loop, and only while a slot has such a key.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import NamedTuple

from stoker.blocking import in_own_thread
from stoker.domain import figures
from stoker.domain.protocols import Clock
from stoker.domain.serve import Slot
from stoker.fleet.memory.devices import Accounting, Device, DeviceProbe, chosen
from stoker.fleet.swapping.conductor import Conductor
from stoker.request.lease.state import PauseCause

log = logging.getLogger("stoker.fleet")
EVERY = 2.0
"""Seconds between two looks."""
MOST_OF_TIME = 0.05
"""Share of the time that looking may take: a slow driver is asked less often."""
LOOK_WITHIN = 30.0


class Need(NamedTuple):
    """Who else needs the devices of a slot."""

    programs: tuple[str, ...] = ()
    """Those of `yields_to`: `comfyui (process 4711)`."""
    foreign: int | None = None
    """Bytes of its devices that processes hold which are not Stoker's, as far as it is reported; None: unknown."""


class YieldState(NamedTuple):
    """Whether a slot is given up."""

    reason: str = ""
    """For whom; empty: it is in use."""
    free_since: float | None = None
    """Since when nobody needs it any more; None: somebody does, or it is in use."""


def next_state(slot: Slot, need: Need, state: YieldState, now: float) -> YieldState:
    """The decision, once for each look.

    1. a program of `yields_to` needs it, or more than `yields_above` is held -> it is given up, or stays so
    2. it is in use                                                           -> it stays in use
    3. it is given up, and how much is held is unknown, but counts            -> it stays given up
    4. for less than `return_after` nobody has needed it                      -> it stays given up
    5. nobody has needed it for that long                                     -> it is in use again
    """
    reason = _reason(slot, need)
    if reason:
        return YieldState(state.reason or reason)  # 1
    if not state.reason:
        return state  # 2
    if slot.yields_above is not None and need.foreign is None:
        return YieldState(state.reason)  # 3
    since = now if state.free_since is None else state.free_since
    if now - since < slot.return_after:
        return YieldState(state.reason, since)  # 4
    return YieldState()  # 5


def _reason(slot: Slot, need: Need) -> str:
    if need.programs:
        return f"{' and '.join(need.programs)} needs its devices"
    if slot.yields_above is not None and need.foreign is not None and need.foreign > slot.yields_above:
        limit = figures.size(slot.yields_above)
        return f"other programs hold {figures.size(need.foreign)} of its devices, more than {limit} (yields_above)"
    return ""


class Process(NamedTuple):
    """What the system says of a process; empty: it does not say."""

    name: str = ""
    arguments: tuple[str, ...] = ()
    folder: str = ""
    """Its working directory."""


_INTERPRETERS = ("python", "pypy", "node", "bun", "deno", "ruby", "perl", "java", "wine")


def names_of(process: Process) -> frozenset[str]:
    """By which names `yields_to` may mean it, in lower case: its name, those of its program file and its script, and of
    the folders in which these lie. `python main.py` in `/home/ann/ComfyUI` is `comfyui`, too.
    """
    files = list(process.arguments[:1])
    first = PurePath(files[0]).name.casefold() if files else ""
    if first.startswith(_INTERPRETERS):
        files += [argument for argument in process.arguments[1:] if not argument.startswith("-")][:1]
    names = {process.name}
    for file in files:
        path = PurePath(process.folder, file) if file is not files[0] or "/" in file else PurePath(file)
        names.update((path.name, path.stem, *path.parent.parts))
    return frozenset(name.casefold() for name in names if name)


def look(slots: Sequence[Slot], probe: DeviceProbe, ours: Callable[[], Collection[int]]) -> dict[str, Need]:
    """Who needs the devices of these slots, by slot. `ours`: the processes of Stoker's serves. Blocks.

    Where the driver says which processes use a device, only these count; else every process that runs.
    """
    devices = probe.devices()
    accounting = probe.by_process() if devices else None
    own = {os.getpid(), *ours()}
    processes = _Processes()
    return {slot.name: _need(slot, devices, accounting, own, processes) for slot in slots}


def _need(
    slot: Slot, devices: Sequence[Device], accounting: Accounting | None, ours: set[int], processes: _Processes
) -> Need:
    if accounting is None:
        return Need(_named(slot, [pid for pid in processes.all() if pid not in ours], processes))
    uuids = {device.uuid for device in chosen(devices, slot.devices)}
    foreign = {pid: held for pid, held in accounting.items() if pid not in ours and not uuids.isdisjoint(held)}
    held = sum(size or 0 for by_device in foreign.values() for uuid, size in by_device.items() if uuid in uuids)
    return Need(_named(slot, foreign, processes), held)


def _named(slot: Slot, pids: Collection[int], processes: _Processes) -> tuple[str, ...]:
    wanted = {name.casefold(): name for name in slot.yields_to}
    found: dict[str, int] = {}
    for pid in pids if wanted else ():
        for name in names_of(processes.read(pid)) & wanted.keys():
            found.setdefault(name, pid)
    return tuple(f"{wanted[name]} (process {pid})" for name, pid in sorted(found.items()))


class _Processes:
    """Each process is read once in a look."""

    def __init__(self) -> None:
        self._read: dict[int, Process] = {}

    def all(self) -> list[int]:
        import psutil

        pids: list[int] = psutil.pids()
        return pids

    def read(self, pid: int) -> Process:
        if pid not in self._read:
            self._read[pid] = _read(pid)
        return self._read[pid]


def _read(pid: int) -> Process:
    import psutil

    process = Process()
    with contextlib.suppress(psutil.Error, OSError):
        found = psutil.Process(pid)
        process = Process(found.name())
        process = process._replace(arguments=tuple(found.cmdline()))
        process = process._replace(folder=found.cwd())  # last: that of another user is secret
    return process


Look = Callable[[Sequence[Slot]], Mapping[str, Need]]


class SlotYielder:
    """Pauses slots, and ends these pauses. `look` blocks: it is called in a thread of its own."""

    def __init__(self, conductor: Conductor, look: Look, clock: Clock) -> None:
        self._conductor = conductor
        self._look = look
        self._clock = clock
        self._states: dict[str, YieldState] = {}
        self._changed = asyncio.Event()
        self._has_failed = False

    def configure(self) -> None:
        """The configuration has changed."""
        self._changed.set()

    async def run(self) -> None:
        """For ever, on the event loop; its owner cancels it."""
        while True:
            self._changed.clear()
            began = self._clock.now()
            await self.look_once()
            wait = max(EVERY, (self._clock.now() - began) / MOST_OF_TIME) if self._slots() else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def look_once(self) -> None:
        """Look at all slots that yield, and act."""
        slots = self._slots()
        for name in self._states.keys() - {slot.name for slot in slots}:
            del self._states[name]
            self._conductor.resume(name, PauseCause.PROGRAM, "it yields to no program any more")
        needs = await self._needs(slots) if slots else {}
        now = self._clock.now()
        for slot in self._slots():
            if slot.name not in needs:
                continue
            before = self._states.get(slot.name, YieldState())
            after = self._states[slot.name] = next_state(slot, needs[slot.name], before, now)
            if after.reason:
                self._conductor.pause(slot.name, PauseCause.PROGRAM, after.reason)
            elif before.reason:
                self._conductor.resume(slot.name, PauseCause.PROGRAM, f"free again for {slot.return_after:g} s")

    def _slots(self) -> list[Slot]:
        states = self._conductor.scheduler.slots.values()
        return [one.slot for one in states if one.slot.yields and one.serves]

    async def _needs(self, slots: Sequence[Slot]) -> Mapping[str, Need]:
        """Empty if it cannot be found out: then everything stays as it is."""
        try:
            async with asyncio.timeout(LOOK_WITHIN):
                needs = await in_own_thread(partial(self._look, slots), "programs that use devices")
        except Exception as error:
            if not self._has_failed:
                log.warning("which programs use the devices is unknown, so slots stay as they are: %r", error)
            self._has_failed = True
            return {}
        self._has_failed = False
        return needs
