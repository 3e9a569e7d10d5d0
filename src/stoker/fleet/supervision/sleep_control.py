"""Sleeping instead of stopping, through the engine's own endpoints. The result is checked, not assumed.

Asleep: the engine was measured to have released at least half of its memory; if nothing can be measured, the engine
itself reports that it sleeps. Awake: proved ready with a canary, and it answers the weights probe as before. An engine
whose weights were not restored answers too, with gibberish.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stoker.domain.protocols import Clock
from stoker.domain.serve import Serve
from stoker.fleet.engines import sleep_api
from stoker.fleet.engines.readiness import EngineEnded, NotReady, Readiness
from stoker.fleet.engines.sleep_api import VerbFailed
from stoker.fleet.supervision.managed_serve import ManagedServe

SLEEP_LIMIT = 30.0
WAKE_LIMIT = 60.0
"""Seconds that the verb may take; what takes longer is no faster than a start."""
GIVEN_BACK = 0.5
LOOK = 0.02
LOOKS = 100

Measure = Callable[[Serve, int], int | None]
"""Bytes that a serve's process group holds of its slot's memory, by its leader's number; None: unknown.
Called in a thread."""


class SleepControl:
    """Puts ready serves to sleep and wakes them. Changes no state: the supervisor does."""

    def __init__(self, clock: Clock, measure: Measure) -> None:
        self._clock = clock
        self._measure = measure

    async def sleep(self, managed: ManagedServe) -> str:
        """Empty once it sleeps and its memory is free; else why it does not. On cancel it may be either."""
        serve, level = managed.serve, managed.serve.sleep_level
        if level is None:
            return "it has no `sleep_level`"
        before = await self._held_by(managed)
        try:
            async with asyncio.timeout(SLEEP_LIMIT):
                readiness = Readiness(serve, managed.address, self._clock, managed.ended)
                managed.weights_answer = await readiness.weights_probe()
                await sleep_api.sleep(managed.address, serve.engine, level)
                return await self._freed(managed, before)
        except VerbFailed as failure:
            return str(failure)
        except TimeoutError:
            return f"it did not fall asleep within {SLEEP_LIMIT:g} s"

    async def wake(self, managed: ManagedServe) -> str:
        """Empty once it is awake and proved; else why not: then it is to be stopped. On cancel: the same."""
        serve, level = managed.serve, managed.serve.sleep_level
        readiness = Readiness(serve, managed.address, self._clock, managed.ended)
        try:
            async with asyncio.timeout(WAKE_LIMIT):
                await sleep_api.wake(managed.address, serve.engine, level or 1)
                await readiness.prove(canary=True)
                answer = await readiness.weights_probe()
        except (VerbFailed, NotReady) as failure:
            return str(failure)
        except EngineEnded:
            return "it ended"
        except TimeoutError:
            return f"it was not ready within {WAKE_LIMIT:g} s of being woken ({readiness.last})"
        if answer != managed.weights_answer:
            return "its answers changed while it slept: its weights were not restored"
        return ""

    async def _freed(self, managed: ManagedServe, before: int | None) -> str:
        """An engine that answers 200 may have freed nothing."""
        if before is None:
            asleep = await sleep_api.is_asleep(managed.address, managed.serve.engine)
            return "" if asleep else "it does not say that it sleeps, and its memory cannot be measured"
        after: int | None = None
        for _ in range(LOOKS):
            after = await self._held_by(managed)
            if after is None or after <= before * (1 - GIVEN_BACK):
                break
            await asyncio.sleep(LOOK)
        if after is not None and after > before * (1 - GIVEN_BACK):
            return f"it answered, and still holds {after} of {before} bytes"
        return ""

    async def _held_by(self, managed: ManagedServe) -> int | None:
        pid = managed.unit.pid if managed.unit is not None else None
        return await asyncio.to_thread(self._measure, managed.serve, pid) if pid is not None else None
