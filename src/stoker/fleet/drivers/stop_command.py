"""A serve's own `stop` command, which runs instead of the first SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path

from stoker.domain.serve import Serve
from stoker.engines.last_output import redact
from stoker.engines.launch import LaunchPlace
from stoker.engines.own_command import fill
from stoker.fleet.drivers import process_group
from stoker.fleet.drivers.exit_watch import ExitWatch, reap
from stoker.fleet.drivers.process import describe_exit, spawn
from stoker.fleet.process import identity
from stoker.fleet.process.environment import child_environment
from stoker.fleet.process.logs import open_log
from stoker.fleet.process.start_records import StartRecord, StopWords

_LATE = re.compile(r"(?<!\{)\{(pid|key)\}")
_POLL_INTERVAL = 0.02


def stop_words(serve: Serve, place: LaunchPlace) -> StopWords | None:
    """The serve's stop command for its record: filled in, except for the process id and for the key, which is never
    written to a file.
    """
    if serve.stop is None:
        return None
    first, *rest = fill(serve, place, serve.stop, but=("key",))
    if os.sep in first:
        first = os.path.join(serve.working_directory, first)
    return StopWords(words=[first, *rest], directory=serve.working_directory)


def end_leftovers(record: StartRecord, log: logging.Logger) -> None:
    """Kill the stop command that an earlier run of Stoker left running when it crashed."""
    if record.stop is None:
        return
    import psutil

    for pid in psutil.pids():
        if identity.has_start_nonce(pid, record.nonce, identity.STOP_VARIABLE):
            log.warning("the stop command of serve %s (process %d) was left running: it is killed", record.name, pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class StopCommand:
    """Runs the stop command of one start, in a session of its own; its output goes to the serve's log."""

    def __init__(self, record: StartRecord, stop: StopWords, key: str, log: logging.Logger) -> None:
        self._record = record
        self._stop = stop
        self._key = key
        self._log = log

    async def run(self, exited: asyncio.Event, until: Callable[[], float]) -> None:
        """Returns when the command and the serve's process (`exited`) have ended, when the command fails, or at
        `until()`, a time of the loop's clock that callers may shorten. No process of the command is left then. Never
        raises: failures are logged.
        """
        try:
            pid = self._spawn()
        except OSError as error:
            self._warn(f"cannot be run ({self._stop.words[0]}: {error.strerror})")
            return
        codes: list[int | None] = []
        ended = asyncio.Event()

        def on_end(code: int | None) -> None:
            codes.append(code)
            ended.set()

        watch = ExitWatch(pid, on_end)
        try:
            await _wait(ended, until)
            if codes and codes[0] == 0:
                await _wait(exited, until)
        finally:  # also on cancel
            watch.close()
            await _end_session(pid)
        if not exited.is_set():
            self._warn(self._fault(codes))

    def _fault(self, codes: list[int | None]) -> str:
        if not codes:
            return "did not end in time, and was killed"
        return "ended, and the serve still runs" if codes[0] == 0 else f"{describe_exit(codes[0])} (see its log)"

    def _warn(self, text: str) -> None:
        self._log.warning("the stop command of serve %s %s: SIGTERM follows", self._record.name, text)

    def _spawn(self) -> int:
        record = self._record
        values = {"pid": str(record.pid), "key": self._key}
        words = [_LATE.sub(lambda found: values[found[1]], word) for word in self._stop.words]
        with contextlib.ExitStack() as opened:
            output = open_log(Path(record.log)) if record.log else os.open(os.devnull, os.O_WRONLY)
            opened.callback(os.close, output)
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            shown = redact(shlex.join(words), [self._key])
            os.write(output, f"--- stoker {now}: serve '{record.name}' is stopped: {shown}\n".encode())
            return spawn(words, self._environment(), self._stop.directory, output)

    def _environment(self) -> dict[str, str]:
        """The environment of the serve's process, with the `env` of its configuration."""
        import psutil

        try:
            found = dict(psutil.Process(self._record.pid).environ())
        except (psutil.Error, OSError):
            found = child_environment(os.environ, {}, {})
        found.pop(identity.MARK_VARIABLE, None)
        return {**found, identity.STOP_VARIABLE: self._record.nonce}


async def _wait(event: asyncio.Event, until: Callable[[], float]) -> None:
    """Waits for the event, or until `until()`."""
    loop = asyncio.get_running_loop()
    while not event.is_set() and (left := until() - loop.time()) > 0:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(_POLL_INTERVAL, left)):
                await event.wait()


async def _end_session(pid: int) -> None:
    """Kills the rest of the session. Gives up after a moment on a process that hangs in the kernel."""
    for _ in range(100):
        process_group.send(pid, signal.SIGKILL)
        if not process_group.members(pid):
            break
        await asyncio.sleep(_POLL_INTERVAL)
    reap(pid)
