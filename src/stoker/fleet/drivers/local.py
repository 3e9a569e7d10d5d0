"""The process driver: starts a configured serve as a process, and finds it again after a restart of Stoker.

A serve's own `stop` command runs instead of the first SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import shlex
import signal
import time
from collections.abc import Callable, Container
from pathlib import Path

import msgspec

from stoker.domain.access import Paths
from stoker.domain.errors import StartFailed
from stoker.domain.serve import Serve
from stoker.engines.last_output import redact
from stoker.engines.launch import Launch, LaunchPlace
from stoker.engines.own_command import fill
from stoker.engines.plan import plan
from stoker.fleet.drivers import process_group
from stoker.fleet.drivers.process_group import ExitWatch, LocalProcess, describe_exit, reap, spawn
from stoker.fleet.drivers.unit import Launched
from stoker.fleet.process import identity
from stoker.fleet.process.environment import child_environment, free_port
from stoker.fleet.process.identity import Keys, StartRecord, StopWords
from stoker.fleet.process.logs import log_path, open_log, rotate_if_full
from stoker.store.files.remedies import remedy
from stoker.system import processes

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
        found = processes.environment(self._record.pid)
        if found is None:
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


_SWEEP_LIMIT = 5.0


class LocalDriver:
    """Implements `drivers.unit.UnitDriver` with processes of this machine, each in a session of its own."""

    def __init__(
        self,
        paths: Paths,
        keys: Keys,
        log: logging.Logger,
        conversations: Callable[[Serve], str | None] = lambda serve: None,
        with_choices: Callable[[Serve], Serve] = lambda serve: serve,
    ) -> None:
        """`conversations`: the directory for a serve's saved KV caches. `with_choices`: see `MemoryMeter`."""
        self._paths = paths
        self._keys = keys
        self._log = log
        self._conversations = conversations
        self._with_choices = with_choices

    async def start_problems(self, serve: Serve) -> list[str]:
        """Returns nothing beyond `supervision.start_problems`."""
        return []

    async def launch(
        self, serve: Serve, taken: Container[int], started_at: float, intend: Callable[[StartRecord], None]
    ) -> Launched:
        """Spawns `serve`, on a port outside `taken` unless it has a fixed one. Blocks for a few milliseconds without an
        await, so that nothing else runs between the choice of a port and the return.

        Raises StartFailed, and StokerError for an unusable state directory; nothing runs then.
        """
        serve = self._with_choices(serve)
        nonce = secrets.token_hex(16)
        port = serve.port or free_port(serve.host, taken)
        place = LaunchPlace(port, self._keys.key(serve, nonce), self._conversations(serve))
        planned = plan(serve, place)
        own = {**planned.environment, identity.MARK_VARIABLE: nonce}
        environment = child_environment(os.environ, serve.env, own, serve.inherit_env)
        log = log_path(self._paths.logs, serve.name)
        intent = StartRecord(
            name=serve.name,
            pid=0,
            mark="",
            command="",
            fingerprint=self._keys.fingerprint(serve),
            port=port,
            nonce=nonce,
            takes_key=planned.takes_key,
            started_at=started_at,
            log=str(log),
            grace=serve.stop_grace,
            stop=stop_words(serve, place),
        )
        intend(intent)
        try:
            rotate_if_full(log, self._paths.log_bytes)
            output = open_log(log)
        except OSError as error:
            advice = remedy(error, log.parent)
            text = f"serve '{serve.name}' was not started: {log} cannot be written ({error.strerror}): {advice}"
            raise StartFailed(text, code="cannot_start") from error
        try:
            os.write(output, _header(serve, planned, place).encode())
            log_start = os.lseek(output, 0, os.SEEK_END)
            pid = spawn(planned.argv, environment, serve.working_directory, output)
        except OSError as error:
            where = f"{planned.argv[0]} in {serve.working_directory}"
            text = f"serve '{serve.name}' cannot be started: {where}: {error.strerror}"
            raise StartFailed(f"{text}; correct `cmd`, or install it", code="cannot_start") from error
        finally:
            os.close(output)
        record = msgspec.structs.replace(
            intent, pid=pid, mark=processes.start_mark(pid) or "", command=self._keys.command(pid)
        )
        return Launched(record, self._keys.address(serve, record), log, log_start)

    def attach(
        self, record: StartRecord, on_exit: Callable[[int | None], None], on_gone: Callable[[], None]
    ) -> LocalProcess:
        """Raises ProcessLookupError if the process is gone, or another process has its number now."""
        stop = None
        if record.stop is not None:
            key = self._keys.key(Serve(name=record.name), record.nonce)
            stop = StopCommand(record, record.stop, key, self._log)
        process = LocalProcess(record.pid, on_exit, on_gone, self._log, stop)
        if not self._is_ours(record):  # asked only now, because a watched process cannot change its number
            process.release()
            self._log.warning("process %d no longer belongs to serve %s: it is left alone", record.pid, record.name)
            raise ProcessLookupError(record.pid)
        return process

    async def find(self, record: StartRecord) -> StartRecord | None:
        """The record, if its process lives; else None. Kills processes left behind by an interrupted launch or stop, or
        by a leader that ended.
        """
        end_leftovers(record, self._log)
        if record.pid and processes.start_mark(record.pid) is not None:
            return record
        await self._sweep(record)
        return None

    async def recent_output(self, record: StartRecord) -> str:
        """Nothing: the output is in a log file."""
        return ""

    def _is_ours(self, record: StartRecord) -> bool:
        """Whether the process with this number is the one that was started.

        A start that was never finished may have replaced its program since (a wrapper's `exec`), so the command line is
        compared only for a start that was proved.
        """
        if not record.mark or processes.start_mark(record.pid) != record.mark:
            return False
        return not record.ready or self._keys.command(record.pid) == record.command

    async def _sweep(self, record: StartRecord) -> None:
        """The leader is gone: ends only processes that carry the mark of that start."""
        import psutil

        candidates = (lambda: process_group.members(record.pid)) if record.pid else psutil.pids
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SWEEP_LIMIT):
                while left := [p for p in candidates() if identity.has_start_nonce(p, record.nonce)]:
                    self._log.warning("serve %s left processes %s behind: they are killed", record.name, left)
                    for pid in left:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    await asyncio.sleep(_POLL_INTERVAL)


def _header(serve: Serve, planned: Launch, place: LaunchPlace) -> str:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    command = redact(" ".join(planned.argv), [place.key])
    return f"--- stoker {now}: serve '{serve.name}' on port {place.port}: {command}\n"
