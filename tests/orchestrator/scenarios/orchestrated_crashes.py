"""`stoker`, but it is killed at a given step of an orchestrated request, as `kill -9` or a power cut would.

Not in the file of the tests: the process that is to crash imports this module, and would import the SDKs with it.
"""

from __future__ import annotations

import itertools
import os
import signal
from typing import Any

from stoker.store.files import atomic
from stoker_orchestrator.memory.scratchpad import Scratchpad
from stoker_orchestrator.worker import Worker

STEPS = {
    "the scratchpad is begun": (Scratchpad, "begin", 1, True),
    "the worker is asked": (Worker, "generate", 1, False),
    "a block is recorded": (Scratchpad, "add_block", 2, True),
    "a check is recorded": (Scratchpad, "add_check", 2, True),
    "before a file is written": (atomic, "write", 2, False),
    "a file is written": (atomic, "write", 2, True),
    "before a block is committed": (Scratchpad, "commit", 2, False),
    "a block is committed": (Scratchpad, "commit", 2, True),
    "the last block is committed": (Scratchpad, "commit", 4, True),
    "before the end is recorded": (Scratchpad, "end", 1, False),
    "the end is recorded": (Scratchpad, "end", 1, True),
}


def die_at(step: str) -> None:
    """In the process of Stoker: `kill -9` before, or after, one call of a function."""
    owner, name, wanted, after = STEPS[step]
    real, calls = getattr(owner, name), itertools.count(1)

    def called(*given: Any, **named: Any) -> Any:
        if owner is atomic and given[0].name != "one.py":
            return real(*given, **named)
        is_it = next(calls) == wanted
        if is_it and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*given, **named)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, called)
