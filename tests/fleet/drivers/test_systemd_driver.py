"""Serves that are units, over a stand-in for systemctl that starts real processes from the real unit files."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import signal
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from tests.fleet.suspend.fake_driver import FakeDriver, fleet_of
from tests.scenarios.typed import proposed

from stoker.cli.main import run
from stoker.domain.errors import StartFailed, StokerError
from stoker.domain.serve import Driver, Serve
from stoker.fleet.drivers import systemd
from stoker.fleet.drivers.systemd import SystemdDriver
from stoker.fleet.process.environment import free_port
from stoker.fleet.process.identity import Keys, KeySigner, StartRecord, StartRecords
from stoker.fleet.supervision.supervisor import Supervisor
from stoker.fleet.systemd import systemctl, units
from stoker.fleet.systemd.systemctl import Systemctl
from stoker.store.active_residents import ActiveResidents
from stoker.system import processes

Tell = Callable[[Any], None]
STAND_IN = Path(__file__).with_name("systemctl_stand_in.py")
UNIT = "stoker-serve-a.service"


class Machine:
    """A machine with systemd: where its units lie, what it was told, what goes wrong there."""

    def __init__(self, workshop: Any, home: Path) -> None:
        self.workshop = workshop
        self.home = home
        self.state = Path(workshop.paths.state)
        self.keys = Keys(KeySigner(lambda: bytes(32)))
        self.log = logging.getLogger("test.systemd")

    def serve(self, *options: str, **fields: Any) -> Serve:
        given = {"driver": Driver.SYSTEMD, "unit": UNIT, "port": free_port("127.0.0.1", ()), **fields}
        return replace(self.workshop.serve(*options), **given)

    def install(self, serve: Serve, user: str | None = "root", where: Path | None = None) -> Path:
        site = units.InstallSite("/etc/stoker.toml", str(self.state), ("/usr/bin/stoker",), user)
        path = (where or self.home / "units") / UNIT
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(units.render(site, [serve])[UNIT])
        return path

    def installed(self, *options: str, **fields: Any) -> Serve:
        serve = self.serve(*options, **fields)
        self.install(serve)
        return serve

    def driver(self, limit: float = 20.0) -> SystemdDriver:
        return SystemdDriver(self.state, self.keys, self.log, self.home, limit)

    def supervisor(self) -> Supervisor:
        fleet: Supervisor = self.workshop.supervisor(drivers={Driver.SYSTEMD: self.driver()})
        return fleet

    def fault(self, **faults: str) -> None:
        (self.home / "faults").write_text(json.dumps(faults))

    def calls(self, verb: str) -> list[list[str]]:
        lines = (self.home / "calls").read_text().splitlines() if (self.home / "calls").exists() else []
        return [call for call in map(json.loads, lines) if verb in call]

    def unit_state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.home / f"{UNIT}.state").read_text())
        return found

    def environment(self) -> Path:
        return units.environment_file(self.state, "a")

    def typed(self, line: str) -> list[str]:
        """The units that the command writes, below another root, for a serve that is this unit."""
        root, config = self.home / "root", self.home / "stoker.toml"
        config.write_text(
            f'[paths]\nstate = "state"\n[[serve]]\nname = "a"\nengine = "openai"\ndriver = "systemd"\nunit = "{UNIT}"\n'
            'port = 8123\ncmd = "true --port {port}"\n'
        )
        assert run([*line.split()[1:], "--root", str(root), "--config", str(config)]) == 0
        return [path.name for path in root.rglob("*.service")]

    def ask(self) -> Systemctl:
        return Systemctl(limit=20.0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in in front of PATH, with its own directory; our user has no units."""
    place = tmp_path / "systemd"
    (place / "bin").mkdir(parents=True)
    for program in ("systemctl", "journalctl"):
        script = place / "bin" / program
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {STAND_IN} {place} {program} "$@"\n')
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return place


def _processes_of(home: Path) -> list[int]:
    return [p.pid for p in psutil.process_iter(["cmdline"]) if str(home) in " ".join(p.info["cmdline"] or [])]


@pytest.fixture
def story(tell: Tell, home: Path) -> Tell:
    """Tells a story about a machine; nothing of it may be left running."""

    def run(body: Any) -> None:
        async def whole(workshop: Any) -> None:
            await body(Machine(workshop, home))
            async with asyncio.timeout(10):
                while _processes_of(home):  # one that was told to end may need a moment
                    await asyncio.sleep(0.02)

        tell(whole)

    return run


# -- start and stop ---------------------------------------------------------------------------------------------------


def test_the_driver_suspends_a_unit_and_one_that_is_suspended_is_ended_without_its_grace(
    story: Tell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.fleet.supervision.memory_meter.FREE_WITHIN", 0.3)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "driver"))
    driver = FakeDriver(tmp_path / "driver")

    async def body(machine: Machine) -> None:
        canary = ("--canary", '{"choices": [{"message": {"content": "Hi."}}]}')
        given = machine.installed(*canary, sleep_level=3, stop_grace=30.0, env={"LD_PRELOAD": str(driver.library)})
        fleet, warm = fleet_of(machine.workshop, driver, given, drivers={Driver.SYSTEMD: machine.driver()})
        running = await fleet.start(given, machine.workshop.on_exit)
        driver.use(running.pid)
        await fleet.stop("a", 30, keep_warm=True)
        assert driver.state(running.pid) == 2
        again = await fleet.start(given, machine.workshop.on_exit)
        assert (again.pid, again.start_kind, driver.state(running.pid)) == (running.pid, "asleep", 0)
        await fleet.stop("a", 30, keep_warm=True)
        async with asyncio.timeout(15):
            await fleet.close(False)
        assert not psutil.pid_exists(running.pid or 0)
        await warm.close()

    story(body)


def test_a_unit_is_started_proved_and_stopped_by_argument_lists(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed("--key", "{key}")
        fleet = machine.supervisor()
        assert await fleet.full_check(serve) == []
        running = await fleet.start(serve, machine.workshop.on_exit)
        assert running.pid == machine.unit_state()["pid"]
        assert running.target.port == serve.port
        await fleet.stop("a", 5)
        assert not psutil.pid_exists(running.pid or 0)
        common = ["systemctl", "--no-ask-password", "--no-pager"]
        assert machine.calls("start") == [[*common, "start", UNIT]]
        assert machine.calls("stop") == [[*common, "stop", UNIT]]
        assert machine.calls("kill") == []
        assert machine.workshop.exits == []
        assert not machine.workshop.record().exists()
        await fleet.close(False)

    story(body)


def test_each_start_has_a_new_key_and_none_is_in_the_unit_or_in_the_record(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed("--key", "{key}", env={"MODE": 'a "b" $c %d', "API_TOKEN": "hunter2"})
        fleet = machine.supervisor()
        keys = []
        for _ in range(2):
            running = await fleet.start(serve, machine.workshop.on_exit)
            assert running.target.key
            keys.append(running.target.key)
            own = psutil.Process(running.pid).environ()
            assert own["MODE"] == 'a "b" $c %d', "as it was configured, whatever systemd makes of such characters"
            assert own["API_TOKEN"] == "hunter2"
            assert own[units.KEY_VARIABLE] == running.target.key
            await fleet.stop("a", 5)
        assert len(set(keys)) == 2
        assert stat.S_IMODE(machine.environment().stat().st_mode) == 0o600
        assert stat.S_IMODE(machine.environment().parent.stat().st_mode) == 0o700
        unit = (machine.home / "units" / UNIT).read_text()
        assert not [text for text in (*keys, "hunter2") if text in unit]
        await fleet.close(False)

    story(body)


def test_one_that_does_not_listen_is_killed_when_its_grace_is_over(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed("--ignore-term")
        fleet = machine.supervisor()
        await fleet.start(serve, machine.workshop.on_exit)
        await fleet.stop("a", 0.05)
        assert len(machine.calls("kill")) == 1
        assert machine.unit_state()["active"] == "inactive", "the failure that a kill leaves is forgotten"
        await fleet.close(False)

    story(body)


def ignores_sigterm(pid: int) -> bool:
    """Whether the engine has come so far. It may handle the signal, too."""
    lines = dict(line.partition(":")[::2] for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool((int(lines["SigIgn"], 16) | int(lines["SigCgt"], 16)) >> (signal.SIGTERM - 1) & 1)


def test_a_second_stop_joins_the_first_and_may_hurry_it(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed("--ignore-term")
        driver = machine.driver()
        launched = await driver.launch(serve, (), 1.0, lambda record: None)
        told: list[object] = []
        unit = driver.attach(launched.record, told.append, lambda: told.append("gone"))
        while not ignores_sigterm(launched.record.pid):
            await asyncio.sleep(0.01)
        patient = asyncio.get_running_loop().create_task(unit.end(math.inf))
        while not machine.calls("stop"):
            await asyncio.sleep(0.01)
        await unit.end(0.0)
        await patient
        assert told == [-9, "gone"]
        assert unit.begin_end(0.0) is None
        assert len(machine.calls("stop")) == 1

    story(body)


def test_a_stop_that_systemd_refuses_is_told_and_can_be_tried_again(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed()
        driver = machine.driver()
        launched = await driver.launch(serve, (), 1.0, lambda record: None)
        unit = driver.attach(launched.record, lambda code: None, lambda: None)
        machine.fault(stop="Failed to stop it: Interactive authentication required.", kill="Access denied")
        with pytest.raises(StokerError, match="sudo stoker install systemd"):
            await unit.end(5.0)
        machine.fault()
        await unit.end(5.0)

    story(body)


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_one_that_is_killed_from_outside_is_seen_with_its_signal(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed()
        fleet = machine.supervisor()
        running = await fleet.start(serve, machine.workshop.on_exit)
        os.kill(running.pid or 0, signal.SIGKILL)
        await asyncio.wait_for(machine.workshop.exited.wait(), 10)
        [(name, detail)] = machine.workshop.exits
        assert name == "a"
        assert "was ended by SIGKILL" in detail
        while fleet.statistics():
            await asyncio.sleep(0.01)
        assert machine.unit_state()["active"] == "inactive"
        await fleet.start(serve, machine.workshop.on_exit)
        await fleet.close(False)

    story(body)


def test_one_that_ends_at_once_is_told_with_its_code_and_its_last_words(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed("--say", "no such tensor\\nkey {key}", "--exit", "3")
        machine.fault(start="until it ends")
        with pytest.raises(StartFailed, match=r"exited with code 3 at once: no such tensor \| key \*\*\*; `journalctl"):
            await machine.driver().launch(serve, (), 1.0, lambda record: None)
        assert machine.unit_state()["active"] == "inactive"

    story(body)


def test_one_whose_process_cannot_be_started_is_told_in_systemds_words(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        program = machine.home / "engine"
        serve = machine.installed(cmd=(str(program),))
        with pytest.raises(StartFailed, match=r"Job for stoker-serve-a\.service failed") as error:
            await machine.driver().launch(serve, (), 1.0, lambda record: None)
        assert error.value.code == "systemd_failed"

    story(body)


def test_a_failed_unit_starts_again_with_its_failures_forgotten(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed()
        (machine.home / f"{UNIT}.state").write_text('{"active": "failed", "pid": 0, "code": 1}')
        fleet = machine.supervisor()
        await fleet.start(serve, machine.workshop.on_exit)
        assert len(machine.calls("reset-failed")) == 1
        await fleet.close(False)

    story(body)


def test_a_start_that_takes_too_long_is_given_up_and_nothing_runs(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed(ready_timeout=0.2)
        machine.fault(start="hang")
        intents: list[StartRecord] = []
        with pytest.raises(StartFailed, match=r"`systemctl .* start .*` was not done after 0.2 s") as error:
            await machine.driver().launch(serve, (), 1.0, intents.append)
        assert error.value.code == "systemd_late"
        assert [(record.pid, record.handle) for record in intents] == [(0, UNIT)]
        assert len(machine.calls("stop")) == 1

    story(body)


def test_a_start_that_is_cancelled_leaves_nothing(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed("--delay", "60")
        machine.fault(start="until it ends")
        starting = asyncio.get_running_loop().create_task(machine.driver().launch(serve, (), 1.0, lambda record: None))
        while not (machine.home / f"{UNIT}.state").exists() or machine.unit_state()["active"] != "active":
            await asyncio.sleep(0.01)
        pid = machine.unit_state()["pid"]
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not psutil.pid_exists(pid)

    story(body)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("Failed to start it: Interactive authentication required.", "sudo stoker install systemd"),
        ("Failed to connect to bus: No medium found", "loginctl enable-linger"),
        ("Something else", "Something else"),
    ],
)
def test_what_systemd_refuses_comes_with_the_next_command(story: Tell, said: str, advice: str) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed()
        machine.fault(start=said)
        with pytest.raises(StartFailed, match=advice):
            await machine.driver().launch(serve, (), 1.0, lambda record: None)
        machine.fault(show=said)
        [problem] = await machine.driver().start_problems(serve)
        assert advice in problem

    story(body)


# -- what is known before a start -------------------------------------------------------------------------------------


def test_a_unit_that_is_not_there_or_masked_or_broken_is_named_with_the_next_command(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve, driver = machine.serve(), machine.driver()
        [problem] = await driver.start_problems(serve)
        assert problem == f"the unit {UNIT} of serve 'a' is not there: type `stoker install systemd`"
        assert UNIT in machine.typed(proposed(problem, "stoker install systemd"))
        path = machine.install(serve)
        machine.fault(load="bad-setting")
        assert "systemd-analyze verify" in (await driver.start_problems(serve))[0]
        machine.fault()
        path.unlink()
        path.symlink_to("/dev/null")
        assert f"type `systemctl unmask {UNIT}`" in (await driver.start_problems(serve))[0]
        with pytest.raises(StartFailed, match="masked"):
            await driver.launch(serve, (), 1.0, lambda record: pytest.fail("nothing is about to start"))

    story(body)


def test_a_unit_that_drifted_is_named_and_not_started(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed()
        driver = machine.driver()
        [problem] = await driver.start_problems(replace(serve, extra_args=("--say", "x")))
        assert "was written for another configuration: type `stoker install systemd`" in problem
        machine.fault(reload="yes")
        assert "type `systemctl daemon-reload`" in (await driver.start_problems(serve))[0]
        machine.fault()
        path = machine.home / "units" / UNIT
        path.write_text(path.read_text().replace("Restart=no", "Restart=always"))
        [problem] = await driver.start_problems(serve)
        assert f"was changed by hand ({path})" in problem
        assert f"systemctl edit {UNIT}" in problem

    story(body)


def test_a_port_that_somebody_else_has_is_named_and_its_own_is_no_obstacle(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed()
        driver = machine.driver()
        assert await driver.start_problems(replace(serve, port=None)) != []
        launched = await driver.launch(serve, (), 1.0, lambda record: None)
        assert await driver.start_problems(serve) == []
        other = replace(serve, unit="other.service")
        machine.install(serve).rename(machine.home / "units" / "other.service")
        (machine.home / "units" / UNIT).write_text("")
        while "taken" not in str(await driver.start_problems(other)):  # it has to listen first
            await asyncio.sleep(0.01)
        await driver.attach(launched.record, lambda code: None, lambda: None).end(5.0)

    story(body)


def test_a_variable_that_no_environment_file_can_hold_is_named(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed(env={"A": "1\n2"})
        [problem] = await machine.driver().start_problems(serve)
        assert "the value of A has a line break" in problem

    story(body)


def test_a_machine_without_systemd_is_told_so(story: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed()
        driver = SystemdDriver(machine.state, machine.keys, machine.log, machine.home / "nothing")
        [problem] = await driver.start_problems(serve)
        assert "systemd does not run here" in problem
        assert "remove `driver`" in problem
        monkeypatch.setenv("PATH", "/nowhere")
        assert "no `systemctl` on PATH" in (await machine.driver().start_problems(serve))[0]
        with pytest.raises(systemctl.SystemdFailed, match="No such file"):
            await machine.ask().show(UNIT)
        monkeypatch.undo()

    story(body)


# -- whose unit, and who started it ----------------------------------------------------------------------------------


def test_one_that_was_started_by_hand_is_taken_over_and_one_with_another_configuration_is_started_anew(
    story: Tell,
) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed("--key", "{key}")
        driver = machine.driver()
        first = await driver.launch(serve, (), 1.0, lambda record: None)
        await driver.attach(first.record, lambda code: None, lambda: None).end(5.0)
        await machine.ask().start(UNIT, 5.0)
        pid = machine.unit_state()["pid"]
        taken = await driver.launch(serve, (), 2.0, lambda record: None)
        assert (taken.record.pid, taken.address.key) == (pid, first.address.key)
        other = replace(serve, context=512)
        anew = await driver.launch(other, (), 3.0, lambda record: None)
        assert anew.record.pid != pid
        assert anew.address.key != first.address.key
        assert [call[-1] for call in machine.calls("restart")] == [UNIT]
        await driver.attach(anew.record, lambda code: None, lambda: None).end(5.0)

    story(body)


def test_a_unit_that_its_owner_wrote_is_started_and_stopped_as_it_is(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.serve(unit="vllm.service")
        (machine.home / "units").mkdir()
        command = f"{sys.executable} -S -E {serve.cmd[3] if serve.cmd else ''} --port {serve.port}"
        text = f"[Service]\nExecStart={command}\nWorkingDirectory={serve.directory}\n"
        (machine.home / "units" / "vllm.service").write_text(text)
        fleet = machine.supervisor()
        running = await fleet.start(serve, machine.workshop.on_exit)
        assert running.target.key is None
        assert not machine.environment().exists()
        await fleet.stop("a", 5)
        await fleet.close(False)

    story(body)


def test_what_runs_is_adopted_also_when_it_was_restarted_by_hand_meanwhile(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed("--key", "{key}")
        fleet = machine.supervisor()
        before = await fleet.start(serve, machine.workshop.on_exit)
        await fleet.close(True)
        later = machine.supervisor()
        [running] = await later.adopt([serve], machine.workshop.on_exit)
        assert running.pid == before.pid
        await later.close(True)
        await machine.ask().restart(UNIT, 5.0)
        while b"ok" not in await _answer(serve.port or 0):
            await asyncio.sleep(0.01)
        last = machine.supervisor()
        [running] = await last.adopt([serve], machine.workshop.on_exit)
        assert running.pid == machine.unit_state()["pid"] != before.pid
        os.kill(running.pid or 0, signal.SIGKILL)
        await asyncio.wait_for(machine.workshop.exited.wait(), 10)
        await last.close(False)

    story(body)


def test_a_start_that_was_interrupted_by_a_crash_of_ours_is_ended(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed()
        driver = machine.driver()
        intents: list[StartRecord] = []
        await driver.launch(serve, (), 1.0, intents.append)
        StartRecords(machine.state / "serves", machine.log).write(intents[0])
        fleet = machine.supervisor()
        assert await fleet.adopt([serve], machine.workshop.on_exit) == []
        assert machine.unit_state()["active"] == "inactive"
        assert not machine.workshop.record().exists()
        await fleet.close(False)

    story(body)


def test_a_systemd_that_cannot_be_asked_is_no_reason_to_fail(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed()
        driver = machine.driver()
        launched = await driver.launch(serve, (), 1.0, lambda record: None)
        machine.fault(show="Failed to connect to bus: Host is down")
        assert await driver.find(launched.record) is None
        machine.fault()
        found = await driver.find(launched.record)
        assert found == launched.record
        await driver.attach(launched.record, lambda code: None, lambda: None).end(5.0)
        assert await driver.find(launched.record) is None
        with pytest.raises(ProcessLookupError):
            driver.attach(launched.record, lambda code: None, lambda: None)

    story(body)


def test_a_number_that_belongs_to_a_stranger_now_is_not_held(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        record = StartRecord(
            name="a", pid=os.getpid(), mark="another start", command="", fingerprint="", port=1, nonce="",
            takes_key=False, started_at=1.0, log="", grace=1.0, driver="systemd", handle=UNIT,
        )  # fmt: skip
        with pytest.raises(ProcessLookupError):
            machine.driver().attach(record, lambda code: pytest.fail("told"), lambda: None)

    story(body)


def test_a_process_that_cannot_be_seen_from_here_is_watched_through_systemd(
    story: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(machine: Machine) -> None:
        monkeypatch.setattr(systemd, "POLL_INTERVAL", 0.02)
        monkeypatch.setattr(processes, "start_mark", lambda pid: None)
        serve = machine.installed()
        driver = machine.driver()
        launched = await driver.launch(serve, (), 1.0, lambda record: None)
        assert (launched.record.pid, bool(launched.record.mark)) == (0, True)
        ended = asyncio.Event()
        told: list[object] = []

        def on_exit(code: int | None) -> None:
            told.append(code)
            ended.set()

        unit = driver.attach(launched.record, on_exit, lambda: told.append("gone"))
        assert unit.pid is None
        os.kill(machine.unit_state()["pid"], signal.SIGKILL)
        await asyncio.wait_for(ended.wait(), 10)
        await unit.end(0.0)
        assert told == [-9, "gone"]

    story(body)


def test_one_that_is_released_runs_on_and_tells_nothing(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed()
        driver = machine.driver()
        launched = await driver.launch(serve, (), 1.0, lambda record: None)
        unit = driver.attach(launched.record, lambda code: pytest.fail("told"), lambda: None)
        unit.release()
        await machine.ask().stop(UNIT)
        hidden = msgspec.structs.replace(launched.record, pid=0)
        driver.attach(hidden, lambda code: pytest.fail("told"), lambda: None).release()
        await asyncio.sleep(0)

    story(body)


def test_units_of_a_user_are_asked_for_at_the_users_systemd(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.serve()
        machine.install(serve, user=None, where=units.user_directory(os.environ["HOME"]))
        [problem] = await machine.driver().start_problems(serve)
        assert UNIT in machine.typed(proposed(problem, "stoker install systemd --user"))
        assert machine.calls("show")[0][:2] == ["systemctl", "--user"]

    story(body)


def test_what_it_said_comes_from_the_journal(story: Tell) -> None:
    async def body(machine: Machine) -> None:
        serve = machine.installed("--say", "hello")
        driver = machine.driver()
        launched = await driver.launch(serve, (), 1234.5, lambda record: None)
        while "hello" not in await driver.recent_output(launched.record):
            await asyncio.sleep(0.01)
        assert machine.calls("journalctl")[0] == [
            "journalctl", "-u", UNIT, "-n", "50", "--since=@1234", "-o", "cat", "--quiet", "--no-pager",
        ]  # fmt: skip
        await driver.attach(launched.record, lambda code: None, lambda: None).end(5.0)
        (machine.home / "bin" / "journalctl").unlink()
        os.environ["PATH"] = str(machine.home / "bin")
        assert await driver.recent_output(launched.record) == "", "it cannot be had, and that is no failure"

    story(body)


# -- a reboot ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Driver.SYSTEMD, Driver.PROCESS])
def test_after_a_reboot_the_remembered_resident_starts_and_only_that_one(story: Tell, kind: Driver) -> None:
    """A reboot leaves the state directory and no process."""

    async def body(machine: Machine) -> None:
        serve = replace(machine.installed("--key", "{key}"), driver=kind, slot="gpu0")
        other = machine.workshop.serve(name="b", slot="gpu0")
        fleet = machine.supervisor()
        running = await fleet.start(serve, machine.workshop.on_exit)
        ActiveResidents(machine.state / "active.json").write("gpu0", running.serve.name)
        await fleet.close(True)

        killed = [child for child in psutil.Process().children() if child.pid == running.pid]
        os.kill(running.pid or 0, signal.SIGKILL)  # the power is cut
        (machine.home / f"{UNIT}.state").unlink(missing_ok=True)
        while psutil.pid_exists(running.pid or 0):
            psutil.wait_procs(killed)
            await asyncio.sleep(0.01)

        later = machine.supervisor()
        assert await later.adopt([serve, other], machine.workshop.on_exit) == []
        assert not machine.workshop.record().exists()
        resumed = ActiveResidents(machine.state / "active.json").read()
        assert resumed == {"gpu0": "a"}
        again = await later.start(serve, machine.workshop.on_exit)
        assert again.pid not in (None, running.pid)
        assert set(later.statistics()) == {"a"}
        await later.close(False)

    story(body)


async def _answer(port: int) -> bytes:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return b""
    writer.write(b"GET /health HTTP/1.1\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer
