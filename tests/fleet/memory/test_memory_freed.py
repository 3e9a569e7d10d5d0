"""Between stop and start: memory is free when nobody lists it any more and it is there again; the wait is bounded."""

from __future__ import annotations

import asyncio

import pytest
from tests.fleet.memory.device_trees import GIB, Told

from stoker.fleet.memory.measure import SLACK, Freed, Snapshot, snapshot, still_missing, wait_until_free
from stoker_lab.testing.clock import FakeClock

BEFORE = Snapshot({"a": 4 * GIB}, {1: {"a": 10 * GIB}, 9: {"a": 2 * GIB}})
LISTED = Snapshot({"a": 4 * GIB}, {1: {"a": 10 * GIB}, 9: {"a": 2 * GIB}})
GONE = Snapshot({"a": 5 * GIB}, {9: {"a": 2 * GIB}})
FREE = Snapshot({"a": 14 * GIB}, {9: {"a": 2 * GIB}})


def wait(told: Told, before: Snapshot = BEFORE, limit: float = 10.0, **options: object) -> tuple[Freed, list[float]]:
    clock = FakeClock()
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(seconds)

    return asyncio.run(wait_until_free(told, [1], before, clock, limit, sleep=sleep, **options)), pauses  # type: ignore[arg-type]


def test_it_waits_until_the_process_is_not_listed_and_its_memory_is_there_again() -> None:
    freed, pauses = wait(Told(LISTED, GONE, GONE, FREE))
    assert pauses == [0.005, 0.01, 0.02]
    assert freed == Freed(pytest.approx(0.035), 0)
    assert str(freed) == "its memory was free after 0.035 s"


def test_what_others_took_meanwhile_is_not_waited_for() -> None:
    taken = Snapshot({"a": 8 * GIB}, {9: {"a": 8 * GIB}})
    assert wait(Told(taken)) == (Freed(0.0, 0), [])
    assert still_missing(BEFORE, Snapshot({"a": 14 * GIB - SLACK}, {9: {"a": 2 * GIB}}), [1]) == (0, ())
    assert still_missing(BEFORE, Snapshot({"a": 14 * GIB - SLACK - 1}, {9: {"a": 2 * GIB}}), [1]) == (SLACK + 1, ())


def test_the_wait_is_bounded_and_says_who_still_holds_how_much() -> None:
    freed, pauses = wait(Told(LISTED), limit=2.0)
    assert (freed.missing, freed.holders) == (10 * GIB, (1,))
    assert sum(pauses) == pytest.approx(2.0)
    assert max(pauses) == 0.25
    assert str(freed).startswith("10.0 GiB was not freed within 2.0 s, held by process 1: see")


def test_a_process_that_is_listed_with_unknown_memory_is_waited_for_too() -> None:
    unknown = Snapshot({"a": 14 * GIB}, {1: {"a": None}, 9: {"a": 2 * GIB}})
    freed, _ = wait(Told(unknown), limit=1.0)
    assert freed.holders == (1,)
    assert "memory of unknown size" in str(freed)


def test_what_is_still_listed_is_missing_where_free_memory_is_not_shown() -> None:
    silent = Snapshot({}, {1: {"a": 5}})
    assert still_missing(silent, silent, [1]) == (5, (1,))


def test_enough_for_the_next_one_is_enough() -> None:
    assert wait(Told(GONE), needed={"a": 5 * GIB}) == (Freed(0.0, 0), [])
    assert wait(Told(GONE), needed={"a": 6 * GIB}, limit=1.0)[0].missing == 9 * GIB
    assert wait(Told(LISTED), needed={"a": GIB}, limit=1.0)[0].holders == (1,), "not while it still holds its memory"


def test_without_accounting_the_wait_ends_once_free_memory_stopped_rising() -> None:
    looks = [Snapshot({"a": n * GIB}, None) for n in (4, 5, 6, 7, 8, 9, 9)]
    told = Told(*looks)
    freed, pauses = wait(told, Snapshot({"a": 4 * GIB}, None))
    assert freed.missing is None
    assert len(pauses) == 6, "the look after the last rise is the one that ends it"
    assert "does not report" in str(freed)


def test_without_devices_main_memory_went_with_the_process() -> None:
    told = Told()
    assert wait(told, Snapshot({}, None, has_devices=False)) == (Freed(0.0, 0), [])
    assert told.looks == 0


def test_a_snapshot_holds_only_what_is_known() -> None:
    assert snapshot(Told(BEFORE)) == BEFORE
    assert snapshot(Told(Snapshot({}, None))) == Snapshot({}, None, has_devices=False)


def test_a_cancelled_wait_ends_at_once() -> None:
    async def story() -> None:
        waiting = asyncio.Event()

        async def sleep(seconds: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(wait_until_free(Told(LISTED), [1], BEFORE, FakeClock(), 9.0, sleep=sleep))
            await waiting.wait()
            task.cancel()
        assert task.cancelled()

    asyncio.run(story())
