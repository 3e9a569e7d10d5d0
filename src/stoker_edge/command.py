"""Runs one command of the configuration: no shell, bounded in time and output, killed with its children."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass

AFTER_KILL = 1.0
"""Seconds to wait for the end of a killed command; a child in a session of its own may hold its output open."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    code: int
    output: str
    is_cut: bool = False
    """It printed too much, and was killed for that."""


async def run_command(
    argv: Sequence[str], *, timeout: float, most_output: int, directory: str | None = None, with_errors: bool = False
) -> CommandOutput:
    """`with_errors`: stderr is part of the output; otherwise it is dropped. Raises OSError if it cannot be started, and
    TimeoutError.
    """
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT if with_errors else asyncio.subprocess.DEVNULL,
        cwd=directory,
        start_new_session=True,
    )
    assert process.stdout is not None
    output = b""
    try:
        async with asyncio.timeout(timeout):
            while len(output) <= most_output and (piece := await process.stdout.read(most_output)):
                output += piece
            is_cut = len(output) > most_output
            code = 0 if is_cut else await process.wait()
    finally:
        await _end(process, process.stdout)
    return CommandOutput(code, output[:most_output].decode("utf-8", "replace"), is_cut)


async def _end(process: asyncio.subprocess.Process, output: asyncio.StreamReader) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(AFTER_KILL):
            while await output.read(2**16):  # asyncio sees the end only behind everything that was printed
                pass
            await process.wait()
