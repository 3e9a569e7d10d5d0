"""The end of a command that ran in a session of its own, with its output in a pipe."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

AFTER_KILL = 1.0
"""Seconds to wait for the end of a killed command; a child in a session of its own may hold its output open."""


def kill_group(process: asyncio.subprocess.Process) -> bool:
    """With all that it has started, except what has left its process group. False: all of it belongs to another user
    (`sudo`), so it cannot be ended.
    """
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:
        return False
    return True


async def end_command(process: asyncio.subprocess.Process, output: asyncio.StreamReader) -> bool:
    """Kill it, and what it has started, if anything of it still runs. Returns within AFTER_KILL; False: it could not be
    killed, see `kill_group`.

    What it has written is read and dropped: `process.wait` returns once the pipe is closed, which asyncio sees only
    behind everything that is in it, and it stops reading a pipe that nobody reads.
    """
    could_end = kill_group(process)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(AFTER_KILL):
            while await output.read(2**16):
                pass
            await process.wait()
    return could_end
