"""`stop`: a serve's own command ends it, within its grace; whatever goes wrong with it, the signals follow."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psutil
import pytest
from tests.fleet.drivers import docker_daemon
from tests.fleet.drivers.docker_daemon import Daemon

from stoker.system.processes import is_alive

Tell = Callable[[Any], None]
KILL = (sys.executable, "-S", "-E", "-c", "import os, sys; print('ends', *sys.argv[2:]); os.kill(int(sys.argv[1]), 10)")
"""Ends its first argument by SIGUSR1, which the scripted engine does not ignore."""


def running_in(workshop: Any) -> list[str]:
    """The command lines of what runs in the workshop's directory."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == str(workshop.directory) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(shlex.join(process.cmdline()))
    return found


def test_the_command_ends_the_process_and_its_output_is_in_the_log(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        stop = (*KILL, "{pid}", "{name}", "{port}", "{dir}", "{{pid}}")
        running = await fleet.start(workshop.serve("--ignore-term", stop=stop), workshop.on_exit)
        began = time.monotonic()
        await fleet.stop("a", 10)
        assert time.monotonic() - began < 3, "SIGTERM is ignored and SIGKILL far away: the command ended it"
        assert not psutil.pid_exists(running.pid)
        assert workshop.exits == []
        assert f"ends a {running.target.port} {workshop.directory} {{{{pid}}}}\n" in workshop.log()
        assert "serve 'a' is stopped: " in workshop.log()
        await fleet.close(False)

    tell(story)


def test_the_command_has_the_environment_of_the_serve_and_a_key_of_its_start(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        script = 'test "$PLACE" = there && test "$1" = "$2" && kill -USR1 $0'
        stop = ("sh", "-c", script, "{pid}", "{key}", "{key}")
        serve = workshop.serve("--ignore-term", "--key", "{key}", stop=stop, env={"PLACE": "there"})
        running = await fleet.start(serve, workshop.on_exit)
        await fleet.stop("a", 10)
        assert not psutil.pid_exists(running.pid)
        assert running.target.key is not None
        assert running.target.key not in workshop.log()
        await fleet.close(False)

    tell(story)


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        pytest.param(("sh", "-c", "exit 3"), "exited with code 3 (see its log): SIGTERM follows", id="fails"),
        pytest.param(("no-such-program",), "cannot be run (no-such-program: No such file or directory)", id="missing"),
        pytest.param(("./gone.sh",), "gone.sh: No such file or directory): SIGTERM follows", id="missing-path"),
    ],
)
def test_a_command_that_fails_or_is_missing_is_logged_and_sigterm_follows_at_once(
    tell: Tell, caplog: pytest.LogCaptureFixture, stop: tuple[str, ...], said: str
) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        running = await fleet.start(workshop.serve(stop=stop), workshop.on_exit)
        began = time.monotonic()
        await fleet.stop("a", 10)
        assert time.monotonic() - began < 3
        assert not psutil.pid_exists(running.pid)
        assert "the stop command of serve a " in caplog.text
        assert said in caplog.text
        await fleet.close(False)

    tell(story)


def test_a_command_that_hangs_is_killed_after_the_grace_and_the_signals_have_theirs(
    tell: Tell, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        stop = ("sh", "-c", "sleep 60 & sleep 60")
        running = await fleet.start(workshop.serve("--ignore-term", stop=stop), workshop.on_exit)
        began = time.monotonic()
        await fleet.stop("a", 0.3)
        assert 0.6 <= time.monotonic() - began < 3
        assert not psutil.pid_exists(running.pid)
        assert "did not end in time, and was killed: SIGTERM follows" in caplog.text
        assert running_in(workshop) == []
        await fleet.close(False)

    tell(story)


def test_a_command_that_does_not_end_the_serve_leaves_it_to_the_signals_after_the_grace(
    tell: Tell, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        running = await fleet.start(workshop.serve(stop=("true",)), workshop.on_exit)
        began = time.monotonic()
        await fleet.stop("a", 0.3)
        assert 0.3 <= time.monotonic() - began < 3
        assert not psutil.pid_exists(running.pid)
        assert "the stop command of serve a ended, and the serve still runs: SIGTERM follows" in caplog.text
        await fleet.close(False)

    tell(story)


def test_a_stop_in_a_hurry_waits_for_no_command(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        stop = ("sh", "-c", "echo begun; sleep 60")
        await fleet.start(workshop.serve("--ignore-term", stop=stop), workshop.on_exit)
        stopping = asyncio.get_running_loop().create_task(fleet.stop("a", 60))
        async with asyncio.timeout(5):
            while "begun" not in workshop.log():
                await asyncio.sleep(0.01)
        began = time.monotonic()
        fleet.hurry(False)
        await stopping
        assert time.monotonic() - began < 3
        assert running_in(workshop) == []
        await fleet.close(False)

    tell(story)


def test_what_a_wrapper_started_in_a_session_of_its_own_is_reached_by_the_command_alone(tell: Tell) -> None:
    """As a container behind `docker run`: no signal to the wrapper's group gets there."""

    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        engine = shlex.join(workshop.serve("--ignore-term").cmd)
        start = f"setsid {engine} & echo $! > engine.pid; wait"
        serve = workshop.serve(stop=("sh", "-c", "kill -USR1 $(cat engine.pid)"))
        running = await fleet.start(replace(serve, cmd=("sh", "-c", start)), workshop.on_exit)
        engine_pid = int((workshop.directory / "engine.pid").read_text())
        assert is_alive(engine_pid)
        await fleet.stop("a", 10)
        assert running_in(workshop) == []
        assert not psutil.pid_exists(running.pid)
        await fleet.close(False)

    tell(story)


def test_a_start_that_is_given_up_is_ended_by_the_command_too(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        serve = workshop.serve("--ignore-term", "--health", "503", stop=(*KILL, "{pid}"), ready_timeout=0.5)
        with pytest.raises(Exception, match="not ready"):
            await fleet.start(serve, workshop.on_exit)
        assert "\nends\n" in workshop.log()
        await fleet.close(False)

    tell(story)


def test_a_serve_that_is_no_longer_configured_is_stopped_by_the_command_of_its_start(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        serve = workshop.serve("--ignore-term", stop=(*KILL, "{pid}", "{name}"), env={"A": "1"})
        running = await fleet.start(serve, workshop.on_exit)
        await fleet.close(True)
        later = workshop.supervisor()
        assert await later.adopt([], workshop.on_exit) == []
        assert not psutil.pid_exists(running.pid)
        assert "\nends a\n" in workshop.log()
        await later.close(False)

    tell(story)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    yield from docker_daemon.started()


@pytest.mark.docker
@pytest.mark.skipif(sys.platform != "linux", reason="containers of this machine's programs")
def test_a_container_that_docker_run_started_as_the_command_is_stopped_and_gone(tell: Tell, daemon: Daemon) -> None:
    """Its first process has no handler for SIGTERM, so the kernel drops what `docker run` passes on."""

    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        words = docker_daemon.run("wrapped", *docker_daemon.engine("--port", "{port}"), options=("--rm",))
        words.remove("-d")
        serve = workshop.serve(
            stop=("docker", "stop", "--time", "1", "wrapped"), env={"DOCKER_HOST": daemon.host}, ready_timeout=30.0
        )
        running = await fleet.start(replace(serve, cmd=tuple(words)), workshop.on_exit)
        assert daemon.docker("ps", "--format", "{{.Names}}") == "wrapped"
        await fleet.stop("a", 15)
        assert not psutil.pid_exists(running.pid)
        assert daemon.docker("ps", "--all", "--format", "{{.Names}}") == ""
        assert "\nwrapped\n" in workshop.log(), "what `docker stop` prints"
        await fleet.close(False)

    tell(story)
