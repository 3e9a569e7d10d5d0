"""The end of a process: seen once, with its code, and its number kept until its group is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

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
