"""The container driver against a stand-in `docker` that records what it is told: which commands, and every failure."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import re
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from tests.fleet.conftest import holdings

from stoker.domain.access import Paths
from stoker.domain.errors import StartFailed
from stoker.domain.serve import Driver, Secret, Serve
from stoker.fleet.drivers import container_driver, docker
from stoker.fleet.drivers.conflicts import Conflicts
from stoker.fleet.drivers.container_driver import ContainerDriver
from stoker.fleet.drivers.containers import Container, ContainerAction, ContainerMatch, ContainerState
from stoker.fleet.drivers.docker import DockerFailed
from stoker.fleet.drivers.unit import Launched
from stoker.fleet.process.environment import free_port
from stoker.fleet.process.identity import Keys, KeySigner, StartRecord
from stoker.system import processes

STANDIN = Path(__file__).with_name("standin_docker.py")
RUN = ("docker", "run", "-d", "--name", "fast", "img:1")
PLUGIN = ("docker", "compose", "-f", "{dir}/c.yml", "up", "-d", "eng")
PROGRAM = ("docker-compose", *PLUGIN[2:])
GONE = [1, "", "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?"]


class Bench:
    """A PATH with nothing but stand-ins."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bin = directory / "bin"
        self.bin.mkdir()
        self.answers: dict[str, list[Any]] = {}
        self.answer()
        self.ours: set[int] = set()
        self.intents: list[StartRecord] = []
        self.exits: list[int | None] = []
        self.exited = asyncio.Event()
        self.gone = asyncio.Event()

    def install(self, *names: str) -> None:
        for name in names:
            program = self.bin / name
            program.write_text(f"#!{sys.executable} -SE\n{STANDIN.read_text()}")
            program.chmod(0o755)

    def answer(self, **kinds: Any) -> None:
        """`docker_compose=[1, "", "..."]`: what begins with `docker compose` answers so."""
        self.answers |= {name.replace("_", " "): value for name, value in kinds.items()}
        (self.directory / "answers.json").write_text(json.dumps(self.answers))

    @property
    def driver(self) -> ContainerDriver:
        paths = Paths(str(self.directory / "state"), str(self.directory / "logs"), str(self.directory))
        return ContainerDriver(
            paths, Keys(KeySigner(lambda: bytes(32))), logging.getLogger("test.docker"), lambda: self.ours
        )

    def serve(self, *up: str, **fields: Any) -> Serve:
        given = {
            "engine": "openai",
            "directory": str(self.directory),
            "ready_timeout": 5.0,
            "stop_grace": 0.2,
            **fields,
        }
        port = given.pop("port", None) or free_port("127.0.0.1", ())
        return Serve(name="a", port=port, up=up or None, container="fast", driver=Driver.COMPOSE, **given)

    async def launch(self, serve: Serve) -> Launched:
        return await self.driver.launch(serve, (), time.time(), self.intents.append)

    def attach(self, record: StartRecord) -> container_driver.ContainerUnit:
        def on_exit(code: int | None) -> None:
            self.exits.append(code)
            self.exited.set()

        return self.driver.attach(record, on_exit, self.gone.set)

    def forget(self) -> None:
        (self.directory / "said.jsonl").unlink(missing_ok=True)

    def said(self) -> list[list[str]]:
        """What was asked of the stand-ins since `forget`."""
        return [json.loads(line) for line in (self.directory / "said.jsonl").read_text().splitlines()]

    def changes(self) -> list[list[str]]:
        """Of what was asked, that which does more than ask."""
        asks = {"inspect", "version", "config", "wait", "logs", "image"}
        return [words for words in self.said() if not asks & set(words)]

    def become(self, status: str, **state: Any) -> None:
        path = self.directory / "container.json"
        entry = json.loads(path.read_text())
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps({**entry, "State": {"Status": status, **state}}))
        draft.rename(path)


Story = Callable[[Bench], Awaitable[None]]


@pytest.fixture
def tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Story], None]:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("COMPOSE_PROJECT_NAME", str(tmp_path))

    def told(story: Story) -> None:
        async def whole() -> None:
            before = holdings()
            await story(Bench(tmp_path))
            assert holdings().are_none_but(before), "processes or descriptors are left behind"
            assert len(asyncio.all_tasks()) == 1, "tasks are left behind"

        asyncio.run(whole())

    return told


# -- Compose -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("up", "installed", "used"),
    [
        (PLUGIN, ("docker",), ["docker", "compose"]),
        (PLUGIN, ("docker", "docker-compose"), ["docker", "compose"]),
        (PROGRAM, ("docker", "docker-compose"), ["docker-compose"]),
        (PROGRAM, ("docker",), ["docker", "compose"]),
    ],
)
def test_the_compose_that_is_installed_is_used_and_nothing_else_of_up_changes(
    tell: Callable[[Story], None], up: tuple[str, ...], installed: tuple[str, ...], used: list[str]
) -> None:
    async def story(bench: Bench) -> None:
        bench.install(*installed)
        await bench.launch(bench.serve(*up))
        [made] = bench.changes()
        assert made == [*used, "-f", f"{bench.directory}/c.yml", "up", "-d", "eng"]

    tell(story)


def test_without_the_plugin_docker_compose_1_is_used_and_that_is_logged(
    tell: Callable[[Story], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker", "docker-compose")
        bench.answer(docker_compose=[1, "", "docker: 'compose' is not a docker command."])
        with caplog.at_level(logging.INFO):
            await bench.launch(bench.serve(*PLUGIN))
        assert [words[0] for words in bench.changes()] == ["docker-compose"]
        assert "`docker compose` is not installed" in caplog.text

    tell(story)


def test_a_changed_compose_hash_recreates_what_is_stopped_with_commands_that_were_planned(
    tell: Callable[[Story], None],
) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        serve = bench.serve(*PLUGIN)
        planned = await bench.driver.plan(serve)
        bench.forget()
        await bench.launch(serve)
        assert [words[1:] for words in bench.changes()] == [words[1:] for words in planned]
        bench.become("exited")
        assert (await bench.driver.inspect(serve)).action is ContainerAction.START
        bench.answers[f"docker compose -f {bench.directory}/c.yml config --hash"] = [0, "eng hash-2\n", ""]
        bench.answer()
        seen = await bench.driver.inspect(serve)
        assert (seen.match, seen.action, seen.why) == (
            ContainerMatch.CHANGED,
            ContainerAction.RECREATE,
            "the Compose file has changed",
        )
        planned = await bench.driver.plan(serve)
        bench.forget()
        await bench.launch(serve)
        assert [words[1:] for words in bench.changes()] == [words[1:] for words in planned]
        assert planned[0][:2] == ["docker", "rm"]
        assert (await bench.driver.inspect(serve)).match is ContainerMatch.SAME

    tell(story)


# -- what prevents a start -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"docker_inspect": GONE}, "sudo systemctl start docker"),
        ({"docker_inspect": [1, "", "permission denied while trying to connect to the docker API at unix:///x"]},
         "usermod -aG docker"),
        ({"docker_image": [1, "", "Error response from daemon: No such image: img:1"]}, "`docker pull img:1`"),
        ({"docker_inspect": [0, "what?", ""]}, "cannot be read"),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_one_sentence_with_the_next_command_and_nothing_is_changed(
    tell: Callable[[Story], None], answers: dict[str, Any], words: str
) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        bench.answer(**answers)
        [problem] = await bench.driver.start_problems(bench.serve(*RUN))
        assert words in problem
        assert "serve 'a'" in problem
        with pytest.raises(StartFailed, match=re.escape(words)):
            await bench.driver.plan(bench.serve(*RUN))
        assert bench.changes() == []

    tell(story)


def test_a_compose_file_that_is_broken_or_lacks_the_container_is_named(tell: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        serve = bench.serve(*PLUGIN)
        bench.answer(docker_compose=[1, "", "yaml: line 1: did not find expected node content"])
        [problem] = await bench.driver.start_problems(serve)
        assert "Compose file cannot be used" in problem
        assert "config`" in problem
        del bench.answers["docker compose"]
        bench.answer()
        [problem] = await bench.driver.start_problems(dataclasses.replace(serve, container="slow"))
        assert "container_name: slow" in problem

    tell(story)


def test_docker_that_is_not_installed_is_named(tell: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        [problem] = await bench.driver.start_problems(bench.serve(*RUN))
        assert "`docker` is not installed" in problem
        with pytest.raises(StartFailed, match="apt install docker"):
            await bench.launch(bench.serve(*RUN))
        with pytest.raises(StartFailed, match="apt install docker"):
            await bench.driver.plan(bench.serve(*RUN))
        assert await bench.driver.state(record("id1")) is ContainerState.UNKNOWN

    tell(story)


def test_a_missing_container_without_up_a_missing_command_and_the_foreground_are_named(
    tell: Callable[[Story], None],
) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        driver = bench.driver
        assert "give it one" in (await driver.start_problems(bench.serve()))[0]
        assert "`./up.sh`" in (await driver.start_problems(bench.serve("./up.sh")))[0]
        assert "add -d" in (await driver.start_problems(bench.serve("docker", "run", "img:1")))[0]

    tell(story)


def test_the_port_of_a_stranger_is_an_obstacle_and_that_of_our_own_serve_is_not(tell: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            port = listener.getsockname()[1]
            serve = bench.serve(*RUN, port=port)
            [problem] = await bench.driver.start_problems(serve)
            assert f"port {port} is taken" in problem
            with pytest.raises(StartFailed, match="is taken"):
                await bench.launch(serve)
            assert bench.intents == []
            bench.ours = {port}
            assert await bench.driver.start_problems(serve) == []

    tell(story)


# -- starts that fail --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("up", "answers", "words"),
    [
        (RUN, {"docker_run": [125, "", "docker: Error response from daemon: could not select device driver"]},
         "could not select device driver"),
        (RUN, {"docker_run": [0, "", ""]}, "created no container 'fast'"),
    ],
)  # fmt: skip
def test_an_up_that_fails_or_makes_nothing_is_a_failed_start(
    tell: Callable[[Story], None], up: tuple[str, ...], answers: dict[str, Any], words: str
) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        bench.answer(**answers)
        with pytest.raises(StartFailed, match=words):
            await bench.launch(bench.serve(*up))
        assert len(bench.intents) == 1

    tell(story)


def test_an_up_that_does_not_return_is_killed_with_everything_it_started(tell: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        script = bench.directory / "up.sh"
        script.write_text(f"#!/bin/sh\n/bin/sleep 60 &\necho $! > {bench.directory}/pid\nwait\n")
        script.chmod(0o755)
        with pytest.raises(StartFailed, match=r"did not end within 0\.5 s"):
            await bench.launch(bench.serve("./up.sh", ready_timeout=0.5))
        assert not processes.is_alive(int((bench.directory / "pid").read_text()))

    tell(story)


def test_a_cancelled_launch_kills_its_command_and_stops_what_came_up(tell: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        script = bench.directory / "up.sh"
        script.write_text(f"#!/bin/sh\n{' '.join(RUN)}\necho made > {bench.directory}/made\nexec /bin/sleep 60\n")
        script.chmod(0o755)
        starting = asyncio.get_running_loop().create_task(bench.launch(bench.serve("./up.sh")))
        async with asyncio.timeout(5):
            while not (bench.directory / "made").exists():
                await asyncio.sleep(0.01)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert bench.changes()[-1] == ["docker", "stop", "--time", "1", "fast"]
        assert json.loads((bench.directory / "container.json").read_text())["State"]["Status"] == "exited"

    tell(story)


def test_no_secret_of_a_serve_is_in_a_log_or_an_error(
    tell: Callable[[Story], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        bench.answer(docker_run=[1, "", "unknown: sesame-1 and sesame-2"])
        serve = bench.serve(
            *RUN, "--key", "{key}", key=Secret("sesame-1", "env:K"), env={"HF_TOKEN": "sesame-2", "SIZE": "big"}
        )
        with caplog.at_level(logging.DEBUG), pytest.raises(StartFailed, match=r"\*\*\*") as failure:
            await bench.launch(serve)
        assert "sesame" not in caplog.text + failure.value.message
        assert "--key ***" in caplog.text
        assert bench.changes()[0][-1] == "sesame-1"

    tell(story)


# -- a daemon elsewhere ------------------------------------------------------------------------------------------------


def record(identity: str) -> StartRecord:
    return StartRecord(
        name="a", pid=0, mark="", command="", fingerprint="", port=1, nonce="n", takes_key=False, started_at=0.0,
        log="", grace=0.1, driver="compose", handle=f"fast {identity}",
    )  # fmt: skip


def test_a_number_that_is_a_strangers_now_is_not_held(tell: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        with pytest.raises(ProcessLookupError):
            bench.attach(msgspec.structs.replace(record("id1"), pid=os.getpid(), mark="then", ready=True))

    tell(story)


def test_a_process_number_of_another_machine_is_never_taken_for_one_of_ours() -> None:
    assert not container_driver.is_here(Container("f" * 64, "fast", ContainerState.RUNNING, pid=os.getpid()))
    assert not container_driver.is_here(Container("", "fast", ContainerState.EXITED, pid=0))


def test_one_elsewhere_is_watched_by_docker_wait_and_ended_by_docker_stop(
    tell: Callable[[Story], None],
) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        launched = await bench.launch(bench.serve(*RUN))
        assert launched.record.pid == 0
        unit = bench.attach(launched.record)
        await unit.end(0.9)
        assert (bench.exits, bench.gone.is_set()) == ([-9], True)
        assert ["docker", "stop", "--time", "1", launched.record.handle.split()[1]] in bench.changes()

    tell(story)


def test_a_paused_one_is_thawed_before_it_is_stopped(tell: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        launched = await bench.launch(bench.serve(*RUN))
        bench.become("paused")
        bench.forget()
        await bench.attach(launched.record).end(10.0)
        assert [words[1] for words in bench.changes()] == ["unpause", "stop"]

    tell(story)


def test_a_daemon_that_does_not_answer_is_not_an_end_and_the_end_is_seen_when_it_is_back(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_driver, "RETRY_PAUSE", 0.01)

    async def story(bench: Bench) -> None:
        bench.install("docker")
        launched = await bench.launch(bench.serve(*RUN))
        bench.answer(docker_wait=GONE)
        bench.forget()
        unit = bench.attach(launched.record)
        async with asyncio.timeout(5):
            while sum("wait" in words for words in said_so_far(bench)) < 3:
                await asyncio.sleep(0.01)
        assert bench.exits == []
        bench.answers.clear()
        bench.become("exited", ExitCode=3)
        bench.answer()
        async with asyncio.timeout(5):
            await bench.exited.wait()
        assert bench.exits == [3]
        await unit.end(0.0)

    tell(story)


def said_so_far(bench: Bench) -> list[list[str]]:
    return bench.said() if (bench.directory / "said.jsonl").exists() else []


def test_what_cannot_be_ended_because_docker_is_silent_says_so(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_driver, "ASK_LIMIT", 0.1)

    async def story(bench: Bench) -> None:
        bench.install("docker")
        launched = await bench.launch(bench.serve(*RUN))
        unit = bench.attach(launched.record)
        bench.answer(docker_inspect=GONE, docker_wait=GONE)
        with pytest.raises(DockerFailed, match="systemctl start docker"):
            await unit.end(0.0)
        assert not bench.gone.is_set()
        unit.release()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    tell(story)


def test_what_only_docker_knows_of_an_end_is_written_to_the_log_too(tell: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        launched = await bench.launch(bench.serve(*RUN))
        unit = bench.attach(launched.record)
        bench.become("exited", OOMKilled=True, ExitCode=137)
        async with asyncio.timeout(5):
            await bench.exited.wait()
        await unit.end(0.0)
        log = (bench.directory / "logs" / "a.log").read_text().splitlines()
        assert log[1:] == ["said this", "--- stoker: Docker about its exit: out of memory"]
        assert await bench.driver.recent_output(launched.record) == ""

    tell(story)


def test_a_log_that_cannot_be_written_is_a_failed_start_and_nothing_is_made(tell: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        (bench.directory / "logs").touch()
        with pytest.raises(StartFailed, match=r"a\.log cannot be written"):
            await bench.launch(bench.serve(*RUN))
        assert bench.changes() == []

    tell(story)


def test_a_health_check_is_among_the_facts_and_a_policy_that_undoes_a_stop_is_warned_of(
    tell: Callable[[Story], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        serve = bench.serve(*RUN)
        launched = await bench.launch(serve)
        assert "container_health" not in launched.record.facts
        bench.become("running", Health={"Status": "unhealthy"})
        path = bench.directory / "container.json"
        policy = {"RestartPolicy": {"Name": "always"}}
        path.write_text(json.dumps({**json.loads(path.read_text()), "HostConfig": policy}))
        launched = await bench.launch(serve)
        assert launched.record.facts["container_health"] == "unhealthy"
        assert launched.record.facts["image"] == "img:1"
        assert "docker update --restart=no fast" in caplog.text

    tell(story)


def test_a_container_whose_memory_is_unreadable_counts_as_unknown(tell: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        serve = bench.serve(*RUN)
        await bench.launch(serve)
        bench.become("exited")
        (bench.directory / "state" / "containers" / "fast.json").write_text("{")
        assert (await bench.driver.inspect(serve)).match is ContainerMatch.UNKNOWN
        other = dataclasses.replace(serve, container="fast")
        assert (await bench.driver.inspect(other)).action is ContainerAction.RECREATE

    tell(story)


# -- conflicts ---------------------------------------------------------------------------------------------------------

SYSTEMCTL = """#!/bin/sh
echo "$@" >> {home}/systemctl
case "$1" in
show) cat {home}/unit;;
disable) [ -f {home}/stubborn ] || printf 'ActiveState=inactive\\nUnitFileState=disabled\\n' > {home}/unit;;
esac
"""


@pytest.mark.parametrize("was", [("active", "enabled"), ("inactive", "enabled"), ("active", "static")])
def test_a_conflicting_unit_that_runs_or_would_come_back_is_stopped_and_disabled(
    tell: Callable[[Story], None], was: tuple[str, str]
) -> None:
    async def story(bench: Bench) -> None:
        systemctl(bench, *was)
        conflicts = Conflicts(os.environ)
        assert await conflicts.present(["unit:ollama", "ollama"]) == ["unit:ollama"]
        [done] = await conflicts.disable(["unit:ollama", "ollama"])
        assert "systemctl enable --now ollama" in done
        lines = (bench.directory / "systemctl").read_text().splitlines()
        assert "disable --now -- ollama" in lines
        assert "stop -- ollama" in lines
        assert await conflicts.disable(["unit:ollama"]) == []

    tell(story)


def systemctl(bench: Bench, active: str, file: str) -> None:
    program = bench.bin / "systemctl"
    program.write_text(SYSTEMCTL.format(home=bench.directory).replace("cat ", "/bin/cat "))
    program.chmod(0o755)
    (bench.directory / "unit").write_text(f"ActiveState={active}\nUnitFileState={file}\n")


def test_a_conflict_that_lives_on_is_a_failed_start_with_the_command_to_type(tell: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        systemctl(bench, "active", "enabled")
        (bench.directory / "stubborn").touch()
        with pytest.raises(StartFailed, match="sudo systemctl disable --now ollama"):
            await Conflicts(os.environ).disable(["unit:ollama"])

    tell(story)


def test_what_is_not_installed_or_not_there_does_not_conflict_and_a_silent_docker_is_not_taken_for_that(
    tell: Callable[[Story], None],
) -> None:
    async def story(bench: Bench) -> None:
        named = ["unit:ollama", "container:fast"]
        conflicts = Conflicts(os.environ)
        assert await conflicts.present(named) == []
        systemctl(bench, "inactive", "")
        bench.install("docker")
        assert await conflicts.disable(named) == []
        bench.answer(docker_inspect=GONE)
        with pytest.raises(StartFailed, match="docker stop fast"):
            await conflicts.disable(named)

    tell(story)


def test_no_child_outlives_a_question_that_is_cancelled(tell: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        bench.install("docker")
        bench.answer(docker_inspect=[0, "hang", ""])
        before = set(psutil.Process().children())
        looking = asyncio.get_running_loop().create_task(bench.driver.inspect(bench.serve(*RUN)))
        async with asyncio.timeout(5):
            while not said_so_far(bench):
                await asyncio.sleep(0.01)
        [child] = set(psutil.Process().children()) - before
        looking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking
        assert not psutil.pid_exists(child.pid)

    tell(story)


def test_of_what_a_command_writes_only_the_end_is_kept() -> None:
    code = f"import sys; sys.stdout.write('x' * {docker.OUTPUT} + 'end'); sys.stderr.write('e'); sys.exit(4)"
    result = asyncio.run(docker.run([sys.executable, "-SE", "-c", code], {}, 10.0))
    assert (len(result.out), result.out[-3:], result.err, result.code) == (docker.OUTPUT, "end", "e", 4)


@pytest.mark.parametrize("turns", range(12))
def test_a_loop_that_is_closed_while_a_command_starts_or_runs_leaves_nothing_and_does_not_hang(turns: int) -> None:
    before = holdings()

    async def given_up() -> None:
        command = docker.run([sys.executable, "-SE", "-c", "import time; time.sleep(60)"], {}, None)
        task = asyncio.get_running_loop().create_task(command)
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not task.done()

    asyncio.run(given_up())
    assert holdings().are_none_but(before)
