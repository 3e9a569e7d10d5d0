"""Puts ready serves to sleep and wakes them, and proves both.

| `sleep_level` | who does it | the weights |
|---|---|---|
| 1 | the engine, by its own endpoints | in main memory |
| 2 | the engine, by its own endpoints | dropped, read again |
| 3 | the CUDA driver, which suspends the processes | in main memory, with everything else on the device |

Asleep: at least half of its memory is free; if memory cannot be measured, whoever put it to sleep says that it sleeps.
Awake: it is proved ready with a canary, and answers the weights probe as before. An engine whose weights were not
restored answers, too, but with gibberish.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Protocol

from stoker.domain import figures
from stoker.domain.protocols import Clock
from stoker.domain.serve import SUSPENDED, Serve
from stoker.engines import sleep_api
from stoker.engines.readiness import EngineEnded, NotReady, Readiness
from stoker.engines.sleep_api import VerbFailed
from stoker.fleet.memory.host import HostMemory, host_memory_of
from stoker.fleet.memory.ledger import MemorySize, SizeSource
from stoker.fleet.supervision.managed_serve import ManagedServe
from stoker.fleet.suspend import suspension
from stoker.fleet.suspend.suspension import SuspendFailed

WITHOUT_WEIGHTS = 2
"""The level at which nothing stays in main memory."""
SLEEP_LIMIT = 30.0
"""Seconds, and at level 3 one more for each BYTES_PER_SECOND that the driver has to copy."""
WAKE_LIMIT = 60.0
"""The same: waking that takes longer is no faster than a start."""
BYTES_PER_SECOND = 10**9
RELEASED_SHARE = 0.5
"""Share of its memory that an engine has to release to count as asleep."""
POLL_INTERVAL = 0.02
"""Seconds."""
POLLS = 100

Measure = Callable[[Serve, Collection[int]], MemorySize]
"""What these processes of a serve hold of its slot's memory. Is called in a thread."""


class SleepMethod(Protocol):
    """How a serve is put to sleep. Nothing is proved here."""

    async def sleep(self, managed: ManagedServe, held: int | None) -> None:
        """`held`: bytes of device memory that it holds. Raises VerbFailed or SuspendFailed."""

    async def wake(self, managed: ManagedServe) -> None:
        """Raises as `sleep`; the serve has to be stopped then."""

    async def is_asleep(self, managed: ManagedServe) -> bool | None:
        """None: unknown."""


class SleepByEngine:
    """A `SleepMethod`: levels 1 and 2."""

    async def sleep(self, managed: ManagedServe, held: int | None) -> None:
        await sleep_api.sleep(managed.target, managed.serve.engine, managed.serve.sleep_level or 1)

    async def wake(self, managed: ManagedServe) -> None:
        await sleep_api.wake(managed.target, managed.serve.engine, managed.serve.sleep_level or 1)

    async def is_asleep(self, managed: ManagedServe) -> bool | None:
        return await sleep_api.is_asleep(managed.target, managed.serve.engine)


class SleepByDriver:
    """A `SleepMethod`: level 3, for any engine that uses CUDA. While the serve may answer nothing, `is_suspended`."""

    def __init__(self, memory: Callable[[int | None], HostMemory] = host_memory_of) -> None:
        """`memory`: what is left in main memory for a process, and in its control group; None: for Stoker's own."""
        self._memory = memory

    async def sleep(self, managed: ManagedServe, held: int | None) -> None:
        if managed.unit is None or managed.unit.pid is None:
            raise SuspendFailed(
                "its processes are not visible here, since Docker or systemd runs in a machine or container of its "
                "own: remove its `sleep_level`, or run Stoker beside them"
            )
        available = self._memory(managed.unit.pid if managed.has_group else None).available
        if held is not None and available is not None and held > available:
            raise SuspendFailed(
                f"its {figures.size(held)} of device memory do not fit into main memory, of which "
                f"{figures.size(available)} are free: lower `[warm] memory`, or remove its `sleep_level`"
            )
        managed.is_suspended = True
        try:
            await suspension.suspend(await asyncio.to_thread(managed.members))
        except SuspendFailed as failure:
            managed.is_suspended = not failure.runs_on
            raise

    async def wake(self, managed: ManagedServe) -> None:
        await suspension.resume(await asyncio.to_thread(managed.members))
        managed.is_suspended = False

    async def is_asleep(self, managed: ManagedServe) -> bool | None:
        return await suspension.is_suspended(await asyncio.to_thread(managed.members))


def _copying(serve: Serve, size: int | None) -> float:
    """Seconds that the driver may take to copy its device memory; the engine has none to copy."""
    return (size or 0) / BYTES_PER_SECOND if serve.sleep_level == SUSPENDED else 0.0


class SleepControl:
    """Puts ready serves to sleep and wakes them. The supervisor changes their phase."""

    def __init__(self, clock: Clock, measure: Measure, by_driver: SleepMethod | None = None) -> None:
        self._clock = clock
        self._measure = measure
        self._by_engine: SleepMethod = SleepByEngine()
        self._by_driver = by_driver or SleepByDriver()

    async def sleep(self, managed: ManagedServe) -> str:
        """Put a serve to sleep. Empty: it sleeps and its memory is free; else why not. On cancel it may be asleep or
        not.
        """
        serve, level = managed.serve, managed.serve.sleep_level
        if level is None:
            return "it has no `sleep_level`"
        method = self._method(managed)
        before = await self._held_by(managed)
        limit = SLEEP_LIMIT + _copying(serve, before)
        try:
            async with asyncio.timeout(limit):
                readiness = Readiness(serve, managed.target, self._clock, managed.stop_probing)
                managed.weights_answer = await readiness.weights_probe()
                await method.sleep(managed, before)
                return await self._freed(managed, method, before)
        except (VerbFailed, SuspendFailed) as failure:
            return str(failure)
        except TimeoutError:
            return f"it did not fall asleep within {limit:g} s"

    async def wake(self, managed: ManagedServe) -> str:
        """Wake a serve. Empty: it is awake and proved ready; else why not. Then, and on cancel, the caller has to stop
        it.
        """
        readiness = Readiness(managed.serve, managed.target, self._clock, managed.stop_probing)
        limit = WAKE_LIMIT + _copying(managed.serve, managed.measured.bytes if managed.measured is not None else None)
        try:
            async with asyncio.timeout(limit):
                await self._method(managed).wake(managed)
                await readiness.prove(canary=True)
                answer = await readiness.weights_probe()
        except (VerbFailed, SuspendFailed, NotReady) as failure:
            return str(failure)
        except EngineEnded:
            return "it exited"
        except TimeoutError:
            return f"it was not ready within {limit:g} s of being woken ({readiness.last})"
        if answer != managed.weights_answer:
            return "its answers changed while it slept: its weights were not restored"
        return ""

    def _method(self, managed: ManagedServe) -> SleepMethod:
        return self._by_driver if managed.serve.sleep_level == SUSPENDED else self._by_engine

    async def _freed(self, managed: ManagedServe, method: SleepMethod, before: int | None) -> str:
        """Empty if the engine has freed its memory, else why not: one that answers 200 may have freed nothing."""
        if before is None:
            asleep = await method.is_asleep(managed)
            return "" if asleep else "it does not report that it sleeps, and its memory cannot be measured"
        after: int | None = None
        for _ in range(POLLS):
            after = await self._held_by(managed)
            if after is None or after <= before * (1 - RELEASED_SHARE):
                break
            await asyncio.sleep(POLL_INTERVAL)
        if after is not None and after > before * (1 - RELEASED_SHARE):
            return f"it answered, but still holds {after} of {before} bytes"
        return ""

    async def _held_by(self, managed: ManagedServe) -> int | None:
        """Bytes; None: unknown. The driver moves device memory into main memory, so of a serve that it suspends only
        the former counts.
        """
        if managed.unit is None or managed.unit.pid is None:
            return None
        found = await asyncio.to_thread(lambda: self._measure(managed.serve, managed.members()))
        is_other = managed.serve.sleep_level == SUSPENDED and found.source is SizeSource.PROC
        return None if is_other else found.bytes
