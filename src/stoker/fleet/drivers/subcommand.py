"""Runs one command to its end: no shell, bounded in time and in the output that is kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stoker.fleet.drivers.exit_watch import ExitWatch, reap

OUTPUT = 2**20
"""How many bytes of each output are kept, from its end."""
_PIECE = 2**16


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How it ended; `code` is negative for a signal."""

    code: int
    out: str
    err: str


async def run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    limit: float | None,
    directory: str | None = None,
    on_output: Callable[[bytes], None] | None = None,
) -> CommandResult:
    """Run `argv` for at most `limit` seconds (None: no limit), in its own session. It has ended when its outputs are
    closed, too.

    `on_output` gets both outputs as they come, and nothing is kept then. Raises OSError if it cannot be started, and
    TimeoutError; then, and on cancel, its process group is killed before the call returns.
    """
    child = _Child(argv, environment, directory, on_output)
    try:
        async with asyncio.timeout(limit):
            await child.ended.wait()
    finally:
        if not child.ended.is_set():
            child.kill()
        await _surely(child.exited)
        child.close()
    return CommandResult(child.code, child.text(child.out), child.text(child.err))


class _Child:
    """A child that is created without an await, so that a cancel cannot leave it half created.

    (The event loop's own subprocesses are created in several steps, some of them in tasks. If these are cancelled
    when a loop is closed, a child is left that is waited for without end.)
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        directory: str | None,
        on_output: Callable[[bytes], None] | None,
    ) -> None:
        self.ended = asyncio.Event()
        self.exited = asyncio.Event()
        self.code = 0
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        (self.out, out), (self.err, err) = os.pipe(), os.pipe()
        self._open = {self.out, self.err}
        self._kept = {self.out: bytearray(), self.err: bytearray()}
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=dict(environment),
                cwd=directory,
                start_new_session=True,
            )
        except BaseException:
            self.close()
            raise
        finally:
            os.close(out)
            os.close(err)
        process.returncode = 0  # `reap` collects it, so Popen must neither wait for it nor warn that it lives
        self._pid = process.pid
        for pipe in self._open:
            os.set_blocking(pipe, False)
            self._loop.add_reader(pipe, self._read, pipe)
        self._watch = ExitWatch(self._pid, self._on_exit)

    def kill(self) -> None:
        """Kills the whole group, because any process left of it holds the outputs open."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)

    def close(self) -> None:
        for pipe in list(self._open):
            self._shut(pipe)
        if self.exited.is_set():
            reap(self._pid)

    def text(self, pipe: int) -> str:
        return self._kept[pipe].decode("utf-8", "replace")

    def _read(self, pipe: int) -> None:
        try:
            data = os.read(pipe, _PIECE)
        except BlockingIOError:
            return
        if not data:
            self._shut(pipe)
            self._check_ended()
        elif self._on_output is not None:
            self._on_output(data)
        else:
            kept = self._kept[pipe]
            kept += data
            del kept[:-OUTPUT]

    def _on_exit(self, code: int | None) -> None:
        self.code = code or 0
        self.exited.set()
        self._check_ended()

    def _check_ended(self) -> None:
        if self.exited.is_set() and not self._open:
            self.ended.set()

    def _shut(self, pipe: int) -> None:
        self._loop.remove_reader(pipe)
        self._open.discard(pipe)
        os.close(pipe)


async def _surely(event: asyncio.Event) -> None:
    """Waits for an event that is certain to come soon; a cancel is passed on afterwards."""
    cancelled = False
    while not event.is_set():
        try:
            await event.wait()
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
