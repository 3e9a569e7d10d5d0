"""The commands layer: the operator's programs decide, without a shell, and nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
import uvloop

from stoker_lab.suites.sandbox.command import bounded_command
from stoker_orchestrator.checks.commands import CommandChecker, CommandSettings, command_problems
from stoker_orchestrator.loop.blocks import LayerResult, WorkerBlock


def block(text: str, path: str = "") -> WorkerBlock:
    return WorkerBlock(text, True, "python", path)


def verdict(
    commands: str | Sequence[str], one: WorkerBlock, committed: Sequence[WorkerBlock] = (), timeout: float = 30.0
) -> LayerResult:
    chosen = (commands,) if isinstance(commands, str) else tuple(commands)
    return asyncio.run(CommandChecker(CommandSettings(chosen, timeout)).check(one, committed))


GOOD = block("def f() -> int:\n    return 1\n")


def test_a_command_reads_the_block_on_standard_input() -> None:
    assert verdict("ruff check -", GOOD).passed
    failed = verdict("ruff check --isolated --output-format concise -", block("import os\n"))
    assert not failed.passed
    assert failed.is_decided
    assert "F401" in failed.reason
    assert failed.correction.startswith("make `ruff check")


def test_a_command_gets_the_file_with_what_is_committed_before_the_block() -> None:
    committed = [block("def f():\n    return 1\n", "test_it.py"), block("X = 2\n", "other.py")]
    one = block("from other import X\n\n\ndef test_f():\n    assert f() == X\n", "test_it.py")
    result = verdict("python -m pytest -q -p no:cacheprovider {file}", one, committed)
    assert not result.passed
    assert "assert 1 == 2" in result.reason
    right = block("def test_f():\n    assert f() == 1\n", "test_it.py")
    assert verdict("python -m pytest -q -p no:cacheprovider {file}", right, committed).passed


def test_all_commands_have_to_accept_it() -> None:
    assert verdict(("true", "true"), GOOD).passed
    assert "exit status 1" in verdict(("true", "false"), GOOD).reason


def test_a_command_that_ends_before_the_block_is_written_to_it_decides_all_the_same(tmp_path: Path) -> None:
    """Stoker is held up meanwhile, and finds the pipe closed."""

    async def story() -> None:
        others = set(psutil.Process().children())
        check = asyncio.get_running_loop().create_task(bounded_command(["true"], tmp_path, b"x = 1", os.environ, 30.0))
        while not (started := set(psutil.Process().children()) - others):
            await asyncio.sleep(0)
        os.waitid(os.P_PID, started.pop().pid, os.WEXITED | os.WNOWAIT)
        assert (await check).status == 0

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for _ in range(20):  # how much the loop has seen by then differs
            runner.run(story())


def test_there_is_no_shell(tmp_path: Path) -> None:
    assert verdict(f"true; touch {tmp_path}/made", GOOD).passed is False
    verdict(f"echo x > {tmp_path}/made && true", GOOD)
    assert not list(tmp_path.iterdir())


def test_the_reason_is_the_end_of_the_output_without_control_characters() -> None:
    program = "import sys; [print(f'\\x1b[31mline {n}\\x07') for n in range(100)]; sys.exit(3)"
    result = verdict(f'python -c "{program}"', GOOD)
    assert result.reason.splitlines()[1] == "line 80"
    assert result.reason.splitlines()[-1].rstrip() == "line 99"
    assert "exit status 3" in result.reason
    assert not any(ord(character) < 32 and character != "\n" for character in result.reason)


def test_a_command_that_takes_too_long_is_killed_with_what_it_started(tmp_path: Path) -> None:
    began = time.monotonic()
    result = verdict("sh -c 'sleep 600 & sleep 600'", GOOD, timeout=1.0)
    assert "took longer than 1 s" in result.reason
    assert time.monotonic() - began < 10


def test_a_command_that_floods_its_output_is_killed() -> None:
    result = verdict("yes", GOOD)
    assert not result.passed
    assert "wrote more than" in result.reason


def test_a_program_that_is_missing_is_no_fault_of_the_block() -> None:
    result = verdict("no-such-linter -", GOOD)
    assert not result.passed
    assert not result.is_decided
    assert "install it" in result.reason
    assert command_problems(("no-such-linter -", "ruff check -", "'", ""), "") == [
        "the check `no-such-linter -` cannot be run: there is no program 'no-such-linter'; install it",
        "the check `'` cannot be read: No closing quotation",
        "a check is empty: remove it, or name a command",
    ]


def test_a_command_sees_no_secret_of_stokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "very-secret")
    result = verdict("sh -c 'env; exit 1'", GOOD)
    assert "PATH=" in result.reason
    assert "very-secret" not in result.reason


def test_a_path_that_leaves_the_directory_is_not_written(tmp_path: Path) -> None:
    outside = tmp_path / "x.py"
    assert verdict("true", block("x = 1\n", str(outside)), [block("y = 1\n", "../../../y.py")]).passed
    assert not outside.exists()


def test_a_cancelled_check_ends_the_command(tmp_path: Path) -> None:
    marked = f"{os.getpid()}{time.monotonic_ns() % 10**6}"

    def running() -> bool:
        lines = (one.info["cmdline"] or () for one in psutil.process_iter(["cmdline"]))
        return any(f"6{marked}" in word for line in lines for word in line)

    async def story() -> None:
        checker = CommandChecker(CommandSettings((f"sleep 6{marked}",), 60.0))
        check = asyncio.get_running_loop().create_task(checker.check(GOOD, ()))
        while not await asyncio.to_thread(running):
            await asyncio.sleep(0.02)
        check.cancel()
        with pytest.raises(asyncio.CancelledError):
            await check
        async with asyncio.timeout(5):
            while await asyncio.to_thread(running):  # its own process numbers fall with the first, a moment later
                await asyncio.sleep(0.02)

    asyncio.run(story())
