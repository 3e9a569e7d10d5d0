"""The sandbox: what hostile programs get, and what the operator's own secrets are worth in it."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from pathlib import Path

import psutil
import pytest

from stoker_lab.suites.sandbox import sandbox
from stoker_lab.suites.sandbox.command import MAX_OUTPUT, bounded_command
from stoker_lab.suites.sandbox.sandbox import IsolationMethod, SandboxOutcome, run_program


def test_a_right_program_passes_and_a_wrong_one_is_told_where() -> None:
    assert run_program("def f(): return 1", "assert f() == 1").end is SandboxOutcome.PASSED
    found = run_program("def f(): return 2", "x = 1\nassert f() == 1, 'no one'")
    assert (found.end, found.message) == (SandboxOutcome.FAILED, "AssertionError in line 2 of the tests: no one")
    assert run_program("def f(:", "").message.startswith("SyntaxError")


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.exit(0)",
        "raise SystemExit",
        "import os; os._exit(0)",
        "print('passed')\nimport os; os._exit(0)",
    ],
)
def test_a_program_that_ends_itself_has_not_passed(code: str) -> None:
    assert run_program(code, "").end is SandboxOutcome.FAILED


def test_what_runs_only_as_a_script_does_not_run() -> None:
    assert run_program("if __name__ == '__main__': raise ValueError", "").end is SandboxOutcome.PASSED


def test_an_infinite_loop_ends_with_its_seconds_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sandbox.LIMITS, "RLIMIT_CPU", 1)
    found = run_program("while True: pass", "")
    assert (found.end, found.message) == (
        SandboxOutcome.FAILED,
        "ended without a result: it reached a limit, or exited",
    )


def test_a_sleeper_ends_with_its_seconds_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "WALL", 0.2)
    found = run_program("import time; time.sleep(600)", "")
    assert (found.end, found.message) == (SandboxOutcome.FAILED, "took longer than 0.2 s")


def test_endless_output_is_cut_and_ends_the_program() -> None:
    found = run_program("while True: print('x' * 1000)", "")
    assert (found.end, len(found.output)) == (SandboxOutcome.FAILED, sandbox.OUTPUT)
    assert found.message == "wrote more than 65536 bytes"


def test_memory_and_files_are_bounded() -> None:
    assert run_program("x = bytearray(10**9)", "").message.startswith("MemoryError")
    assert "File too large" in run_program("open('f', 'wb').write(bytes(2**21))", "").message


def test_a_fork_bomb_does_not_get_to_fork() -> None:
    code = "import os\nfor _ in range(50):\n    if os.fork() == 0:\n        os.setsid()\n"
    assert run_program(code, "").message == "PermissionError: os.fork is not allowed for this program"
    assert "subprocess.Popen" in run_program("import subprocess; subprocess.run(['true'])", "").message


def test_no_secret_of_the_environment_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", "sk-very-secret")
    found = run_program("import os; print(sorted(os.environ), os.listdir('.'), os.getcwd())", "")
    assert found.end is SandboxOutcome.PASSED
    assert b"PROVIDER" not in found.output
    assert b"[] /" in found.output  # an empty directory
    assert str(Path.cwd()).encode() not in found.output


def test_nothing_outside_its_directory_is_written_or_removed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    for code in (f"open({str(kept)!r}, 'w')", f"import os; os.remove({str(kept)!r})",
                 f"import shutil; shutil.rmtree({str(tmp_path)!r})"):  # fmt: skip
        assert "outside of its own directory" in run_program(code, "").message
    assert kept.read_text() == "mine"
    assert run_program("open('own', 'w').write('x')", "assert open('own').read() == 'x'").end is SandboxOutcome.PASSED


def test_no_connection_is_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 1)"
        assert run_program(code, "").end is SandboxOutcome.FAILED
        with pytest.raises(BlockingIOError):
            server.accept()


def test_what_it_started_is_gone_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Python's refusal, and in a session of its own: it would outlive a plain kill."""
    if not sandbox.isolation_method().prefix:
        pytest.skip("no process numbers of its own can be had here")
    inside = sandbox.inside_source()
    monkeypatch.setattr(sandbox, "inside_source", lambda: inside.replace("sys.addaudithook(", "id("))
    mark = f"stoker-left-{os.getpid()}"
    code = (
        "import os, sys\nif os.fork() == 0:\n    os.setsid()\n    open('started', 'w').close()\n"
        f"    os.execv(sys.executable, ['{mark}', '-c', 'import time; time.sleep(60)'])\n"
    )
    waits = "while not os.path.exists('started'): pass\n"
    assert run_program(code, waits).end is SandboxOutcome.PASSED
    until = time.monotonic() + 5
    while _is_running(mark) and time.monotonic() < until:
        os.sched_yield()
    assert not _is_running(mark)


def _is_running(mark: str) -> bool:
    lines = (one.info["cmdline"] or () for one in psutil.process_iter(["cmdline"]))
    return any(mark in word for line in lines for word in line)


def test_where_unshare_is_not_granted_it_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(sandbox, "_found", None)
    assert run_program("", "").end is SandboxOutcome.PASSED


def test_a_better_way_that_failed_once_is_tried_again_later_and_the_best_is_known_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    best, last = IsolationMethod(("/bin/sh",)), IsolationMethod()
    now, works, tried = 0.0, False, 0

    def passes(method: IsolationMethod) -> bool:
        nonlocal tried
        tried += 1
        return works

    monkeypatch.setattr(sandbox, "_found", None)
    monkeypatch.setattr(sandbox, "_ways", lambda: [best, last])
    monkeypatch.setattr(sandbox, "_passes", passes)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    found = []
    for now, works in ((0.0, False), (59.0, True), (60.0, True), (1e6, False)):  # noqa: B007
        found.append((sandbox.isolation_method(), tried))
    assert found == [(last, 1), (last, 1), (best, 2), (best, 2)]


def test_a_sandbox_that_cannot_start_is_broken_and_says_nothing_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "isolation_method", lambda: IsolationMethod(("/nowhere/unshare",)))
    assert run_program("", "").end is SandboxOutcome.BROKEN
    monkeypatch.setattr(sandbox, "isolation_method", lambda: IsolationMethod(("/bin/false",)))
    assert run_program("", "").end is SandboxOutcome.BROKEN


def test_what_floods_its_output_is_over_although_its_pipe_is_full(tmp_path: Path) -> None:
    """asyncio stops reading a pipe that nobody reads, and sees its end only behind what is in it."""

    async def flood() -> None:
        command = ["sh", "-c", "yes & yes & yes & wait"]
        async with asyncio.timeout(30):
            result = await bounded_command(command, tmp_path, b"", {"PATH": os.environ["PATH"]}, 20)
        assert "wrote more than" in result.message
        assert len(result.output) == MAX_OUTPUT

    for _ in range(3):
        asyncio.run(flood())
