"""Whether an engine works, told from its own counters."""

from __future__ import annotations

import asyncio

from stoker.domain.lease import Target
from stoker.domain.protocols import Running
from stoker.domain.serve import Serve, Translation
from stoker.engines.signals import Signals
from stoker.fleet.monitoring import EngineWork
from stoker.fleet.watchdog.probe import NO_COUNTERS

MOVES = [Signals(steps=5.0), Signals(steps=6.0)]


def works(looks: list[Signals], cloud: bool = False, hangs: bool = False) -> tuple[bool, int]:
    """What it is taken for, and how often it was looked at."""
    serve = Serve("a", translation=Translation(cloud=cloud))
    running = Running(serve, Target("127.0.0.1", 1, "", "a"), None, 0.0, {})
    left = list(looks)

    async def counters(asked: Running) -> Signals:
        if hangs:
            await asyncio.sleep(60)
        return left.pop(0)

    found = asyncio.run(
        EngineWork(lambda: {"a": running}, counters, apart=0.0, take=0.05 if hangs else 60.0).is_working("a")
    )
    return found, len(looks) - len(left)


def test_counters_that_move_are_work_and_those_that_stand_still_are_none() -> None:
    assert works(MOVES) == (True, 2)
    assert works([Signals(kv_use=0.1), Signals(kv_use=0.2)]) == (True, 2)
    assert works([Signals(steps=5.0, running=1.0), Signals(steps=5.0, running=2.0)]) == (False, 2)


def test_an_engine_that_counts_nothing_or_does_not_answer_is_taken_not_to_work() -> None:
    assert works([NO_COUNTERS]) == (False, 1)
    assert works(MOVES, hangs=True) == (False, 0)


def test_a_cloud_is_not_asked_and_neither_is_what_does_not_run() -> None:
    assert works(MOVES, cloud=True) == (False, 0)

    async def never(asked: Running) -> Signals:
        raise AssertionError

    assert not asyncio.run(EngineWork(dict, never).is_working("a"))
