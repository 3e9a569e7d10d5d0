"""The CUDA driver's functions that suspend processes: what is asked, in which order, and what a refusal means."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.suspend.fake_driver import FakeDriver

from stoker.fleet.suspend import cuda_driver
from stoker.fleet.suspend.cuda_driver import LockArguments, Outcome, carry_out, users
from stoker.fleet.suspend.suspension import problem, runs_on, unavailable_reason

LOCK, CHECKPOINT = "cuCheckpointProcessLock", "cuCheckpointProcessCheckpoint"
RESTORE, STATE = "cuCheckpointProcessRestore", "cuCheckpointProcessGetState"


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    return FakeDriver(tmp_path)


@pytest.fixture
def processes(driver: FakeDriver) -> Iterator[list[int]]:
    """Two that use CUDA, and one that has only loaded its library."""
    command = [sys.executable, "-I", "-S", "-c", "import time; print(flush=True); time.sleep(60)"]
    environment = {"LD_PRELOAD": str(driver.library)}
    started = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(3)]
    for one in started:
        assert one.stdout is not None
        one.stdout.readline()
    for one in started[:2]:
        driver.use(one.pid)
    yield [one.pid for one in started]
    for one in started:
        one.kill()
        one.communicate()


def test_all_that_use_cuda_are_suspended_and_resumed_and_others_are_left_alone(
    driver: FakeDriver, processes: list[int]
) -> None:
    [first, second, other] = processes
    found = carry_out("suspend", processes, str(driver.library))
    assert (found.states, found.problem) == ({first: "checkpointed", second: "checkpointed"}, "")
    assert Path(f"/proc/{other}/stat").read_text().split()[2] != "T"
    found = carry_out("resume", processes, str(driver.library))
    assert (found.states, found.problem) == ({first: "running", second: "running"}, "")


def test_where_one_cannot_be_locked_the_others_run_on(driver: FakeDriver, processes: list[int]) -> None:
    [first, second, _] = processes
    (driver.states / str(second)).write_text("1")  # locked by somebody else
    found = carry_out("suspend", processes, str(driver.library))
    assert (found.function, found.code) == (LOCK, 401)
    assert (driver.state(first), driver.state(second)) == (0, 1)


def test_the_program_prints_an_outcome(driver: FakeDriver, processes: list[int]) -> None:
    command = [sys.executable, "-I", "-S", cuda_driver.__file__, "state", str(processes[0])]
    done = subprocess.run(command, env={"LD_LIBRARY_PATH": str(driver.folder)}, capture_output=True, check=True)
    assert done.stdout.decode().strip() == f'[{{"{processes[0]}": "running"}}, 0.0, "", null, ""]'


def test_without_a_driver_and_with_one_that_is_too_old(driver: FakeDriver) -> None:
    assert unavailable_reason(str(driver.library)) == ""
    assert "install driver 570" in unavailable_reason("libc.so.6")
    assert "needs an NVIDIA GPU" in unavailable_reason("libthere-is-none.so.1")
    assert carry_out("suspend", [1], "libthere-is-none.so.1").problem.startswith("no CUDA driver")
    found = carry_out("suspend", [1], "libc.so.6")  # has no such function
    assert (found.function, found.code) == (LOCK, None)


def test_arguments_are_as_large_as_the_driver_reads() -> None:
    assert ctypes.sizeof(LockArguments) == 64


def test_processes_that_use_the_driver_are_known_by_what_they_have_loaded(tmp_path: Path) -> None:
    for pid, line in (
        (7, "7f00-7f01 r-xp 0 00:00 1 /usr/lib/libcuda.so.580.1"),
        (8, "7f00-7f01 r-xp 0 00:00 1 /lib/libc.so.6"),
    ):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "maps").write_text(line + "\n")
    assert users([7, 8, 9], tmp_path) == ([7], [])


def test_a_process_that_may_not_be_looked_into_is_asked_about_and_is_not_said_to_use_no_cuda(
    driver: FakeDriver, processes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It belongs to another user."""
    [first, _, other] = processes
    monkeypatch.setattr(cuda_driver, "users", lambda pids: ([], list(pids)))
    assert carry_out("state", [first], str(driver.library)).states == {first: "running"}
    found = carry_out("suspend", [other], str(driver.library))
    assert found.code == 800
    assert "run Stoker as the user that runs the engine" in problem(found, "checkpointed")
    monkeypatch.undo()

    def forbidden(path: Path, errors: str) -> str:
        raise PermissionError(path)

    monkeypatch.setattr(Path, "read_text", forbidden)
    assert users([first]) == ([], [first])


@pytest.mark.parametrize(
    ("outcome", "step", "unchanged"),
    [
        (Outcome({7: "running"}, 0, LOCK, 800, "x"), "as the user that runs the engine, or as root", True),
        (Outcome({}, 0, STATE, 304, "x"), "--cap-add SYS_PTRACE", True),
        (Outcome({7: "running"}, 0, CHECKPOINT, 801, "x"), "unset GGML_CUDA_ENABLE_UNIFIED_MEMORY", False),
        (Outcome({7: "running"}, 0, LOCK, 801, "x"), "unset GGML_CUDA_ENABLE_UNIFIED_MEMORY", True),
        (Outcome({}, 0, LOCK, None, "x"), "install driver 570 or newer", True),
        (Outcome({7: "running"}, 0, LOCK, 600, "x"), "did not come to an end within 10 s", True),
        (Outcome({7: "locked"}, 0, LOCK, 401, "x"), "let only one of them do that", False),
        (Outcome({7: "checkpointed"}, 0, RESTORE, 2, "x"), "too little free memory", False),
        (Outcome({7: "checkpointed"}, 0, RESTORE, 999, "x"), "`dmesg` may say why", False),
        (Outcome({}, 0, "", None, "no CUDA driver: x"), "`sleep_level = 3` needs an NVIDIA GPU", True),
        (Outcome({}), "remove `sleep_level`", True),
        (Outcome({7: "failed", 8: "checkpointed"}), "process 7 is failed, not checkpointed", False),
    ],
)
def test_each_refusal_has_its_next_step_and_says_whether_something_changed(
    outcome: Outcome, step: str, unchanged: bool
) -> None:
    assert step in problem(outcome, "checkpointed")
    assert runs_on(outcome) is unchanged


def test_what_succeeded_has_no_problem() -> None:
    assert problem(Outcome({7: "checkpointed", 8: "checkpointed"}), "checkpointed") == ""
