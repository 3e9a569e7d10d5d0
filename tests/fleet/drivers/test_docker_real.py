"""The container driver with a real Docker daemon, real containers and Docker Compose where it is installed."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fleet.conftest import RealClock, holdings
from tests.fleet.drivers import docker_daemon
from tests.fleet.drivers.docker_daemon import IMAGE, Daemon, engine, run

from stoker.cli.console.container_note import container_note
from stoker.domain.access import Paths
from stoker.domain.doctor_finding import DoctorHealth
from stoker.domain.errors import StartFailed
from stoker.domain.serve import Driver, Serve
from stoker.engines.readiness import Readiness
from stoker.fleet.drivers.conflicts import Conflicts
from stoker.fleet.drivers.container_driver import ContainerDriver, ContainerUnit, id_of
from stoker.fleet.drivers.containers import ContainerAction, ContainerMatch, ContainerState
from stoker.fleet.drivers.docker import Docker
from stoker.fleet.drivers.unit import Launched
from stoker.fleet.process.environment import free_port
from stoker.fleet.process.identity import Keys, KeySigner, StartRecord
from stoker_setup.commands import doctor_checks

pytestmark = pytest.mark.docker

COMPOSE_1 = shutil.which("docker-compose")
POLITE = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print('up'); time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: print('asked')); print('up'); time.sleep(60)"
LOOP = "import time; time.sleep(0.05); print('no luck'); raise SystemExit(3)"


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    yield from docker_daemon.started()


class Yard:
    """One daemon, one driver, and what `on_exit` and `on_gone` told."""

    def __init__(self, daemon: Daemon, directory: Path) -> None:
        self.daemon = daemon
        self.docker = daemon.docker
        self.directory = directory
        self.exits: list[int | None] = []
        self.exited = asyncio.Event()
        self.gone = asyncio.Event()
        self.intents: list[StartRecord] = []
        self.driver = self.new_driver()

    def new_driver(self) -> ContainerDriver:
        """As of a control plane that has just started."""
        paths = Paths(str(self.directory / "state"), str(self.directory / "logs"), str(self.directory))
        return ContainerDriver(paths, Keys(KeySigner(lambda: bytes(32))), logging.getLogger("test.docker"), lambda: ())

    def serve(self, *options: str, up: list[str] | None = None, **fields: Any) -> Serve:
        port = fields.pop("port", None) or free_port("127.0.0.1", ())
        made = run("fast", *engine("--port", "{port}", *options))
        given = {"engine": "openai", "directory": str(self.directory), "ready_timeout": 20.0, "stop_grace": 0.2}
        given |= {"container": "fast", "driver": Driver.COMPOSE, "served_name": "a", **fields}
        return Serve(name="fast-serve", port=port, up=tuple(up or made), **given)

    def program(self, code: str, *options: str, **fields: Any) -> Serve:
        python = os.path.realpath(sys.executable)
        return self.serve(up=run("fast", python, "-S", "-E", "-u", "-c", code, options=options), **fields)

    async def launch(self, serve: Serve) -> Launched:
        return await self.driver.launch(serve, (), time.time(), self.intents.append)

    def attach(self, record: StartRecord) -> ContainerUnit:
        def on_exit(code: int | None) -> None:
            self.exits.append(code)
            self.exited.set()

        return self.driver.attach(record, on_exit, self.gone.set)

    async def up(self, serve: Serve) -> ContainerUnit:
        return self.attach((await self.launch(serve)).record)

    async def prove(self, serve: Serve, launched: Launched) -> None:
        async with asyncio.timeout(10):
            await Readiness(serve, launched.address, RealClock(), asyncio.Event()).prove()

    async def hears(self, event: asyncio.Event) -> None:
        async with asyncio.timeout(10):
            await event.wait()

    async def says(self, words: str, times: int = 1) -> None:
        async with asyncio.timeout(10):
            while self.daemon.try_docker("logs", "fast").stdout.count(words) < times:
                await asyncio.sleep(0.01)

    def log(self) -> str:
        return (self.directory / "logs" / "fast-serve.log").read_text()

    def status(self, name: str = "fast") -> str:
        return self.docker("inspect", "--format", "{{.State.Status}}", name)

    def id(self) -> str:
        return self.docker("inspect", "--format", "{{.Id}}", "fast")


Story = Callable[[Yard], Awaitable[None]]


@pytest.fixture
def tell(shared: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Story], None]:
    """Runs a story on a loop of its own; afterwards no process, descriptor or task of it may be left."""
    monkeypatch.setenv("DOCKER_HOST", shared.host)
    shared.clear()

    def told(story: Story) -> None:
        async def whole() -> None:
            before = holdings()
            await story(Yard(shared, tmp_path))
            assert len(asyncio.all_tasks()) == 1, "tasks are left behind"
            assert holdings().descriptors <= before.descriptors, "descriptors are left behind"

        asyncio.run(whole())

    return told


def test_a_missing_container_is_made_proved_by_its_id_and_started_again_as_it_was(
    tell: Callable[[Story], None],
) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.serve()
        assert await yard.driver.start_problems(serve) == []
        launched = await yard.launch(serve)
        await yard.prove(serve, launched)
        first = launched.record
        assert (yard.intents[0].pid, yard.intents[0].handle) == (0, "fast")
        assert first.handle == f"fast {yard.id()}"
        assert str(first.pid) == yard.docker("inspect", "--format", "{{.State.Pid}}", "fast")
        unit = yard.attach(first)
        await unit.end(0.0)
        assert (yard.status(), yard.gone.is_set(), yard.exits) == ("exited", True, [-9])
        assert await yard.driver.plan(serve) == [["docker", "start", "fast"]]
        again = await yard.launch(serve)
        assert again.record.handle == first.handle
        assert again.record.pid != first.pid
        await yard.prove(serve, again)
        await yard.attach(again.record).end(0.0)

    tell(story)


def test_an_end_is_asked_for_first_and_its_exit_code_is_told(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        launched = await yard.launch(yard.program(POLITE))
        await yard.says("up")
        unit = yard.attach(launched.record)
        await unit.end(10.0)
        assert yard.exits == [7]
        assert unit.code == 7
        assert unit.begin_end(0.0) is None

    tell(story)


def test_what_it_writes_goes_to_our_log_and_what_it_wrote_in_an_earlier_start_only_once(
    tell: Callable[[Story], None],
) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.program(f"import sys; print('bo' + 'rn', file=sys.stderr); {POLITE}")
        for times in (1, 2):
            launched = await yard.launch(serve)
            unit = yard.attach(launched.record)
            await yard.says("up", times)
            yard.docker("kill", "fast")
            await yard.hears(yard.exited)
            yard.exited.clear()
            await unit.end(0.0)
            assert launched.log is not None
            this_time = launched.log.read_bytes()[launched.log_start :]
            assert sorted(this_time.split()) == [b"born", b"up"]
        assert yard.log().count("born") == 2
        assert yard.log().count("--- stoker") == 2

    tell(story)


def test_one_that_ends_at_once_is_told_with_its_code_and_its_last_words(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.program("print('CUDA error: out of memory'); raise SystemExit(3)")
        unit = await yard.up(serve)
        await yard.hears(yard.exited)
        assert (unit.code, yard.exits) == (3, [3])
        assert "CUDA error: out of memory" in yard.log()
        await unit.end(0.0)
        assert yard.gone.is_set()

    tell(story)


def test_what_is_adopted_is_listened_to_from_now_on(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        talker = "import time; print('before', flush=True)\nwhile True: time.sleep(0.05); print('later', flush=True)"
        record = (await yard.launch(yard.program(talker))).record
        await yard.says("later")
        unit = yard.attach(msgspec.structs.replace(record, ready=True))
        async with asyncio.timeout(10):
            while "later" not in yard.log():
                await asyncio.sleep(0.01)
        assert "before" not in yard.log().split("\n", 1)[1].split("\n")
        await unit.end(0.0)

    tell(story)


def test_what_ignores_its_end_is_killed_when_the_grace_is_over_and_a_second_end_shortens_it(
    tell: Callable[[Story], None],
) -> None:
    async def story(yard: Yard) -> None:
        launched = await yard.launch(yard.program(DEAF))
        await yard.says("up")
        unit = yard.attach(launched.record)
        patient = unit.begin_end(3600.0)
        assert patient is not None
        await yard.says("asked")
        await unit.end(0.1)
        assert patient.done()
        assert (yard.status(), yard.exits) == ("exited", [-9])

    tell(story)


@pytest.mark.parametrize("how", [("kill", "fast"), ("rm", "--force", "fast"), ("stop", "--time", "0", "fast")])
def test_an_end_from_outside_is_told_once_without_being_asked(
    tell: Callable[[Story], None], how: tuple[str, ...]
) -> None:
    async def story(yard: Yard) -> None:
        unit = await yard.up(yard.serve())
        yard.docker(*how)
        await yard.hears(yard.exited)
        assert yard.exits in ([-9], [None] if how[0] == "rm" else [-9])
        await unit.end(0.0)
        assert len(yard.exits) == 1

    tell(story)


def test_where_its_process_is_not_seen_from_here_docker_is_asked_to_wait_for_its_end(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.fleet.drivers.container_driver.is_here", lambda container: False)

    async def story(yard: Yard) -> None:
        launched = await yard.launch(yard.serve())
        assert launched.record.pid == 0
        unit = yard.attach(launched.record)
        assert unit.pid is None
        yard.docker("kill", "fast")
        await yard.hears(yard.exited)
        assert yard.exits == [-9]
        await unit.end(0.0)
        unit = await yard.up(yard.serve())
        await unit.end(0.0)
        assert yard.exits == [-9, -9]

    tell(story)


def test_a_paused_one_is_noticed_unpaused_by_a_start_and_ended_all_the_same(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.serve()
        launched = await yard.launch(serve)
        await yard.prove(serve, launched)
        yard.docker("pause", "fast")
        assert await yard.driver.state(launched.record) is ContainerState.PAUSED
        assert await yard.driver.plan(serve) == [["docker", "unpause", "fast"]]
        launched = await yard.launch(serve)
        assert await yard.driver.state(launched.record) is ContainerState.RUNNING
        unit = yard.attach(launched.record)
        yard.docker("pause", "fast")
        await unit.end(0.2)
        assert yard.status() == "exited"

    tell(story)


def test_one_that_somebody_pauses_while_it_serves_goes_on_and_that_is_logged(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A request to a paused one would hang."""
    monkeypatch.setattr("stoker.fleet.drivers.container_driver.LOOK_EVERY", 0.05)

    async def story(yard: Yard) -> None:
        serve = yard.serve()
        launched = await yard.launch(serve)
        await yard.prove(serve, launched)
        unit = yard.attach(launched.record)
        yard.docker("pause", "fast")
        async with asyncio.timeout(10):
            while yard.status() != "running" or "was paused" not in caplog.text:
                await asyncio.sleep(0.02)
        await yard.prove(serve, launched)
        assert "container fast was paused, and Stoker resumed it, because serve 'fast-serve' is loaded" in caplog.text
        await unit.end(0.0)

    tell(story)


def test_somebody_elses_program_under_the_name_is_refused_at_once_if_nothing_listens(
    tell: Callable[[Story], None],
) -> None:
    """The image and the name fit, so nothing else tells them apart; it was waited for until `ready_timeout`."""

    async def story(yard: Yard) -> None:
        serve = yard.serve()
        yard.docker(*run("fast", os.path.realpath(sys.executable), "-c", POLITE)[1:])
        theirs = yard.id()
        [problem] = await yard.driver.start_problems(serve)
        assert "runs another command than its `up`, and nothing listens on port" in problem
        assert "docker rm --force fast" in problem
        with pytest.raises(StartFailed, match="runs another command"):
            await yard.launch(serve)
        with pytest.raises(StartFailed, match="runs another command"):
            await yard.driver.plan(serve)
        assert (yard.id(), yard.status(), yard.intents) == (theirs, "running", [])
        yard.docker("rm", "--force", "fast")
        by_hand = [word.replace("{port}", str(serve.port)) for word in serve.up or ()]
        yard.docker(*by_hand[1:])
        assert await yard.driver.start_problems(serve) == [], "the same command, by hand: it may still be loading"
        await yard.attach((await yard.launch(serve)).record).end(0.0)

    tell(story)


def test_a_paused_one_is_asked_to_end_like_any_other(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        launched = await yard.launch(yard.program(POLITE))
        await yard.says("up")
        yard.docker("pause", "fast")
        await yard.attach(launched.record).end(10.0)
        assert yard.exits == [7]

    tell(story)


def test_a_stopped_one_that_drifted_is_made_anew_and_a_running_one_is_left_and_reported(
    tell: Callable[[Story], None],
) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.serve()
        unit = await yard.up(serve)
        first = yard.id()
        changed = dataclasses.replace(serve, env={"VERSION": "2"})
        seen = await yard.driver.inspect(changed)
        assert (seen.match, seen.action) == (ContainerMatch.CHANGED, ContainerAction.LEAVE)
        left = await yard.launch(changed)
        assert yard.id() == first
        assert left.record.facts["drift"] == "the serve's configuration has changed"
        await unit.end(0.0)
        plan = await yard.driver.plan(changed)
        assert plan[0] == ["docker", "rm", first]
        await yard.launch(changed)
        assert yard.id() != first
        assert (await yard.driver.inspect(changed)).match is ContainerMatch.SAME
        assert (await yard.driver.inspect(serve)).match is ContainerMatch.CHANGED

    tell(story)


def test_a_paused_one_that_drifted_is_made_anew(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.serve()
        first = await yard.launch(serve)
        yard.docker("pause", "fast")
        again = await yard.launch(dataclasses.replace(serve, port=free_port("127.0.0.1", ())))
        assert id_of(again.record) != id_of(first.record)
        assert yard.status() == "running"

    tell(story)


def test_another_image_under_the_same_name_is_drift(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        yard.daemon.make_image("moving:1", "one")
        serve = yard.serve(up=run("fast", *engine("--port", "{port}"), image="moving:1"))
        unit = await yard.up(serve)
        await unit.end(0.0)
        assert (await yard.driver.inspect(serve)).action is ContainerAction.START
        yard.daemon.make_image("moving:1", "two")
        seen = await yard.driver.inspect(serve)
        assert (seen.action, seen.why) == (ContainerAction.RECREATE, "the image moving:1 has changed")

    tell(story)


def test_doctor_and_serves_up_report_a_running_one_that_drifted_or_was_paused(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        paths = Paths(str(yard.directory / "state"), str(yard.directory / "logs"), str(yard.directory))
        yard.daemon.make_image("moving:1", "one")
        serve = yard.serve(up=run("fast", *engine("--port", "{port}"), image="moving:1"))
        unit = await yard.up(serve)
        try:
            assert await asyncio.to_thread(doctor_checks.container, serve, paths) is None
            yard.daemon.make_image("moving:1", "two")
            found = await asyncio.to_thread(doctor_checks.container, serve, paths)
            assert found is not None
            assert (found.health, found.detail) == (
                DoctorHealth.WARN, "container 'fast' runs on, but the image moving:1 has changed",
            )  # fmt: skip
            assert "stoker serves up fast-serve" in found.fix
            assert found.next == "stoker serves down fast-serve"
            yard.docker("pause", "fast")
            found = await asyncio.to_thread(doctor_checks.container, serve, paths)
            assert found is not None
            assert "container 'fast' is paused" in found.detail
            note = await asyncio.to_thread(container_note, serve, paths)
            assert note == found.detail
        finally:
            await unit.end(0.0)

    tell(story)


def test_what_was_made_from_is_remembered_across_a_restart_of_ours_and_without_it_is_unknown(
    tell: Callable[[Story], None],
) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.serve()
        await (await yard.up(serve)).end(0.0)
        assert (await yard.new_driver().inspect(serve)).match is ContainerMatch.SAME
        remembered = yard.directory / "state" / "containers" / "fast.json"
        assert remembered.stat().st_mode & 0o777 == 0o600
        remembered.unlink()
        seen = await yard.new_driver().inspect(serve)
        assert (seen.match, seen.action) == (ContainerMatch.UNKNOWN, ContainerAction.RECREATE)

    tell(story)


def test_a_container_of_somebody_else_with_the_name_is_named_refused_and_untouched(
    tell: Callable[[Story], None],
) -> None:
    async def story(yard: Yard) -> None:
        yard.daemon.make_image("other:1", "other")
        yard.docker(*run("fast", *engine("--port", "1"), image="other:1")[1:])
        theirs = yard.id()
        serve = yard.serve()
        [problem] = await yard.driver.start_problems(serve)
        assert "uses the image other:1" in problem
        assert "docker rm --force fast" in problem
        with pytest.raises(StartFailed, match="other:1"):
            await yard.launch(serve)
        assert (yard.id(), yard.intents) == (theirs, [])

    tell(story)


def test_a_name_that_is_taken_in_the_last_moment_is_a_failed_start_and_theirs_runs_on(
    tell: Callable[[Story], None],
) -> None:
    async def story(yard: Yard) -> None:
        def somebody_is_faster(intent: StartRecord) -> None:
            yard.docker(*run("fast", *engine("--port", "0"))[1:])

        with pytest.raises(StartFailed, match="docker rm fast"):
            await yard.driver.launch(yard.serve(), (), time.time(), somebody_is_faster)
        assert yard.status() == "running"

    tell(story)


def test_one_that_was_created_and_never_started_is_started(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        words = run("fast", *engine("--port", "{port}"))
        words[1:3] = ["create"]
        serve = yard.serve(up=words)
        assert (await yard.driver.plan(serve))[1] == ["docker", "start", "fast"]
        unit = await yard.up(serve)
        await unit.end(0.0)
        yard.docker("rm", "fast")
        yard.docker(*(serve.up or ())[1:])  # by hand, and not started
        assert (await yard.driver.inspect(serve)).state is ContainerState.CREATED
        await yard.launch(serve)
        assert yard.status() == "running"

    tell(story)


def test_one_that_ends_again_and_again_is_left_to_the_operator_and_can_be_ended(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.program(LOOP, "--restart=always")
        yard.docker(*(serve.up or ())[1:])
        async with asyncio.timeout(10):
            while yard.status() != "restarting":
                await asyncio.sleep(0.02)
        seen = await yard.driver.inspect(serve)
        # Between two restarts it may be seen running for a moment.
        assert seen.state in (ContainerState.RESTARTING, ContainerState.RUNNING)
        record = earlier_start(yard, serve)
        found = await yard.driver.find(record)
        assert found is not None
        unit = yard.attach(msgspec.structs.replace(found, pid=0, mark=""))
        await unit.end(0.5)
        assert yard.status() == "exited"
        assert "no luck" in yard.log()

    tell(story)


def earlier_start(yard: Yard, serve: Serve) -> StartRecord:
    """As of an earlier start of what runs now."""
    return StartRecord(
        name=serve.name, pid=0, mark="", command="", fingerprint="", port=serve.port or 0, nonce="n", takes_key=False,
        started_at=0.0, log=str(yard.directory / "logs" / "fast-serve.log"), grace=0.1,
        driver="compose", handle=f"fast {yard.id()}",
    )  # fmt: skip


def test_an_image_that_is_missing_is_named_before_anything_makes_room(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.serve(up=run("fast", "x", image="nowhere.invalid/none:1"))
        [problem] = await yard.driver.start_problems(serve)
        assert "docker pull" in problem
        with pytest.raises(StartFailed, match=re.escape("nowhere.invalid/none:1")):
            await yard.launch(serve)
        assert yard.docker("ps", "--all", "--quiet") == ""

    tell(story)


def test_one_that_cannot_be_started_says_why_and_nothing_runs(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.serve(up=run("fast", "/nope"))
        with pytest.raises(StartFailed, match="/nope"):
            await yard.launch(serve)
        assert yard.status() == "created"

    tell(story)


def test_a_start_that_is_given_up_leaves_nothing_running(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        script = yard.directory / "up.sh"
        words = " ".join(run("fast", *engine("--port", "{port}"))).replace("{port}", "$1")
        script.write_text(f"#!/bin/sh\n{words}\ntouch {yard.directory}/up\nsleep 60\n")
        script.chmod(0o755)
        serve = yard.serve(up=["./up.sh", "{port}"])
        starting = asyncio.get_running_loop().create_task(yard.launch(serve))
        async with asyncio.timeout(10):
            while not (yard.directory / "up").exists():
                await asyncio.sleep(0.02)
        assert yard.status() == "running"
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert yard.status() == "exited"

    tell(story)


def test_after_a_restart_of_ours_a_running_one_is_found_and_watched_again(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.serve()
        record = msgspec.structs.replace((await yard.launch(serve)).record, ready=True)
        yard.driver = yard.new_driver()
        assert await yard.driver.find(record) == record
        unit = yard.attach(record)
        unit.release()
        assert yard.status() == "running"
        yard.docker("restart", "--time", "0", "fast")
        found = await yard.driver.find(record)
        assert found is not None
        assert found.pid != record.pid
        with pytest.raises(ProcessLookupError):
            yard.attach(record)
        await yard.attach(found).end(0.0)
        assert await yard.driver.find(record) is None

    tell(story)


def test_of_an_interrupted_launch_what_was_started_since_is_found_and_what_ran_before_is_not(
    tell: Callable[[Story], None],
) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.serve()
        await yard.launch(serve)
        [intent] = yard.intents
        found = await yard.driver.find(intent)
        assert found is not None
        assert found.handle == f"fast {yard.id()}"
        assert await yard.driver.find(msgspec.structs.replace(intent, started_at=time.time() + 60)) is None

    tell(story)


def test_a_daemon_that_is_gone_is_no_end_and_what_it_ran_is_ended_without_it(
    tell: Callable[[Story], None], shared: Daemon
) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.serve()
        launched = await yard.launch(serve)
        unit = yard.attach(launched.record)
        shared.kill()
        try:
            [problem] = await yard.driver.start_problems(serve)
            assert "sudo systemctl start docker" in problem
            with pytest.raises(StartFailed, match="does not answer"):
                await yard.launch(serve)
            assert await yard.driver.state(launched.record) is ContainerState.UNKNOWN
            assert await yard.driver.find(launched.record) == launched.record
            assert yard.exits == []
            await unit.end(0.1)
            assert yard.exits == [None]
            assert await yard.driver.find(launched.record) is None
        finally:
            shared.start()
        assert yard.status() == "exited"

    tell(story)


def test_what_conflicts_is_stopped_and_does_not_come_back(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        python = os.path.realpath(sys.executable)
        yard.docker(*run("other", python, "-S", "-E", "-c", POLITE, options=("--restart=always",))[1:])
        yard.docker("pause", "other")
        conflicts = Conflicts(os.environ)
        named = ["container:other", "container:nobody", "ollama"]
        assert await conflicts.present(named) == ["container:other"]
        [done] = await conflicts.disable(named)
        assert "container:other" in done
        assert yard.status("other") == "exited"
        assert yard.docker("inspect", "--format", "{{.HostConfig.RestartPolicy.Name}}", "other") == "no"
        assert await conflicts.disable(named) == []
        yard.docker("update", "--restart=always", "other")
        assert await conflicts.present(named) == ["container:other"], "stopped, and back after a reboot"
        await conflicts.disable(named)
        assert await conflicts.present(named) == []

    tell(story)


# -- Docker Compose 1 ------------------------------------------------------------------------------------------------

needs_compose = pytest.mark.skipif(COMPOSE_1 is None, reason="docker-compose is not installed")


def write_compose(directory: Path, port: int, *options: str, name: str = "docker-compose.yml") -> None:
    service = {
        "image": IMAGE, "container_name": "fast", "network_mode": "host",
        "volumes": docker_daemon.mounts(), "command": engine("--port", str(port), *options),
    }  # fmt: skip
    text = json.dumps({"version": "3.8", "services": {"eng": service}})  # JSON is YAML
    (directory / name).write_text(text)


async def a_changed_compose_file(yard: Yard) -> None:
    port = free_port("127.0.0.1", ())
    write_compose(yard.directory, port)
    serve = yard.serve(up=["docker", "compose", "up", "-d", "eng"], port=port)
    assert await yard.driver.start_problems(serve) == []
    launched = await yard.launch(serve)
    await yard.prove(serve, launched)
    first = yard.id()
    assert (await yard.driver.inspect(serve)).action is ContainerAction.LEAVE
    write_compose(yard.directory, port, "--id", "b")
    seen = await yard.driver.inspect(serve)
    assert (seen.action, seen.why) == (ContainerAction.LEAVE, "the Compose file has changed")
    await yard.attach(launched.record).end(0.0)
    changed = dataclasses.replace(serve, served_name="b")
    await yard.prove(changed, await yard.launch(changed))
    assert yard.id() != first


@needs_compose
def test_a_changed_compose_file_recreates_a_stopped_container_and_reports_a_running_one(
    tell: Callable[[Story], None],
) -> None:
    tell(a_changed_compose_file)


def test_the_same_by_docker_compose_v2(tell: Callable[[Story], None]) -> None:
    """The plugin, where it can be had."""
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("Docker Compose v2 is not installed; test_container_driver.py covers its words by a stand-in")
    tell(a_changed_compose_file)


@needs_compose
def test_what_compose_made_without_us_is_taken_and_another_projects_is_refused(
    tell: Callable[[Story], None],
) -> None:
    async def story(yard: Yard) -> None:
        port = free_port("127.0.0.1", ())
        write_compose(yard.directory, port)
        serve = yard.serve(up=["docker-compose", "-f", "{dir}/docker-compose.yml", "up", "-d"], port=port)
        await Docker(os.environ).command([str(COMPOSE_1), "up", "-d"], {}, 30.0, str(yard.directory))
        seen = await yard.driver.inspect(serve)
        assert (seen.match, seen.action) == (ContainerMatch.SAME, ContainerAction.LEAVE)
        other = yard.directory / "other"
        other.mkdir()
        write_compose(other, port)
        [problem] = await yard.driver.start_problems(dataclasses.replace(serve, directory=str(other)))
        assert str(yard.directory) in problem
        assert "left alone" in problem

    tell(story)


@needs_compose
def test_a_broken_compose_file_and_one_without_the_container_are_named(tell: Callable[[Story], None]) -> None:
    async def story(yard: Yard) -> None:
        serve = yard.serve(up=["docker-compose", "up", "-d"])
        (yard.directory / "docker-compose.yml").write_text("services: [")
        [problem] = await yard.driver.start_problems(serve)
        assert "Compose file cannot be used" in problem
        assert "config`" in problem
        write_compose(yard.directory, 1)
        [problem] = await yard.driver.start_problems(dataclasses.replace(serve, container="slow"))
        assert "container_name: slow" in problem

    tell(story)
