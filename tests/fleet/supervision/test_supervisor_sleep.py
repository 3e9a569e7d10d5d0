"""Engines that fall asleep, and what may happen meanwhile: nobody is left running that nobody knows."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psutil
import pytest
from tests.fleet.supervision.test_supervisor_engines import install, serve

from stoker.domain.serve import Serve
from stoker.fleet.process.environment import free_port
from stoker.fleet.supervision import serve_registry
from stoker.fleet.supervision.serve_registry import FleetContext
from stoker.fleet.supervision.supervisor import Supervisor
from stoker.fleet.warm.keeper import WarmKeeper


class SystemClock:
    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


Tell = Callable[[Any], None]
LOG = logging.getLogger("test")


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


def pooled(workshop: Any, given: Serve) -> tuple[Supervisor, WarmKeeper]:
    warm = WarmKeeper(2**30, [given], LOG, predict=False)
    return Supervisor(FleetContext(workshop.paths, SystemClock(), LOG, lambda: bytes(32)), warm), warm


def test_a_swap_that_is_cancelled_while_its_victim_falls_asleep_ends_the_victim(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        install(workshop.directory, "vllm", "--memory-mb", "64", "--no-sleep-frees")
        fleet = workshop.supervisor()
        given = serve(workshop, "vllm", sleep_level=1)
        running = await fleet.start(given, workshop.on_exit)
        stopping = asyncio.get_running_loop().create_task(fleet.stop("big", 1, keep_warm=True))
        await until(lambda: '"asleep":true' in workshop.record("big").read_text().replace(" ", ""))
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert not psutil.pid_exists(running.pid)
        again = await fleet.start(given, workshop.on_exit)
        assert again.pid != running.pid
        await fleet.close(False)

    tell(story)


def test_a_serve_that_is_taken_out_of_the_configuration_while_it_falls_asleep_ends(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        install(workshop.directory, "vllm", "--memory-mb", "64")
        given = serve(workshop, "vllm", sleep_level=1)
        fleet, warm = pooled(workshop, given)
        running = await fleet.start(given, workshop.on_exit)
        stopping = asyncio.get_running_loop().create_task(fleet.stop("big", 1, keep_warm=True))
        await asyncio.sleep(0)
        fleet.end_sleepers(warm.reload(2**30, [], False))
        await stopping
        assert not psutil.pid_exists(running.pid)
        assert warm.statistics().warm == ()
        await fleet.close(False)
        await warm.close()

    tell(story)


def test_a_sleeper_that_dies_leaves_the_pool(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        install(workshop.directory, "vllm", "--memory-mb", "64")
        given = serve(workshop, "vllm", sleep_level=1)
        fleet, warm = pooled(workshop, given)
        running = await fleet.start(given, workshop.on_exit)
        await fleet.stop("big", 1, keep_warm=True)
        assert [one.serve for one in warm.statistics().warm] == ["big"]
        psutil.Process(running.pid).kill()
        await until(lambda: not fleet.statistics())
        assert warm.statistics().warm == ()
        await fleet.close(False)
        await warm.close()

    tell(story)


def test_a_sleeper_makes_way_for_a_serve_that_wants_its_port(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        install(workshop.directory, "vllm", "--memory-mb", "64")
        first = serve(workshop, "vllm", sleep_level=1, port=free_port("127.0.0.1", set()))
        second = replace(first, name="other", served_name="other", sleep_level=None)
        warm = WarmKeeper(2**30, [first, second], LOG, predict=False)
        fleet = workshop.supervisor(warm)
        await fleet.start(first, workshop.on_exit)
        await fleet.stop("big", 1, keep_warm=True)
        running = await fleet.start(second, workshop.on_exit)
        assert running.target.port == first.port
        assert set(fleet.statistics()) == {"other"}
        await fleet.close(False)
        await warm.close()

    tell(story)


def test_a_driver_that_hangs_holds_up_no_stop(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_registry, "SNAPSHOT_TIMEOUT", 0.1)
    gate = threading.Event()

    class HangsLater:
        source = "NVML"
        hangs = False

        def devices(self) -> list[Any]:
            if self.hangs:
                gate.wait(20)
            return []

        def by_process(self) -> None:
            return None

        def notes(self) -> list[str]:
            return []

    async def story(workshop: Any) -> None:
        probe = HangsLater()
        fleet = workshop.supervisor(probe=probe)
        running = await fleet.start(workshop.serve(), workshop.on_exit)
        await until(lambda: fleet.statistics()["a"].measured)
        probe.hangs = True
        await fleet.stop("a", 0.5)
        assert not psutil.pid_exists(running.pid)
        gate.set()
        await fleet.close(False)

    tell(story)
