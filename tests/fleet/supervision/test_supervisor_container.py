"""Container serves in the supervisor's care, with a real Docker daemon."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator

import pytest
from tests.fleet.conftest import Story, Workshop
from tests.fleet.drivers import docker_daemon
from tests.fleet.drivers.docker_daemon import IMAGE, Daemon, engine, run
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


def contained(shop: Workshop, *options: str, name: str = "a", **fields: object) -> Serve:
    serve = shop.serve(name=name, port=free_port("127.0.0.1", ()), stop_grace=0.2, **fields)
    up = tuple(run(f"the-{name}", *engine("--port", "{port}", *options)))
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
