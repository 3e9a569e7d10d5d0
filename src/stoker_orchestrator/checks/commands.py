"""Do the operator's commands accept a block? The third layer.

A command gets the file as far as it is committed, with the block at its end: on standard input, or as `{file}`, whose
name is the block's. The other committed files lie beside it. It runs without a shell, in a sandbox of its own.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stoker.fleet.process.starter import NOT_FOUND
from stoker_lab.suites.sandbox.command import BoundedCommandResult, CommandLimits, isolated_command
from stoker_orchestrator.checks.source_files import path_within, source_before, write_committed, write_file
from stoker_orchestrator.loop.blocks import LayerResult, WorkerBlock
from stoker_orchestrator.orchestrator import CheckLayer

FILE = "{file}"
_LINES = 20
"""Of a command's output: the last ones are the reason."""
_MAX_LINE = 400
_EXTENSIONS = {
    "python": "py", "py": "py", "python3": "py", "javascript": "js", "js": "js", "jsx": "jsx", "typescript": "ts",
    "ts": "ts", "tsx": "tsx", "go": "go", "rust": "rs", "rs": "rs", "java": "java", "c": "c", "cpp": "cpp",
    "csharp": "cs", "ruby": "rb", "php": "php", "bash": "sh", "sh": "sh", "json": "json",
}  # fmt: skip


class CommandSettings(NamedTuple):
    """Of one orchestrator."""

    commands: tuple[str, ...]
    timeout: float
    """Seconds for each."""
    python: str = ""
    """Programs that are installed beside this interpreter are found first; empty: beside the one that runs Stoker."""
    project: str = ""
    """Where Python may import from; empty: nowhere."""


class CommandChecker:
    """The layer. All commands have to accept a block; the first that does not is the reason."""

    def __init__(self, settings: CommandSettings) -> None:
        self._settings = settings
        self._commands = [shlex.split(command) for command in settings.commands]
        self._path = search_path(settings.python)

    async def check(self, block: WorkerBlock, committed: Sequence[WorkerBlock]) -> LayerResult:
        """Raises nothing but CancelledError; no process and no file is left then."""
        for command in self._commands:
            try:
                result = await self._run(command, block, committed)
            except (OSError, ValueError) as error:
                return _unusable(command, str(error))
            if result.status == NOT_FOUND and shutil.which(command[0], path=self._path) is None:
                return _unusable(command, "it is not installed")
            if result.status != 0:
                return _failed(command, result)
        return LayerResult(CheckLayer.COMMANDS, True)

    async def _run(
        self, command: Sequence[str], block: WorkerBlock, committed: Sequence[WorkerBlock]
    ) -> BoundedCommandResult:
        text = source_before(block, committed) + block.text
        with tempfile.TemporaryDirectory(prefix="stoker-check-", ignore_cleanup_errors=True) as name:
            directory = Path(name)
            write_committed(directory, committed)
            target = (path_within(directory, block.path) if block.path else None) or directory / _file_name(block)
            write_file(target, text)
            uses_file = any(FILE in word for word in command)
            words = [word.replace(FILE, str(target)) for word in command]
            data = b"" if uses_file else text.encode("utf-8", "replace")
            return await isolated_command(
                words, directory, data, self._environment(name), CommandLimits(self._settings.timeout)
            )

    def _environment(self, directory: str) -> dict[str, str]:
        """Nothing of Stoker's own: it holds secrets."""
        project = self._settings.project
        modules = [directory, *([project, f"{project}{os.sep}src"] if project else [])]
        return {
            "PATH": self._path,
            "HOME": directory,
            "TMPDIR": directory,
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(modules),
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def _file_name(block: WorkerBlock) -> str:
    return f"block.{_EXTENSIONS.get(block.language, 'txt')}"


def _failed(command: Sequence[str], result: BoundedCommandResult) -> LayerResult:
    """The end of its output is what a person, and the worker, has to read."""
    shown = cleaned_tail(result.output)
    how = result.message or _exit_text(result.status)
    reason = f"`{shlex.join(command)}` failed: {how}" + (f"\n{shown}" if shown else "")
    return LayerResult(CheckLayer.COMMANDS, False, reason, f"make `{shlex.join(command)}` pass: {shown or how}")


def _exit_text(status: int | None) -> str:
    return f"signal {-status}" if status is not None and status < 0 else f"exit status {status}"


def _unusable(command: Sequence[str], why: str) -> LayerResult:
    """The configuration is at fault, not the block: it must neither pass nor be written again."""
    reason = f"`{shlex.join(command)}` cannot be run ({why}): install it, or mend `checks` of the orchestrator"
    return LayerResult(CheckLayer.COMMANDS, False, reason, is_decided=False)


def cleaned_tail(output: bytes) -> str:
    """The last lines, without control characters and terminal sequences."""
    lines = [_cleaned(line) for line in output.decode("utf-8", "replace").splitlines()]
    return "\n".join([line for line in lines if line][-_LINES:])


def _cleaned(line: str) -> str:
    text = "".join(part.partition("m")[2] if at else part for at, part in enumerate(line.split("\x1b[")))
    return "".join(one if one.isprintable() else " " for one in text).rstrip()[:_MAX_LINE]


def search_path(python: str) -> str:
    """Where programs are looked for."""
    beside = os.path.dirname(python or sys.executable)
    return os.pathsep.join(path for path in (beside, os.environ.get("PATH", os.defpath)) if path)


def command_problems(commands: Sequence[str], python: str) -> list[str]:
    """Commands that can never run, as sentences. Blocks."""
    path = search_path(python)
    problems = []
    for command in commands:
        try:
            words = shlex.split(command)
        except ValueError as error:
            problems.append(f"the check `{command}` cannot be read: {error}")
            continue
        if not words:
            problems.append("a check is empty: remove it, or name a command")
        elif shutil.which(words[0], path=path) is None:
            problems.append(f"the check `{command}` cannot be run: there is no program '{words[0]}'; install it")
    return problems
