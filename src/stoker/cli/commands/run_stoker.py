"""A Stoker for one command: the one that runs, or one that is started and ended again."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from stoker.cli.console import terminal
from stoker.cli.console.errors import NotRunning, RequestRefused
from stoker.system.identity import is_linux
from stoker.system.processes import signal_at_parents_end

if TYPE_CHECKING:
    from stoker.cli.console.answers import StatusAnswer
    from stoker.cli.console.installation import Installation

START_WITHIN = 120.0
_POLL = 0.1
_ENTRY = "from stoker.cli.entry import main; main()"
_DETACHED = (
    "import os, sys; open_end = int(sys.argv.pop(1)); os.fork() and os._exit(0); os.set_inheritable(open_end, False); "
    f"os.write(open_end, str(os.getpid()).encode()); {_ENTRY}"
)
_OTHER_WITHIN = 1.0
"""Seconds in which another Stoker has to answer, for which this one has made way."""


@contextmanager
def running_stoker(installation: Installation) -> Iterator[StatusAnswer]:
    """The status of the Stoker that runs here. If none does, one runs meanwhile, on a free port.

    Raises NotRunning if there is no configuration to start it with, RequestRefused if it does not start.
    """
    try:
        with installation.control() as control:
            status = control.status()
    except NotRunning:
        if installation.settings is None:
            raise
    else:
        yield status
        return
    terminal.note(
        f"stoker: no Stoker is running with {installation.configured().source}; starting one for this request"
    )
    with started_stoker(installation) as status:
        yield status


@contextmanager
def started_stoker(installation: Installation) -> Iterator[StatusAnswer]:
    """A Stoker of this configuration that nobody else runs, on a free port, until the block ends.

    Raises RequestRefused if it does not start.
    """
    from stoker.cli.machine.ports import free_port

    with tempfile.TemporaryFile("w+") as log:
        child = _start(installation, log, ("--port", str(free_port())))
        try:
            yield _wait(installation, child, log)
        finally:
            _end(child, installation)


def start_in_background(installation: Installation) -> StatusAnswer:
    """A Stoker of this configuration, at its own port, that goes on when this command has ended.

    It is told how it ends. A person who interrupts the wait ends it. Raises RequestRefused if it does not start.
    """
    source = installation.configured().source
    terminal.note(f"stoker: no Stoker is running with {source}; starting it in the background")
    installation.logs.mkdir(parents=True, exist_ok=True)
    path = installation.logs / "up.log"
    with path.open("a+", encoding="utf-8") as log, _detached(installation, log) as process:
        try:
            status = _wait(installation, process, log)
        except BaseException:
            _end(process, installation)
            raise
    terminal.note(f"stoker: it is process {status.pid}, its log is {path}; end it with: kill {status.pid}")
    return status


class _Detached:
    """A Stoker that is no child of this process, with what it needs of `Popen`. `lives`: the end of a pipe whose other
    end the Stoker holds open for as long as it runs.
    """

    def __init__(self, pid: int | None, lives: int) -> None:
        self._pid = pid
        self._lives = lives

    def poll(self) -> int | None:
        return 0 if self._has_ended(0) else None

    def wait(self, timeout: float) -> None:
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(["stoker", "up"], timeout)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self._pid is not None and not self._has_ended(0):
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _has_ended(self, timeout: float) -> bool:
        return bool(select.select([self._lives], [], [], timeout)[0])


@contextmanager
def _detached(installation: Installation, log: IO[str]) -> Iterator[_Detached]:
    """A Stoker that is started by a process which ends at once: a program that this one becomes may wait for all its
    children, and must not find one that it never started. It runs on after the block.
    """
    lives, open_end = os.pipe()
    try:
        try:
            starter = _popen(installation, log, _DETACHED, (str(open_end),), (), (open_end,))
        finally:
            os.close(open_end)
        starter.wait()
        pid = os.read(lives, 32)  # nothing, if Python itself did not start
        yield _Detached(int(pid) if pid else None, lives)
    finally:
        os.close(lives)


def _start(installation: Installation, log: IO[str], options: Sequence[str]) -> subprocess.Popen[bytes]:
    return _popen(installation, log, _ENTRY, (), options, (), ends_with_parent=True)


def _popen(
    installation: Installation, log: IO[str], code: str, first: Sequence[str], options: Sequence[str],
    descriptors: Sequence[int], ends_with_parent: bool = False,
) -> subprocess.Popen[bytes]:  # fmt: skip
    # Its own session: Ctrl-C is for this command.
    source = installation.configured().source
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, *first, "up", "--config", source, *options],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=descriptors,
        preexec_fn=_end_with_parent if ends_with_parent and is_linux() else None,
    )


def _end_with_parent() -> None:
    """If this command is killed, the Stoker that it started ends in order."""
    signal_at_parents_end(signal.SIGTERM)


def _wait(installation: Installation, child: subprocess.Popen[bytes] | _Detached, log: IO[str]) -> StatusAnswer:
    """Another Stoker of this configuration, which somebody started at the same time, is as good."""
    deadline = time.monotonic() + START_WITHIN
    while time.monotonic() < deadline:
        if child.poll() is not None:
            deadline = min(deadline, time.monotonic() + _OTHER_WITHIN)
        try:
            with installation.control() as control:
                return control.status()
        except NotRunning:
            time.sleep(_POLL)
    log.seek(0)
    last = " ".join(log.read()[-2000:].split("\n")[-4:]).strip()
    text = f"Stoker did not start ({last or 'it said nothing'}); see what it needs: {installation.start}"
    raise RequestRefused(text, code="start_failed")


def _end(child: subprocess.Popen[bytes] | _Detached, installation: Installation) -> None:
    child.terminate()
    grace = installation.settings.front_door.shutdown_grace if installation.settings is not None else 0.0
    try:
        child.wait(grace + 60)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(START_WITHIN)
