"""Serves that the driver suspends, and what may happen meanwhile: nothing that answers nothing is left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.fleet.suspend.fake_driver import HELD, FakeDriver, fleet_of
from tests.fleet.tiny_gguf import write_tiny

from stoker.domain.protocols import Running
from stoker.domain.serve import Serve
from stoker.fleet.memory.ledger import MemorySize, SizeSource
from stoker.fleet.supervision import sleep_control
from stoker.fleet.supervision.supervisor import Supervisor
from stoker.fleet.suspend import suspension
from stoker.http import client

Tell = Callable[[Any], None]


@pytest.fixture(autouse=True)
def _memory_that_stays_held_is_waited_for_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's stand-in frees nothing when a process ends."""
    monkeypatch.setattr("stoker.fleet.supervision.memory_meter.FREE_WITHIN", 0.3)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """What Stoker asks; there is main memory for everything."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "driver"))
    return FakeDriver(tmp_path / "driver")


def serve(workshop: Any, driver: FakeDriver, **fields: Any) -> Serve:
    given: dict[str, Any] = {"sleep_level": 3, "stop_grace": 30.0, "env": {"LD_PRELOAD": str(driver.library)}, **fields}
    made: Serve = workshop.serve("--canary", '{"choices": [{"message": {"content": "Hi."}}]}', **given)
    return made


async def started(fleet: Supervisor, workshop: Any, driver: FakeDriver, given: Serve) -> Running:
    running = await fleet.start(given, workshop.on_exit)
    driver.use(running.pid)
    return running


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


def test_it_is_suspended_instead_of_stopped_and_goes_on_as_the_same_process(tell: Tell, driver: FakeDriver) -> None:
    async def story(workshop: Any) -> None:
        given = serve(workshop, driver)
        fleet, warm = fleet_of(workshop, driver, given)
        running = await started(fleet, workshop, driver, given)
        await fleet.stop("a", 30, keep_warm=True)
        assert (driver.state(running.pid), driver.memory_of) == (2, [None])
        assert [one.serve for one in warm.statistics().warm] == ["a"]
        again = await fleet.start(given, workshop.on_exit)
        assert (again.pid, again.start_kind) == (running.pid, "asleep")
        assert driver.state(running.pid) == 0
        await fleet.close(False)
        await warm.close()

    tell(story)


def test_where_device_memory_cannot_be_measured_the_state_of_its_processes_is_the_proof(
    tell: Tell, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "devices", list)

    async def story(workshop: Any) -> None:
        given = serve(workshop, driver)
        fleet, warm = fleet_of(workshop, driver, given)
        running = await started(fleet, workshop, driver, given)
        await fleet.stop("a", 30, keep_warm=True)
        again = await fleet.start(given, workshop.on_exit)
        assert (again.pid, again.start_kind) == (running.pid, "asleep")
        await fleet.close(False)
        await warm.close()

    tell(story)


@pytest.mark.llama
@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed")
def test_the_real_llama_cpp_answers_after_it_as_before(tell: Tell, driver: FakeDriver) -> None:
    async def story(workshop: Any) -> None:
        given = Serve(
            name="a", model=str(write_tiny(workshop.directory / "tiny.gguf")), context=256, threads=1,
            directory=str(workshop.directory), sleep_level=3, env={"LD_PRELOAD": str(driver.library)},
        )  # fmt: skip
        fleet, warm = fleet_of(workshop, driver, given)
        running = await started(fleet, workshop, driver, given)
        payload = {"model": "a", "max_tokens": 8, "temperature": 0, "messages": [{"role": "user", "content": "Hi"}]}

        async def answer() -> object:
            found = await client.ask(running.target, "/v1/chat/completions", payload, 15.0)
            return found.json()["choices"][0]["message"]

        before = await answer()
        await fleet.stop("a", 30, keep_warm=True)
        assert psutil.Process(running.pid).status() == psutil.STATUS_STOPPED
        again = await fleet.start(given, workshop.on_exit)
        assert (again.pid, await answer()) == (running.pid, before)
        await fleet.close(False)
        await warm.close()

    tell(story)


@pytest.mark.parametrize(
    ("function", "code", "why"),
    [
        ("cuCheckpointProcessLock", 600, "did not come to an end"),
        ("cuCheckpointProcessLock", 800, "does not permit it"),
        ("cuCheckpointProcessCheckpoint", 801, "cannot suspend this engine"),
    ],
)
def test_what_the_driver_refuses_is_a_stop_with_the_reason(
    tell: Tell, driver: FakeDriver, caplog: pytest.LogCaptureFixture, function: str, code: int, why: str
) -> None:
    async def story(workshop: Any) -> None:
        given = serve(workshop, driver)
        fleet, warm = fleet_of(workshop, driver, given)
        running = await started(fleet, workshop, driver, given)
        driver.fail(function, code)
        await fleet.stop("a", 30, keep_warm=True)
        assert not psutil.pid_exists(running.pid)
        assert why in caplog.text
        await fleet.close(False)
        await warm.close()

    tell(story)


def test_it_is_stopped_where_main_memory_has_no_room_for_it_or_no_driver_is_there(
    tell: Tell, driver: FakeDriver, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(workshop: Any) -> None:
        given = serve(workshop, driver)
        fleet, warm = fleet_of(workshop, driver, given, memory=HELD - 1)
        running = await started(fleet, workshop, driver, given)
        await fleet.stop("a", 30, keep_warm=True)
        assert not psutil.pid_exists(running.pid)
        assert "do not fit into main memory" in caplog.text
        await warm.close()
        monkeypatch.setenv("LD_LIBRARY_PATH", os.sep)
        fleet, warm = fleet_of(workshop, driver, given)
        running = await started(fleet, workshop, driver, given)
        await fleet.stop("a", 30, keep_warm=True)
        assert not psutil.pid_exists(running.pid)
        assert "needs an NVIDIA GPU with driver 570" in caplog.text
        await fleet.close(False)
        await warm.close()

    tell(story)


def test_one_that_cannot_be_resumed_is_started_again(tell: Tell, driver: FakeDriver) -> None:
    async def story(workshop: Any) -> None:
        given = serve(workshop, driver)
        fleet, warm = fleet_of(workshop, driver, given)
        running = await started(fleet, workshop, driver, given)
        await fleet.stop("a", 30, keep_warm=True)
        driver.fail("cuCheckpointProcessRestore", 2)
        again = await fleet.start(given, workshop.on_exit)
        assert again.pid != running.pid
        assert not psutil.pid_exists(running.pid)
        await fleet.close(False)
        await warm.close()

    tell(story)


def test_one_that_is_killed_while_suspended_leaves_the_pool(tell: Tell, driver: FakeDriver) -> None:
    async def story(workshop: Any) -> None:
        given = serve(workshop, driver)
        fleet, warm = fleet_of(workshop, driver, given)
        running = await started(fleet, workshop, driver, given)
        await fleet.stop("a", 30, keep_warm=True)
        psutil.Process(running.pid).kill()
        await until(lambda: not fleet.statistics())
        assert warm.statistics().warm == ()
        await fleet.close(False)
        await warm.close()

    tell(story)


def test_one_that_is_killed_while_the_driver_copies_is_no_crash_of_a_serve_that_was_ready(
    tell: Tell, driver: FakeDriver
) -> None:
    """As the kernel does where main memory runs out."""

    async def story(workshop: Any) -> None:
        given = serve(workshop, driver)
        fleet, warm = fleet_of(workshop, driver, given)
        running = await started(fleet, workshop, driver, given)
        (driver.states / "slow").touch()
        stopping = asyncio.get_running_loop().create_task(fleet.stop("a", 30, keep_warm=True))
        await until(lambda: driver.state(running.pid) == 1)
        psutil.Process(running.pid).kill()
        await stopping
        assert (workshop.exits, fleet.statistics()) == ([], {})
        assert warm.statistics().warm == ()
        await fleet.close(False)
        await warm.close()

    tell(story)


def test_a_process_of_it_with_a_session_of_its_own_is_suspended_with_it(tell: Tell, driver: FakeDriver) -> None:
    async def story(workshop: Any) -> None:
        given = serve(workshop, driver)
        words = ("sh", "-c", 'setsid sleep 300 & exec "$@"', "sh", *(given.cmd or ()))
        fleet, warm = fleet_of(workshop, driver, replace(given, cmd=words))
        running = await fleet.start(replace(given, cmd=words), workshop.on_exit)
        [child] = psutil.Process(running.pid).children()
        driver.use(child.pid)
        await fleet.stop("a", 30, keep_warm=True)
        assert driver.state(child.pid) == 2
        await fleet.close(False)
        await warm.close()
        child.kill()

    tell(story)


def test_a_swap_that_is_cancelled_meanwhile_ends_it_and_the_helper(tell: Tell, driver: FakeDriver) -> None:
    async def story(workshop: Any) -> None:
        given = serve(workshop, driver)
        fleet, warm = fleet_of(workshop, driver, given)
        running = await started(fleet, workshop, driver, given)
        (driver.states / "slow").touch()
        stopping = asyncio.get_running_loop().create_task(fleet.stop("a", 30, keep_warm=True))
        await until(lambda: driver.state(running.pid) == 1)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert not psutil.pid_exists(running.pid)
        await fleet.close(False)
        await warm.close()

    tell(story)


def test_a_driver_that_holds_its_helper_holds_nobody_else(
    tell: Tell, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(suspension, "ENDS_WITHIN", 0.05)
    monkeypatch.setattr(asyncio.subprocess.Process, "kill", lambda helper: None)  # it is in the kernel

    async def story(workshop: Any) -> None:
        given = serve(workshop, driver)
        fleet, warm = fleet_of(workshop, driver, given)
        running = await started(fleet, workshop, driver, given)
        (driver.states / "slow").touch()
        stopping = asyncio.get_running_loop().create_task(fleet.stop("a", 30, keep_warm=True))
        await until(lambda: driver.state(running.pid) == 1)
        stopping.cancel()
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await stopping
        assert "the CUDA driver does not answer" in caplog.text
        [reaping] = suspension._unended  # noqa: SLF001
        helper = int(caplog.text.partition("(process ")[2].partition(")")[0])
        psutil.Process(helper).kill()
        await reaping
        await fleet.close(False)
        await warm.close()

    tell(story)


def test_waking_may_take_as_long_as_copying_does(
    tell: Tell, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sleep_control, "WAKE_LIMIT", 0.0)

    async def story(workshop: Any) -> None:
        given = serve(workshop, driver)
        fleet, warm = fleet_of(workshop, driver, given)
        running = await started(fleet, workshop, driver, given)
        fleet._registry.serves["a"].measured = MemorySize(HELD, SizeSource.NVML)  # noqa: SLF001
        await fleet.stop("a", 30, keep_warm=True)
        assert (await fleet.start(given, workshop.on_exit)).pid == running.pid
        await fleet.close(False)
        await warm.close()

    tell(story)


def test_what_a_stoker_that_died_left_suspended_is_ended_without_its_grace(tell: Tell, driver: FakeDriver) -> None:
    async def story(workshop: Any) -> None:
        given = serve(workshop, driver)
        fleet, warm = fleet_of(workshop, driver, given)
        running = await started(fleet, workshop, driver, given)
        await fleet.stop("a", 30, keep_warm=True)
        fleet._registry.release_rest()  # noqa: SLF001  # as a Stoker that is killed
        await warm.close()
        later, warm = fleet_of(workshop, driver, given)
        async with asyncio.timeout(20):
            assert await later.adopt([given, replace(given, name="b")], workshop.on_exit) == []
        assert not psutil.pid_exists(running.pid)
        await fleet.close(False)
        await later.close(False)
        await warm.close()

    tell(story)


def test_one_that_was_adopted_is_suspended_as_any_other(tell: Tell, driver: FakeDriver) -> None:
    async def story(workshop: Any) -> None:
        given = serve(workshop, driver)
        first, warm = fleet_of(workshop, driver, given)
        running = await started(first, workshop, driver, given)
        await first.close(True)
        await warm.close()
        fleet, warm = fleet_of(workshop, driver, given)
        [adopted] = await fleet.adopt([given], workshop.on_exit)
        await fleet.stop("a", 30, keep_warm=True)
        assert (adopted.pid, driver.state(running.pid)) == (running.pid, 2)
        again = await fleet.start(given, workshop.on_exit)
        assert (again.pid, again.start_kind) == (running.pid, "asleep")
        await fleet.close(False)
        await warm.close()

    tell(story)
