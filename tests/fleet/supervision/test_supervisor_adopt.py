"""After a restart of the control plane: what is ours and still right goes on, what is ours and wrong ends, and what is
not ours is never touched.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from stoker.domain.serve import Status
from stoker.fleet.drivers import process_group
from stoker.fleet.drivers.process_group import reap
from stoker.system.processes import is_alive

Tell = Callable[[Any], None]


async def leave_one_running(workshop: Any, *options: str) -> Any:
    fleet = workshop.supervisor()
    running = await fleet.start(workshop.serve(*options), workshop.on_exit)
    await fleet.close(True)
    assert fleet.statistics() == {}
    assert is_alive(running.pid)
    return running


def test_a_serve_that_was_left_running_is_adopted_and_its_end_is_seen(tell: Tell) -> None:
    """Behaviour 18."""

    async def story(workshop: Any) -> None:
        before = await leave_one_running(workshop, "--key", "{key}")
        later = workshop.supervisor()
        serve = replace(workshop.serve("--key", "{key}"), max_active=1, status=Status.BASELINE, aliases=("z",))
        [running] = await later.adopt([serve, workshop.serve(name="b")], workshop.on_exit)
        assert (running.pid, running.target, running.started_at) == (before.pid, before.target, before.started_at)
        assert running.facts == before.facts
        assert running.serve is serve, "what does not concern the launch follows the new configuration"
        os.kill(running.pid, signal.SIGKILL)
        await asyncio.wait_for(workshop.exited.wait(), 2)
        assert workshop.exits[0][0] == "a"
        await later.close(False)
        assert not workshop.record().exists()

    tell(story)


def test_an_adopted_serve_can_be_stopped(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        before = await leave_one_running(workshop)
        later = workshop.supervisor()
        assert len(await later.adopt([workshop.serve()], workshop.on_exit)) == 1
        await later.stop("a", 2)
        assert not psutil.pid_exists(before.pid)
        assert workshop.exits == []
        await later.close(False)

    tell(story)


def test_a_changed_configuration_is_not_adopted_but_stopped(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        before = await leave_one_running(workshop)
        later = workshop.supervisor()
        changed = replace(workshop.serve(), context=4096)
        assert await later.adopt([changed], workshop.on_exit) == []
        assert not psutil.pid_exists(before.pid)
        await later.close(False)

    tell(story)


def test_a_serve_that_is_configured_no_more_is_stopped(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        before = await leave_one_running(workshop)
        later = workshop.supervisor()
        assert await later.adopt([], workshop.on_exit) == []
        assert not psutil.pid_exists(before.pid)
        assert not workshop.record().exists()
        await later.close(False)

    tell(story)


def test_a_serve_that_does_not_answer_any_more_is_stopped(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.fleet.supervision.adoption.ADOPT_LIMIT", 0.2)

    async def story(workshop: Any) -> None:
        before = await leave_one_running(workshop)
        os.kill(before.pid, signal.SIGSTOP)
        record = msgspec.json.decode(workshop.record().read_bytes())
        workshop.record().write_bytes(msgspec.json.encode({**record, "grace": 0.1}))
        later = workshop.supervisor()
        assert await later.adopt([workshop.serve()], workshop.on_exit) == []
        assert not psutil.pid_exists(before.pid)
        await later.close(False)

    tell(story)


def test_a_start_that_a_crash_cut_off_is_not_adopted_but_stopped(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        before = await leave_one_running(workshop)
        record = msgspec.json.decode(workshop.record().read_bytes())
        workshop.record().write_bytes(msgspec.json.encode({**record, "ready": False, "command": "of a wrapper"}))
        later = workshop.supervisor()
        assert await later.adopt([workshop.serve()], workshop.on_exit) == []
        assert not psutil.pid_exists(before.pid)
        await later.close(False)

    tell(story)


@pytest.mark.parametrize("lie", [{"mark": "another boot:1"}, {"command": "0" * 64}])
def test_a_stranger_with_the_number_of_our_process_is_left_alone(tell: Tell, lie: dict[str, str]) -> None:
    async def story(workshop: Any) -> None:
        before = await leave_one_running(workshop)
        record = msgspec.json.decode(workshop.record().read_bytes())
        workshop.record().write_bytes(msgspec.json.encode({**record, **lie}))
        later = workshop.supervisor()
        assert await later.adopt([workshop.serve()], workshop.on_exit) == []
        assert is_alive(before.pid)
        assert not workshop.record().exists()
        await later.close(False)
        assert is_alive(before.pid)
        os.kill(before.pid, signal.SIGKILL)
        os.waitpid(before.pid, 0)

    tell(story)


def test_a_grandchild_whose_leader_is_gone_is_ended_by_its_mark(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        before = await leave_one_running(workshop, "--wrap")
        [grandchild] = [pid for pid in process_group.members(before.pid) if pid != before.pid]
        os.kill(before.pid, signal.SIGKILL)
        os.waitpid(before.pid, 0)
        assert is_alive(grandchild)
        later = workshop.supervisor()
        assert await later.adopt([workshop.serve("--wrap")], workshop.on_exit) == []
        assert not is_alive(grandchild)
        assert not workshop.record().exists()
        reap(grandchild)
        await later.close(False)

    tell(story)


def test_the_record_is_private_and_holds_no_secret(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        running = await fleet.start(workshop.serve("--key", "{key}"), workshop.on_exit)
        state = workshop.directory / "state"
        files = [path for path in state.rglob("*") if path.is_file()]
        assert {path.name for path in files} == {"a.json"}
        assert all(oct(path.stat().st_mode)[-3:] == "600" for path in files)
        assert running.target.key
        assert running.target.key not in workshop.record().read_text()
        assert running.target.key not in workshop.log()
        assert json.loads(workshop.record().read_text())["pid"] == running.pid
        await fleet.close(False)

    tell(story)


def test_a_broken_record_is_put_aside_and_stops_nobody(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        workshop.record().parent.mkdir(parents=True)
        workshop.record().write_text("{")
        fleet = workshop.supervisor()
        assert await fleet.adopt([workshop.serve()], workshop.on_exit) == []
        assert [path.name for path in workshop.record().parent.iterdir()] == ["a.json.unreadable"]
        await fleet.close(False)

    tell(story)


def test_a_start_during_adoption_waits_and_is_not_a_second_process(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        before = await leave_one_running(workshop)
        later = workshop.supervisor()
        changed = replace(workshop.serve(), context=1)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(later.adopt([changed], workshop.on_exit))
            await asyncio.sleep(0)
            running = await later.start(changed, workshop.on_exit)
        assert not psutil.pid_exists(before.pid)
        assert running.pid != before.pid
        await later.close(False)

    tell(story)


CRASHING = """
import asyncio, os, sys
sys.path[:0] = sys.argv[2].split(":")
from pathlib import Path
from tests.fleet.conftest import Workshop
from stoker.fleet.supervision.supervisor import Supervisor

async def main():
    workshop = Workshop(Path(sys.argv[1]))
    running = await workshop.supervisor().start(workshop.serve(), workshop.on_exit)
    print(running.pid, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


def test_a_serve_survives_a_crash_of_its_control_plane_and_is_adopted(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        paths = ":".join([str(Path(__file__).parents[3]), *filter(None, sys.path)])
        crashed = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", CRASHING, str(workshop.directory), paths], stdout=-1, check=False
        )
        assert crashed.returncode == -signal.SIGKILL
        pid = int(crashed.stdout)
        assert psutil.Process(pid).ppid() != os.getpid()
        later = workshop.supervisor()
        [running] = await later.adopt([workshop.serve()], workshop.on_exit)
        assert running.pid == pid
        await later.stop("a", 2)
        assert not is_alive(pid)
        await later.close(False)

    tell(story)
