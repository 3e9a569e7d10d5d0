"""Runs one command of Stoker in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stoker.cli.console import progress_report
from stoker.fleet.process.command_end import kill_group

MOST_OUTPUT = 32 * 2**20
"""Bytes on stdout; more is not read."""
LONGEST_LINE = 2**16
ENDS_WITHIN = 3.0
"""Seconds from SIGINT to SIGKILL: a command keeps what it has fetched or measured, and ends."""
_ENTRY = "from stoker_setup.jobs.child import main; main()"


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """`output`: what it wrote on stdout."""

    code: int
    output: str


async def run_command(
    words: Sequence[str], more: Mapping[str, str], stop: asyncio.Event, on_line: Callable[[str], None]
) -> CommandEnd:
    """`more`: beside the environment of this process. `on_line`: of stderr. When `stop` is set it is interrupted, and
    killed after ENDS_WITHIN; on cancel it is killed at once. Raises OSError if it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", _ENTRY, str(os.getpid()), *words,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **more, progress_report.VARIABLE: "json", "NO_COLOR": "1"},
        start_new_session=True, limit=LONGEST_LINE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    stopping = asyncio.get_running_loop().create_task(_end_when(stop, process), name="job-end")
    try:
        output, _ = await asyncio.gather(_whole(process.stdout), _lines(process.stderr, on_line))
        return CommandEnd(await process.wait(), output.decode("utf-8", "replace"))
    finally:
        stopping.cancel()
        if process.returncode is None:
            kill_group(process)
            with contextlib.suppress(asyncio.CancelledError):
                await process.wait()


async def _end_when(stop: asyncio.Event, process: asyncio.subprocess.Process) -> None:
    await stop.wait()
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    await asyncio.sleep(ENDS_WITHIN)
    kill_group(process)


async def _whole(stream: asyncio.StreamReader) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := await stream.read(2**16):
        size += len(piece)
        if size <= MOST_OUTPUT:
            pieces.append(piece)
    return b"".join(pieces)


async def _lines(stream: asyncio.StreamReader, on_line: Callable[[str], None]) -> None:
    """A line that is too long is passed over."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            continue
        if not line:
            return
        if text := line.decode("utf-8", "replace").rstrip("\n"):
            on_line(text)
