"""The steps of an orchestrated request, and a `stoker` that waits at one of them.

Not in the file of the tests: the process that waits imports this module, and would import the SDKs with it.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.scenarios.plane import PATIENCE

from stoker.store.files import atomic
from stoker_auto.routing.dispatch import Dispatcher
from stoker_orchestrator.checks.checker import LayeredChecker
from stoker_orchestrator.memory.pads import Scratchpads
from stoker_orchestrator.memory.project import ProjectFiles
from stoker_orchestrator.memory.scratchpad import Scratchpad
from stoker_orchestrator.orchestrator import CheckLayer
from stoker_orchestrator.worker import Worker


def is_layer(layer: CheckLayer, *given: Any) -> bool:
    return given[1] is layer


def is_correction(*given: Any) -> bool:
    return "failed its structure check" in str(given[1].turns[-1])


STEPS: dict[str, tuple[Any, str, int, Callable[..., bool]]] = {
    "its class is found": (Dispatcher, "plan_tiers", 1, lambda *_: True),
    "an earlier request is looked for": (Scratchpads, "find", 1, lambda *_: True),
    "the scratchpad is begun": (Scratchpad, "begin", 1, lambda *_: True),
    "the worker is asked": (Worker, "generate", 1, lambda *_: True),
    "a block is recorded": (Scratchpad, "add_block", 2, lambda *_: True),
    "the structure is checked": (LayeredChecker, "check", 2, partial(is_layer, CheckLayer.STRUCTURE)),
    "names are checked": (LayeredChecker, "check", 2, partial(is_layer, CheckLayer.NAMES)),
    "a command checks": (LayeredChecker, "check", 2, partial(is_layer, CheckLayer.COMMANDS)),
    "the validator checks": (LayeredChecker, "check", 2, partial(is_layer, CheckLayer.VALIDATOR)),
    "a check is recorded": (Scratchpad, "add_check", 6, lambda *_: True),
    "a block is written again": (Worker, "generate", 1, is_correction),
    "the project is locked": (ProjectFiles, "commit", 2, lambda *_: True),
    "a file is written": (atomic, "write", 2, lambda target, *_: target.name == "one.py"),
    "a block is committed": (Scratchpad, "commit", 2, lambda *_: True),
    "the last block is committed": (Scratchpad, "commit", 4, lambda *_: True),
    "the end is recorded": (Scratchpad, "end", 1, lambda *_: True),
}
"""What is called at each step, and for which call of those that fit the client leaves."""


class Holding:
    """In the process of Stoker: the step that the file `step` names waits until the file `go` is there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def install(self) -> None:
        for step, (owner, name, wanted, fits) in STEPS.items():
            setattr(owner, name, self._around(step, getattr(owner, name), wanted, fits))

    def _around(
        self, step: str, real: Callable[..., Any], wanted: int, fits: Callable[..., bool]
    ) -> Callable[..., Any]:
        calls = itertools.count(1)

        def is_it(*given: Any) -> bool:
            try:
                named = (self._directory / "step").read_text()
            except FileNotFoundError:  # the test may remove it at any time
                return False
            return named == step and fits(*given) and next(calls) == wanted

        def called(*given: Any, **named: Any) -> Any:
            if is_it(*given):
                (self._directory / "reached").touch()
                end = time.monotonic() + PATIENCE
                while not (self._directory / "go").exists() and time.monotonic() < end:
                    time.sleep(0.005)
            return real(*given, **named)

        async def awaited(*given: Any, **named: Any) -> Any:
            if is_it(*given):
                (self._directory / "reached").touch()
                try:
                    while not (self._directory / "go").exists():
                        await asyncio.sleep(0.005)
                finally:
                    (self._directory / "go").touch()  # it was ended: nothing holds it any more
            return await real(*given, **named)

        return awaited if inspect.iscoroutinefunction(real) else called
