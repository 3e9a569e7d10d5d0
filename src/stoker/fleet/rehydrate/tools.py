"""Running the programs that fetch: in a session of their own, ended with all that they started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

POLL_INTERVAL = 0.25
"""Seconds between two checks of a fetch's progress."""
GRACE = 2.0
"""Seconds from SIGTERM to SIGKILL."""
_KEPT = 2**16


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """How it ended, and the last of its two outputs together."""

    code: int
    text: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def last(self) -> str:
        """Its last line of any use, shortened."""
        return next((line.strip()[:300] for line in reversed(self.lines) if line.strip()), "it printed nothing")


async def run(
    argv: Sequence[str], environment: Mapping[str, str], on_poll: Callable[[], None] = lambda: None
) -> ToolOutput:
    """Run it to its end, calling `on_poll` now and then. Raises OSError if it cannot be started.

    On cancel everything that it started is gone before CancelledError leaves this call.
    """
    # A file, not a pipe: ssh may leave a process behind that keeps a pipe open for ever.
    with tempfile.TemporaryFile() as output:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                polling = tasks.create_task(_poll(on_poll))
                code = await process.wait()
                polling.cancel()
        except BaseException:
            await _end(process)
            raise
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - _KEPT))
        return ToolOutput(code, output.read().decode("utf-8", "replace"))


async def _poll(on_poll: Callable[[], None]) -> None:
    while True:
        on_poll()
        await asyncio.sleep(POLL_INTERVAL)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Not to be interrupted, and over within GRACE and a moment."""
    ending = asyncio.get_running_loop().create_task(_kill(process), name="end-fetch")
    while not ending.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([ending])
    ending.result()


async def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            await process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # members of the group that ignored SIGTERM
    await process.wait()
