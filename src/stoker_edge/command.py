"""Runs one command of the configuration: no shell, bounded in time and output, killed with its children."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.fleet.process.command_end import end_command


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
        await end_command(process, process.stdout)
    return CommandOutput(code, output[:most_output].decode("utf-8", "replace"), is_cut)
