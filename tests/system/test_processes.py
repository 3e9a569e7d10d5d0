"""Facts about processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from stoker.system import processes

GONE = 2**22 + 7
HOLDS = """
import os, sys
from stoker.system.processes import end_with_parent
{before}
print(end_with_parent(int(sys.argv[1])), flush=True)
sys.stdin.read()
"""
OWNER = """
import os, subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-c", sys.argv[1], str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
print(child.pid, child.stdout.readline().strip(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["its own", "elsewhere"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What Linux has files for, psutil tells elsewhere."""
    if request.param == "elsewhere":
        monkeypatch.setattr(processes, "is_linux", lambda: False)
    return str(request.param)


@pytest.fixture
def child() -> Iterator[int]:
    """A process with a variable."""
    words = [sys.executable, "-c", "import sys; sys.stdin.read()", "a b", "c"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, env={**os.environ, "MARK": "one"}) as process:
        yield process.pid


@pytest.mark.usefixtures("system")
def test_a_process_is_told_by_its_start_its_command_and_its_variables(child: int) -> None:
    mark = processes.start_mark(child)
    assert mark is not None
    assert mark == processes.start_mark(child)
    assert mark != processes.start_mark(os.getpid())
    assert (processes.command_line(child) or "").split("\0")[-2:] == ["a b", "c"]
    assert processes.has_variable(child, "MARK", "one")
    assert not processes.has_variable(child, "MARK", "on")
    assert (processes.environment(child) or {})["MARK"] == "one"
    assert processes.is_alive(child)


@pytest.mark.usefixtures("system")
def test_nothing_is_known_of_one_that_is_gone() -> None:
    assert processes.start_mark(GONE) is None
    assert processes.command_line(GONE) is None
    assert processes.environment(GONE) is None
    assert not processes.has_variable(GONE, "PATH", "")
    assert not processes.is_alive(GONE)


@pytest.mark.parametrize("before", ["", "from stoker.system import processes; processes.is_linux = lambda: False"])
def test_a_process_ends_with_its_parent_whether_the_kernel_does_it_or_a_thread(before: str) -> None:
    words = [sys.executable, "-c", OWNER, HOLDS.format(before=before)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        number, answer = owner.stdout.readline().split()
        assert answer == "True"
        kept = psutil.Process(int(number))
        os.kill(owner.pid, signal.SIGSTOP)  # its pipe stays open: the end of that would end the child, too
        os.kill(owner.pid, signal.SIGKILL)
        kept.wait(20)


def test_a_parent_that_has_ended_already_is_told() -> None:
    assert not processes.end_with_parent(GONE)
