"""The end of a process: seen once, with its code, and its number kept until its group is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from stoker.fleet.drivers import process_group
from stoker.fleet.drivers.process_group import describe_exit, spawn
from stoker.system import processes


def sleeper(code: str = "import time; time.sleep(30)") -> int:
    return spawn([sys.executable, "-S", "-E", "-c", code], os.environ, "/", subprocess.DEVNULL)


@pytest.fixture(params=["pidfd", "polling"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "polling":
        monkeypatch.delattr("os.pidfd_open", raising=False)


@pytest.mark.usefixtures("how")
@pytest.mark.parametrize(
    ("code", "expected"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 15)", -15)]
)
def test_an_end_is_told_once_and_its_number_is_kept_until_it_is_reaped(code: str, expected: int) -> None:
    async def story() -> None:
        seen: list[int | None] = []
        ended = asyncio.Event()

        def on_exit(code: int | None) -> None:
            seen.append(code)
            ended.set()

        pid = sleeper(code)
        watched = process_group.ExitWatch(pid, on_exit)
        await asyncio.wait_for(ended.wait(), 3)
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        assert not processes.is_alive(pid)
        watched.close()
        process_group.reap(pid)
        assert not psutil.pid_exists(pid)
        await asyncio.sleep(2 * process_group.WATCH_INTERVAL)
        assert seen == [expected]

    asyncio.run(story())


@pytest.mark.usefixtures("how")
def test_a_closed_watch_tells_nothing() -> None:
    async def story() -> None:
        pid = sleeper()
        watched = process_group.ExitWatch(pid, lambda code: pytest.fail("told"))
        watched.close()
        watched.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        await asyncio.sleep(2 * process_group.WATCH_INTERVAL)

    asyncio.run(story())


@pytest.mark.usefixtures("how")
def test_a_process_that_is_gone_cannot_be_watched() -> None:
    async def story() -> None:
        pid = sleeper("pass")
        os.waitpid(pid, 0)
        with pytest.raises(ProcessLookupError):
            process_group.ExitWatch(pid, lambda code: None)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("code", "words"), [(0, "exited with code 0"), (-9, "was ended by SIGKILL"), (-200, "was ended by signal 200")]
)
def test_an_exit_in_words(code: int, words: str) -> None:
    assert describe_exit(code) == words
    assert describe_exit(None).startswith("exited (")


def test_an_end_that_nobody_knows_is_said_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "an earlier run of Stoker" in process_group.describe_exit(None)
    monkeypatch.delattr(os, "waitid")
    assert "Python 3.13" in process_group.describe_exit(None)


def test_what_a_serve_started_in_a_session_of_its_own_is_of_it() -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '30'], start_new_session=True); import time; time.sleep(30)"
    pid = sleeper(code)
    try:
        while not (children := psutil.Process(pid).children()):
            pass
        assert process_group.members(pid) == [pid]
        assert process_group.unit_members(pid, has_group=False) == sorted((pid, children[0].pid))
        assert process_group.unit_members(children[0].pid, has_group=False) == [children[0].pid]
    finally:
        for process in (*psutil.Process(pid).children(), psutil.Process(pid)):
            process.kill()
        process_group.reap(pid)


@pytest.mark.parametrize(
    "line",
    [
        "0::{}",
        "4:memory:/\n1:name=systemd:{}\n0::/system.slice/containerd.service",
        "4:memory:{}\n1:name=systemd:/\n0::/",
    ],
    ids=["version-2", "both", "version-1"],
)
def test_a_container_or_unit_is_all_that_is_in_its_control_group_or_below(tmp_path: Path, line: str) -> None:
    groups = {
        "self": "/system.slice/stoker.service", "1": "/init.scope", "50": "/system.slice/docker-a.scope",
        "51": "/system.slice/docker-a.scope", "52": "/system.slice/docker-a.scope/inner",
        "60": "/system.slice/docker-ab.scope", "70": "/system.slice/stoker.service", "80": "/", "90": "/system.slice",
    }  # fmt: skip
    for name, group in groups.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup").write_text(line.format(group) + "\n")
    assert sorted(processes.in_group_of(50, tmp_path)) == [50, 51, 52]
    assert processes.in_group_of(60, tmp_path) == [60]
    for shared in (70, 80, 90, 99):  # with Stoker, none, one above Stoker's, gone
        assert processes.in_group_of(shared, tmp_path) == [], shared
