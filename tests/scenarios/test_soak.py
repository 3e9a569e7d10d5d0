"""Ten minutes of traffic in which the control plane is killed twenty times: nothing is lost but what was under way.

`STOKER_SOAK=60 pytest -m heavy tests/scenarios/test_soak.py` makes it a minute with two kills.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from dataclasses import dataclass, field

import pytest
from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, running, serve, until

from stoker_lab.testing.client import FramingError

SECONDS = float(os.environ.get("STOKER_SOAK", "600"))
BETWEEN_KILLS = 30.0
NAMES = ("a", "b", "c")
SWAP = 'min_residency = "200ms"\nlinger = "50ms"\nmax_wait = "500ms"\ndrain_timeout = "2s"'


@dataclass
class Books:
    """What became of the requests, and what must never be."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


async def client(plane: Plane, books: Books, seed: int) -> None:
    """Asks one model after the other; a plane that is down is waited for."""
    dice = random.Random(seed)
    while True:
        name = dice.choice(NAMES)
        try:
            reply = await ask(plane, name, f"script: tokens={dice.randint(1, 20)} gap=0.01")
        except (OSError, FramingError, TimeoutError):
            books.outcomes["connection lost"] += 1
            await asyncio.sleep(0.2)
            continue
        books.outcomes[str(reply.status)] += 1
        if reply.status == 200 and reply.json()["model"] != name:
            books.wrong.append(f"{name} was answered by {reply.json()['model']}")


async def operator(plane: Plane, seed: int) -> None:
    """Switches now and then, as people do."""
    dice = random.Random(seed)
    while True:
        await asyncio.sleep(dice.uniform(1, 5))
        with contextlib.suppress(OSError, AssertionError, ValueError):
            await asyncio.to_thread(plane.admin, "switch", serve=dice.choice(NAMES), drain_timeout=1)


async def is_known(plane: Plane) -> None:
    """Everything that runs is in /status, and /status explains the slot."""

    def strangers() -> set[int]:
        return set(plane.processes()) - {one["pid"] for one in plane.status()["serves"]}

    def explained() -> bool:
        slot = plane.slot()
        return bool(slot["resident"] or slot["swap"]) or all(
            one["state"] in ("stopped", "backoff") for one in plane.status()["serves"]
        )

    await until(lambda: not strangers() or plane.slot()["swap"], lambda: f"all are known: {plane.processes()}")
    assert explained(), plane.status()


@pytest.mark.heavy
@pytest.mark.timeout(SECONDS + 300)
@story
async def test_twenty_kills_in_ten_minutes_of_traffic_leave_nothing_unknown_and_no_wrong_answer() -> None:
    dice = random.Random(7)
    loop = asyncio.get_running_loop()
    ends = loop.time() + SECONDS
    books = Books()
    kills = 0
    with running(*(serve(name) for name in NAMES), swap=SWAP) as plane:
        async with asyncio.TaskGroup() as tasks:
            working = [tasks.create_task(client(plane, books, seed)) for seed in range(6)]
            working.append(tasks.create_task(operator(plane, 99)))
            while loop.time() < ends:
                await asyncio.sleep(dice.uniform(0.5, 1.5) * BETWEEN_KILLS)
                plane.signal(signal.SIGKILL)
                await asyncio.to_thread(plane.exit_code)
                kills += 1
                await asyncio.to_thread(plane.start)
                await is_known(plane)
            for task in working:
                task.cancel()
        assert books.wrong == []
        assert books.outcomes["200"] > 20 * kills, books.outcomes
        assert not set(books.outcomes) - {"200", "503", "502", "connection lost"}, books.outcomes
        print(f"{kills} kills, {dict(books.outcomes)}")
