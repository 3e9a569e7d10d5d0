"""Puts serves to sleep instead of stopping them, through the engine's own endpoints, and checks that it worked.

Asleep: the engine released at least half of its memory; if memory cannot be measured, the engine reports that it
sleeps. Awake: it is proved ready with a canary, and answers the weights probe as before. An engine whose weights were
not restored answers, too, but with gibberish.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stoker.domain.protocols import Clock
from stoker.domain.serve import Serve
from stoker.engines import sleep_api
from stoker.engines.readiness import EngineEnded, NotReady, Readiness
from stoker.engines.sleep_api import VerbFailed
from stoker.fleet.supervision.managed_serve import ManagedServe

SLEEP_LIMIT = 30.0
"""Seconds."""
WAKE_LIMIT = 60.0
"""Seconds: waking that takes longer is no faster than a start."""
RELEASED_SHARE = 0.5
"""Share of its memory that an engine has to release to count as asleep."""
POLL_INTERVAL = 0.02
"""Seconds."""
POLLS = 100

Measure = Callable[[Serve, int], int | None]
"""Bytes of its slot's memory that a serve's process group holds; None: unknown. Takes the process id of the group's
leader, and is called in a thread."""


class SleepControl:
    """Puts ready serves to sleep and wakes them. The supervisor changes their state."""

    def __init__(self, clock: Clock, measure: Measure) -> None:
        self._clock = clock
        self._measure = measure

    async def sleep(self, managed: ManagedServe) -> str:
        """Put a serve to sleep. Empty: it sleeps and its memory is free; else why not. On cancel it may be asleep or
        not.
        """
        serve, level = managed.serve, managed.serve.sleep_level
        if level is None:
            return "it has no `sleep_level`"
        before = await self._held_by(managed)
        try:
            async with asyncio.timeout(SLEEP_LIMIT):
                readiness = Readiness(serve, managed.target, self._clock, managed.stop_probing)
                managed.weights_answer = await readiness.weights_probe()
                await sleep_api.sleep(managed.target, serve.engine, level)
                return await self._freed(managed, before)
        except VerbFailed as failure:
            return str(failure)
        except TimeoutError:
            return f"it did not fall asleep within {SLEEP_LIMIT:g} s"

    async def wake(self, managed: ManagedServe) -> str:
        """Wake a serve. Empty: it is awake and proved ready; else why not. Then, and on cancel, the caller has to stop
        it.
        """
        serve, level = managed.serve, managed.serve.sleep_level
        readiness = Readiness(serve, managed.target, self._clock, managed.stop_probing)
        try:
            async with asyncio.timeout(WAKE_LIMIT):
                await sleep_api.wake(managed.target, serve.engine, level or 1)
                await readiness.prove(canary=True)
                answer = await readiness.weights_probe()
        except (VerbFailed, NotReady) as failure:
            return str(failure)
        except EngineEnded:
            return "it exited"
        except TimeoutError:
            return f"it was not ready within {WAKE_LIMIT:g} s of being woken ({readiness.last})"
        if answer != managed.weights_answer:
            return "its answers changed while it slept: its weights were not restored"
        return ""

    async def _freed(self, managed: ManagedServe, before: int | None) -> str:
        """Empty if the engine has freed its memory, else why not: one that answers 200 may have freed nothing."""
        if before is None:
            asleep = await sleep_api.is_asleep(managed.target, managed.serve.engine)
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
        pid = managed.unit.pid if managed.unit is not None else None
        return await asyncio.to_thread(self._measure, managed.serve, pid) if pid is not None else None
