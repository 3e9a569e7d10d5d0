"""Container serves in the supervisor's care, with a real Docker daemon."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.fleet.conftest import Story, Workshop
from tests.fleet.drivers import docker_daemon
from tests.fleet.drivers.docker_daemon import IMAGE, Daemon, engine, run
from tests.fleet.suspend.fake_driver import FakeDriver, fleet_of
from tests.scenarios import typed
from tests.scenarios.plane import poll, running, serve

from stoker.domain.errors import StartFailed
from stoker.domain.serve import Driver, Serve
from stoker.fleet.drivers import container_driver
from stoker.fleet.process.environment import free_port

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    yield from docker_daemon.started()


@pytest.fixture
def daemon(shared: Daemon, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    monkeypatch.setenv("DOCKER_HOST", shared.host)
    shared.clear()
    return shared


def contained(shop: Workshop, *words: str, name: str = "a", options: tuple[str, ...] = (), **fields: object) -> Serve:
    """`words` are for the engine, `options` for `docker run`."""
    serve = shop.serve(name=name, port=free_port("127.0.0.1", ()), stop_grace=0.2, **fields)
    up = tuple(run(f"the-{name}", *engine("--port", "{port}", *words), options=options))
    return dataclasses.replace(serve, driver=Driver.COMPOSE, container=f"the-{name}", up=up, cmd=None)


def test_a_container_is_started_proved_told_of_when_it_ends_and_stopped(
    daemon: Daemon, tell: Callable[[Story], None]
) -> None:
    async def story(shop: Workshop) -> None:
        supervisor = shop.supervisor()
        serve = contained(shop)
        assert await supervisor.full_check(serve) == []
        running = await supervisor.start(serve, shop.on_exit)
        assert running.facts["image"] == docker_daemon.IMAGE
        daemon.docker("kill", "the-a")
        await shop.exited.wait()
        assert "was ended by SIGKILL" in shop.exits[0][1]
        await supervisor.start(serve, shop.on_exit)
        await supervisor.stop("a", 0.2)
        assert daemon.docker("inspect", "--format", "{{.State.Status}}", "the-a") == "exited"
        await supervisor.close(leave_running=False)

    tell(story)


def test_one_that_dies_while_it_loads_is_a_failed_start_with_its_last_words(
    daemon: Daemon, tell: Callable[[Story], None]
) -> None:
    async def story(shop: Workshop) -> None:
        supervisor = shop.supervisor()
        with pytest.raises(StartFailed, match="CUDA error: out of memory") as failure:
            await supervisor.start(contained(shop, "--say", "CUDA error: out of memory", "--exit", "1"), shop.on_exit)
        assert failure.value.code == "out_of_memory"
        await supervisor.close(leave_running=False)

    tell(story)


def test_one_that_was_left_running_is_adopted_and_what_conflicts_is_stopped_first(
    daemon: Daemon, tell: Callable[[Story], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(shop: Workshop) -> None:
        daemon.docker(*run("other", *engine("--port", "0"), options=("--stop-signal=KILL",))[1:])
        serve = contained(shop, conflicts=("container:other",))
        first = shop.supervisor()
        with caplog.at_level(logging.WARNING):
            running = await first.start(serve, shop.on_exit)
        assert "`container:other` was stopped" in caplog.text
        await first.close(leave_running=True)
        second = shop.supervisor()
        [adopted] = await second.adopt([serve], shop.on_exit)
        assert adopted.pid == running.pid
        await second.close(leave_running=False)

    tell(story)


def test_the_driver_suspends_the_processes_of_a_container_and_resumes_them(
    daemon: Daemon, tell: Callable[[Story], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have numbers of this machine, and Stoker runs as root here."""
    monkeypatch.setattr("stoker.fleet.supervision.memory_meter.FREE_WITHIN", 0.3)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "driver"))
    driver = FakeDriver(tmp_path / "driver")
    inside = ("-v", f"{driver.folder}:{driver.folder}:ro", "-e", f"LD_PRELOAD={driver.library}")

    async def story(shop: Workshop) -> None:
        given = contained(shop, "--canary", '{"choices": [{"message": {"content": "Hi."}}]}', options=inside)
        given = dataclasses.replace(given, sleep_level=3, stop_grace=30.0)
        fleet, warm = fleet_of(shop, driver, given)
        running = await fleet.start(given, shop.on_exit)
        daemon.docker("exec", "--detach", "the-a", "sleep", "300")  # of its control group only
        pids = fleet.pids()
        [other] = pids - {running.pid}
        for pid in pids:
            driver.use(pid)
        await fleet.stop("a", 30, keep_warm=True)
        assert {driver.state(pid) for pid in pids} == {2}
        assert driver.memory_of == [running.pid], "its group's limit counts"
        again = await fleet.start(given, shop.on_exit)
        assert (again.pid, again.start_kind) == (running.pid, "asleep")
        assert {driver.state(pid) for pid in pids} == {0}
        psutil.Process(other).kill()
        await fleet.stop("a", 30, keep_warm=True)
        async with asyncio.timeout(15):  # it is stopped while it is suspended, and does not get its grace
            await fleet.close(False)
        assert daemon.docker("inspect", "--format", "{{.State.Status}}", "the-a") == "exited"
        await warm.close()

    tell(story)


def test_a_container_whose_processes_are_not_visible_is_stopped_instead_of_suspended(
    daemon: Daemon, tell: Callable[[Story], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """As with Docker in a virtual machine, or on another one."""
    monkeypatch.setattr(container_driver, "is_here", lambda container: False)
    driver = FakeDriver(tmp_path / "driver")

    async def story(shop: Workshop) -> None:
        given = dataclasses.replace(contained(shop), sleep_level=3)
        fleet, warm = fleet_of(shop, driver, given)
        await fleet.start(given, shop.on_exit)
        await fleet.stop("a", 0.2, keep_warm=True)
        assert daemon.docker("inspect", "--format", "{{.State.Status}}", "the-a") == "exited"
        assert "its processes are not visible here" in caplog.text
        await fleet.close(False)
        await warm.close()

    tell(story)


def look_often() -> None:
    container_driver.LOOK_EVERY = 0.1


def test_what_is_logged_of_a_paused_or_changed_container_is_typed_as_proposed(daemon: Daemon) -> None:
    up = run("the-a", *engine("--port", "{port}", "--id", "a"))
    table = serve("a", slot=None, cmd=None, driver="compose", container="the-a", up=up, port=free_port("127.0.0.1", ()))
    with running(table, environment={"DOCKER_HOST": daemon.host}, started=False) as plane:
        plane.start(prepare=look_often)
        assert typed.typed(plane, "stoker serves up a")[0] == 0
        daemon.docker("pause", "the-a")
        poll(lambda: "was paused" in plane.log("stoker"), "it is resumed")
        typed.works(plane, plane.log("stoker"), typed.Proposal("stoker serves down %s", "a is stopped"))
        daemon.make_image(IMAGE, "another")
        daemon.docker("start", "the-a")
        assert typed.typed(plane, "stoker serves up a")[0] == 0
        logged = plane.log("stoker").partition("runs already, and ")[2]
        typed.works(plane, logged, typed.Proposal("stoker serves down %s", "a is stopped"))
        before = daemon.docker("inspect", "--format", "{{.Id}}", "the-a")
        typed.works(plane, logged, typed.Proposal("stoker serves up %s", "a is ready"))
        assert daemon.docker("inspect", "--format", "{{.Id}}", "the-a") != before
