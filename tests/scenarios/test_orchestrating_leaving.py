"""A client that leaves an orchestrated request, at each step of it: what is held is given back, no process stays, only
whole blocks are kept, and the same request goes on after them.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.scenarios.caller import Talk, story
from tests.scenarios.plane import PATIENCE, QUICK, Plane, running, until
from tests.scenarios.test_orchestrating import BLOCKS, BROKEN, coder, orchestrator

from stoker.domain.orchestrator import CheckLayer
from stoker.orchestrate.checks.checker import LayeredChecker
from stoker.orchestrate.memory.pads import Scratchpads
from stoker.orchestrate.memory.project import ProjectFiles
from stoker.orchestrate.memory.scratchpad import Scratchpad, read_scratchpad
from stoker.orchestrate.worker import Worker
from stoker.routing.dispatch import Dispatcher
from stoker.store.files import atomic

NAMED = ["# file: one.py\n" + BLOCKS[0], *BLOCKS[1:]]
ANSWER = "```python\n" + "\n".join(NAMED) + "```\n"
SLEEP = f"3600.{os.getpid()}"
"""A command's argument by which its process is found."""
TIER = '[[tier]]\nname = "tiny"\nserve = "good"\n'


def is_layer(layer: CheckLayer, *given: Any) -> bool:
    return given[1] is layer


def is_correction(*given: Any) -> bool:
    return "failed its structure check" in str(given[1].turns[-1])


STEPS: dict[str, tuple[Any, str, int, Callable[..., bool]]] = {
    "its class is found": (Dispatcher, "plan", 1, lambda *_: True),
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

BRIEF = {"its class is found"}
"""What is too short to be ended: the request ends after it."""


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
            named = self._directory / "step"
            return named.exists() and named.read_text() == step and fits(*given) and next(calls) == wanted

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


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("leaving")
    (here / "project").mkdir()
    return here


@pytest.fixture(scope="module")
def shared(place: Path) -> Iterator[Plane]:
    keys = {"project": str(place / "project"), "validator": "judge", "checks": ["true"], "check_names": True}
    with running(
        coder("good", place, blocks=NAMED, wrong={1: [BROKEN]}, until_corrected=True),
        coder("judge", place),
        coder("slow-judge", place, seconds_per_verdict=60),
        coder("busy", place, hangs_at=0).replace("parallel = 8", "parallel = 1"),
        orchestrator("pair", "good", **keys),
        orchestrator("waiting", "busy"),
        orchestrator("judged", "good", validator="slow-judge"),
        orchestrator("waiting-judge", "good", validator="busy"),
        orchestrator("commanded", "good", checks=[f"sleep {SLEEP}"]),
        TIER,
        swap=QUICK.replace('"300ms"', '"60s"'),  # who waits is not refused, but leaves
        started=False,
    ) as plane:
        plane.start(prepare=Holding(place).install)
        yield plane


async def written(*directories: Path) -> None:
    """Until no file has changed for half a second: the thread that was left behind has written what it had to."""

    def seen() -> list[tuple[str, int, int]]:
        files = [file for directory in directories for file in directory.rglob("*") if file.is_file()]
        return sorted((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)

    before, same = seen(), 0
    while same < 5:
        await asyncio.sleep(0.1)
        now = seen()
        before, same = now, same + 1 if now == before else 0


@pytest.mark.parametrize("step", STEPS)
@story
async def test_a_client_that_leaves_at_any_step_frees_everything_and_may_come_back(
    plane: Plane, place: Path, step: str
) -> None:
    for name in ("reached", "go", "project/one.py", "project/.stoker/state.md"):
        (place / name).unlink(missing_ok=True)
    (place / "step").write_text(step)
    key = ("idempotency-key", step)
    async with Talk(plane, "pair", "write it", stream=True, headers=(key,)):
        await until((place / "reached").exists, f"{step} is reached")
    (place / "step").unlink()
    if step in BRIEF:
        (place / "go").touch()
    await until(plane.is_settled, "nothing is held")
    if not inspect.iscoroutinefunction(getattr(*STEPS[step][:2])):
        (place / "go").touch()  # a thread that writes is not waited for, and not broken off either
        await written(place / "project", plane.state / "orchestrator")
    assert (place / "go").exists(), "the step itself has ended"
    for page in (plane.state / "orchestrator").glob("*.md"):
        committed = [block.text for block in read_scratchpad(page).committed]
        assert committed == NAMED[: len(committed)]
    async with Talk(plane, "pair", "write it", stream=True, headers=(key,)) as talk:
        assert await talk.text() == ANSWER
    assert (place / "project/one.py").read_text() == "\n".join(NAMED)


@pytest.mark.parametrize("name", ["waiting", "waiting-judge"])
@story
async def test_a_client_that_leaves_while_a_place_is_waited_for_gives_up_its_turn(plane: Plane, name: str) -> None:
    async with Talk(plane, "busy", "write it", stream=True):
        await until(lambda: plane.serve("busy")["in_flight"], "the only place is taken")
        async with Talk(plane, name, "write it", stream=True):
            await until(lambda: plane.serve("busy")["queued"], "a place is waited for")
        await until(lambda: not plane.serve("busy")["queued"], "nobody waits any more")
        assert plane.serve("busy")["in_flight"] == 1
    await until(plane.is_settled, "nothing is held")


@story
async def test_a_client_that_leaves_ends_the_validators_answer(plane: Plane) -> None:
    async with Talk(plane, "judged", "write it", stream=True):
        await until(lambda: plane.serve("slow-judge")["in_flight"], "the validator is asked")
    await until(plane.is_settled, "worker and validator are free")


@story
async def test_a_client_that_leaves_ends_the_command_that_checks(plane: Plane) -> None:
    def runs() -> bool:
        return any(SLEEP in one.info["cmdline"] for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"])

    async with Talk(plane, "commanded", "write it", stream=True):
        await until(runs, "the command runs")
    await until(plane.is_settled, "nothing is held")
    await until(lambda: not runs(), "the command has ended")
