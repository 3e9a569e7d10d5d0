"""`stoker`, but for one thing: it is killed at a given step of the swap to `b`, as `kill -9` or a power cut would.

The steps, in the order in which a swap passes them, are the keys of STEPS.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from stoker.engines.readiness import Readiness
from stoker.fleet.drivers import local
from stoker.fleet.drivers.unit import Termination
from stoker.fleet.process.identity import StartRecords
from stoker.fleet.supervision.supervisor import Supervisor
from stoker.store.journal import SwapJournal

VICTIM, TARGET = "a", "b"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def around(owner: Any, name: str, wanted: Callable[..., bool], after: bool) -> None:
    """Die before, or after, the call of `owner.name` for which `wanted` holds."""
    real = getattr(owner, name)

    if name in ("begin", "stop", "prove", "start"):

        async def waited(*given: Any, **named: Any) -> Any:
            if wanted(*given, **named) and not after:
                die()
            result = await real(*given, **named)
            if wanted(*given, **named):
                die()
            return result

        setattr(owner, name, waited)
        return

    def called(*given: Any, **named: Any) -> Any:
        if wanted(*given, **named) and not after:
            die()
        result = real(*given, **named)
        if wanted(*given, **named):
            die()
        return result

    setattr(owner, name, called)


STEPS: dict[str, Callable[[], None]] = {
    "before it is in the journal": lambda: around(SwapJournal, "begin", lambda _, s: s.target == TARGET, False),
    "in the journal": lambda: around(SwapJournal, "begin", lambda _, s: s.target == TARGET, True),
    "the victim is told to go": lambda: around(Termination, "begin_end", lambda *_: True, True),
    "the victim is gone": lambda: around(Supervisor, "stop", lambda _, name, *__: name == VICTIM, True),
    "the start is intended": lambda: around(StartRecords, "write", lambda _, r: r.name == TARGET and not r.pid, True),
    "the target is spawned": lambda: around(local, "spawn", lambda argv, *_: argv[-1] == TARGET, True),
    "the target is on record": lambda: around(
        StartRecords, "write", lambda _, r: r.name == TARGET and r.pid > 0 and not r.ready, True
    ),
    "the target is proved": lambda: around(Readiness, "prove", lambda self, *_, **__: self.wanted == TARGET, True),
    "the target is on record as ready": lambda: around(
        StartRecords, "write", lambda _, r: r.name == TARGET and r.ready, True
    ),
    "before it leaves the journal": lambda: around(SwapJournal, "end", lambda _, s: s.target == TARGET, False),
    "out of the journal": lambda: around(SwapJournal, "end", lambda _, s: s.target == TARGET, True),
}


def crash_at(step: str) -> None:
    """In the process that is to crash, before it begins: let it die at this step."""
    STEPS[step]()
