"""A client that leaves an orchestrated request, at each step of it: what is held is given back, no process stays, only
whole blocks are kept, and the same request goes on after them.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.orchestrator.scenarios.orchestrated_steps import STEPS, Holding
from tests.orchestrator.scenarios.test_orchestrating import BLOCKS, BROKEN, coder, orchestrator
from tests.scenarios.caller import Talk, story
from tests.scenarios.plane import QUICK, Plane, running, until

from stoker_orchestrator.memory.scratchpad import read_scratchpad

NAMED = ["# file: one.py\n" + BLOCKS[0], *BLOCKS[1:]]
ANSWER = "```python\n" + "\n".join(NAMED) + "```\n"
SLEEP = f"3600.{os.getpid()}"
"""A command's argument by which its process is found."""
TIER = '[[tier]]\nname = "tiny"\nserve = "good"\n'


BRIEF = {"its class is found"}
"""What is too short to be ended: the request ends after it."""


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
