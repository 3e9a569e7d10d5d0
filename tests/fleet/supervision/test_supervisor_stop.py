"""Stopping, and ends that nobody asked for: gone means the whole group, and it is noticed at once."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from stoker.fleet.drivers import process_group
from stoker.system import processes

Tell = Callable[[Any], None]


def test_a_child_that_ignores_sigterm_is_killed_after_its_grace(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        running = await fleet.start(workshop.serve("--ignore-term"), workshop.on_exit)
        began = time.monotonic()
        await fleet.stop("a", 0.2)
        assert 0.2 <= time.monotonic() - began < 1
        assert not psutil.pid_exists(running.pid)
        assert workshop.exits == [], "an end that was asked for is not reported"
        await fleet.close(False)

    tell(story)


def test_a_start_during_a_stop_waits_for_it(tell: Tell) -> None:
    """Behaviour 9."""

    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        serve = workshop.serve("--ignore-term")
        first = await fleet.start(serve, workshop.on_exit)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fleet.stop("a", 0.3))
            await asyncio.sleep(0)
            second = await fleet.start(serve, workshop.on_exit)
        assert not psutil.pid_exists(first.pid)
        assert second.pid != first.pid
        assert fleet.statistics()["a"].state == "ready"
        await fleet.stop("a", 0.0)
        await fleet.close(False)

    tell(story)


def test_a_wrapper_takes_its_grandchild_with_it(tell: Tell) -> None:
    """Behaviour 10."""

    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        running = await fleet.start(workshop.serve("--wrap", "--ignore-term"), workshop.on_exit)
        family = process_group.members(running.pid)
        assert len(family) == 2
        await fleet.stop("a", 0.1)
        assert not any(psutil.pid_exists(pid) and processes.is_alive(pid) for pid in family)
        await fleet.close(False)

    tell(story)


def test_a_wrapper_that_dies_alone_takes_its_grandchild_with_it(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        running = await fleet.start(workshop.serve("--wrap"), workshop.on_exit)
        family = process_group.members(running.pid)
        os.kill(running.pid, signal.SIGKILL)
        await asyncio.wait_for(workshop.exited.wait(), 2)
        async with asyncio.timeout(2):
            while fleet.statistics():
                await asyncio.sleep(0.01)
        assert not any(psutil.pid_exists(pid) and processes.is_alive(pid) for pid in family)
        assert not workshop.record().exists()
        await fleet.close(False)

    tell(story)


def test_an_engine_killed_from_outside_is_noticed_at_once_and_starts_again(tell: Tell) -> None:
    """Behaviour 11."""

    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        running = await fleet.start(workshop.serve("--say", "hello"), workshop.on_exit)
        began = time.monotonic()
        os.kill(running.pid, signal.SIGKILL)
        await asyncio.wait_for(workshop.exited.wait(), 2)
        assert time.monotonic() - began < 0.5
        [(name, detail)] = workshop.exits
        assert name == "a"
        assert detail.startswith("was ended by SIGKILL after")
        assert "hello" in detail
        assert (await fleet.start(workshop.serve(), workshop.on_exit)).pid != running.pid
        await fleet.close(False)
        assert len(workshop.exits) == 1

    tell(story)


def test_a_cancelled_stop_still_ends_the_process_before_it_returns(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        running = await fleet.start(workshop.serve("--ignore-term"), workshop.on_exit)
        stopping = asyncio.get_running_loop().create_task(fleet.stop("a", 0.2))
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert not psutil.pid_exists(running.pid)
        await fleet.close(False)

    tell(story)


def test_a_second_stop_with_less_grace_hastens_the_first(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        await fleet.start(workshop.serve("--ignore-term"), workshop.on_exit)
        began = time.monotonic()
        await asyncio.gather(fleet.stop("a", 30), fleet.stop("a", 0.1), fleet.stop("unknown", 1))
        assert time.monotonic() - began < 2
        await fleet.close(False)

    tell(story)


def test_close_stops_everything_in_parallel_and_a_start_under_way_too(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        for name in ("a", "b", "c"):
            options = ("--id", name, "--ignore-term")
            await fleet.start(workshop.serve(*options, name=name, stop_grace=0.4), workshop.on_exit)
        starting = asyncio.get_running_loop().create_task(
            fleet.start(workshop.serve("--delay", "30", name="d"), workshop.on_exit)
        )
        await asyncio.sleep(0)
        began = time.monotonic()
        await fleet.close(False)
        assert time.monotonic() - began < 1.0
        assert "stopped while it was starting" in str((await asyncio.gather(starting, return_exceptions=True))[0])
        await fleet.close(False)

    tell(story)


def test_an_end_is_seen_where_there_are_no_pidfds(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.pidfd_open", raising=False)

    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        running = await fleet.start(workshop.serve(), workshop.on_exit)
        os.kill(running.pid, signal.SIGTERM)
        await asyncio.wait_for(workshop.exited.wait(), 2)
        assert workshop.exits[0][1].startswith("was ended by SIGTERM")
        await fleet.start(workshop.serve(), workshop.on_exit)
        await fleet.close(False)

    tell(story)


def test_thirty_starts_that_are_given_up_leave_nothing(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        for round in range(30):
            starting = asyncio.get_running_loop().create_task(fleet.start(workshop.serve(), workshop.on_exit))
            for _ in range(round):
                await asyncio.sleep(0.001)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await fleet.stop("a", 0.5)
        assert fleet.statistics() == {}
        await fleet.close(False)

    tell(story)
