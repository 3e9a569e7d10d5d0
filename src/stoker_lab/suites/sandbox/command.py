"""Runs one command with limits: bounded time, bounded output, and nothing of it is left when it ends.

A session of its own, killed as a whole: also when the caller is cancelled. `isolated_command` runs it as the sandbox
runs programs (see `sandbox`): where the kernel grants them with a user, a network and process numbers of its own. It
also ends if Stoker is killed: see `fleet.process.starter`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stoker.fleet.process.command_end import end_command, kill_group
from stoker.fleet.process.starter import started
from stoker_lab.suites.sandbox.sandbox import isolation_method

MAX_OUTPUT = 64 * 2**10
"""Bytes that are kept: the last ones."""
STOPPED_AT = 64 * 2**20
"""Bytes of output at which a command is killed."""
_LIMITS = {"RLIMIT_FSIZE": 64 * 2**20, "RLIMIT_CORE": 0, "RLIMIT_NOFILE": 1024}


class BoundedCommandResult(NamedTuple):
    status: int | None
    """The exit status, negative for a signal; None: it took too long, or wrote too much."""
    output: bytes
    """The last MAX_OUTPUT bytes of both streams."""
    message: str = ""
    """Why it was killed."""


class CommandLimits(NamedTuple):
    seconds: float
    memory: int = 0
    """Bytes of address space; 0: no limit. Programs with a garbage collector reserve far more than they use."""
    output: int = MAX_OUTPUT
    """Bytes that are kept: the last ones."""
    has_network: bool = False
    """Whether it may use the network of this machine."""
    has_errors: bool = True
    """Whether what it says on stderr is kept, too."""


async def isolated_command(
    command: Sequence[str], directory: Path, data: bytes, env: Mapping[str, str], limits: CommandLimits
) -> BoundedCommandResult:
    """Run it in `directory`, which has to be its own: the user of the sandbox gets it. Raises OSError if it cannot be
    started. On cancel it is killed.
    """
    method = await asyncio.to_thread(isolation_method)
    prefix = method.with_network().prefix if limits.has_network else method.prefix
    more: dict[str, Any] = {} if limits.has_errors else {"stderr": asyncio.subprocess.DEVNULL}
    if method.user is not None:
        await asyncio.to_thread(_give, directory, method.user)
        more |= {"user": method.user, "group": method.user, "extra_groups": []}
    values = {**_LIMITS, "RLIMIT_CPU": int(limits.seconds) + 1}
    if limits.memory:
        values["RLIMIT_AS"] = limits.memory
    whole = started([*prefix, *command], values)
    return await bounded_command(whole, directory, data, env, limits.seconds, limits.output, **more)


async def bounded_command(
    command: Sequence[str],
    directory: Path,
    data: bytes,
    env: Mapping[str, str],
    seconds: float,
    max_output: int = MAX_OUTPUT,
    **more: Any,
) -> BoundedCommandResult:
    """Run it as this user. `max_output`: bytes that are kept, the last ones. `more`: as for `subprocess.Popen`. Raises
    OSError if it cannot be started. On cancel it is killed.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=directory,
        env=dict(env),
        start_new_session=True,
        **{"stderr": asyncio.subprocess.STDOUT, **more},
    )
    reply = _TailReader(max_output)
    try:
        async with asyncio.timeout(seconds):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_feed(process, data))
                tasks.create_task(reply.read(process))
            if reply.is_too_much:
                return BoundedCommandResult(None, reply.tail, f"it wrote more than {STOPPED_AT} bytes")
            return BoundedCommandResult(await process.wait(), reply.tail)
    except TimeoutError:
        return BoundedCommandResult(None, reply.tail, f"it took longer than {seconds:g} s")
    finally:
        assert process.stdout is not None
        await asyncio.shield(end_command(process, process.stdout))


class _TailReader:
    def __init__(self, size: int) -> None:
        self._size = size
        self.tail = b""
        self.is_too_much = False

    async def read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        total = 0
        while data := await process.stdout.read(MAX_OUTPUT):
            total += len(data)
            self.tail = (self.tail + data)[-self._size :]
            if total > STOPPED_AT:
                self.is_too_much = True
                kill_group(process)
                return


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    """A command need not read what it gets: `true` may have ended before."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        if not process.stdin.is_closing():  # uvloop closes a pipe that nobody reads, and then refuses to write to it
            process.stdin.write(data)
            await process.stdin.drain()
    process.stdin.close()


def _give(directory: Path, user: int) -> None:
    for one in (directory, *directory.rglob("*")):
        os.chown(one, user, user, follow_symlinks=False)
