"""`stoker` without its start-up: forked from a process that imported the program once for all tests of a worker.

It is a process like any other, with a directory, an environment, a session, output, signals and an exit code of its
own. Only the imports are spared: 0.3 s of CPU for each command, and the scenarios run hundreds.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

SHOW_WORK = signal.SIGUSR1
"""The signal at which it prints what it is doing."""
sys.modules["__main__"] = ModuleType("__main__")  # else each process would import pytest, as the program that began it
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, "tests.scenarios.preload"])


class Stoker:
    """One run of `stoker ARGUMENTS`, used like a `subprocess.Popen`; its output is appended to `out` and `err`."""

    def __init__(
        self, arguments: Sequence[str], directory: Path, environment: Mapping[str, str], out: Path, err: Path,
        prepare: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self._name = " ".join(["stoker", *arguments])
        given = (list(arguments), str(directory), dict(environment), str(out), str(err), prepare)
        self._process = _CONTEXT.Process(target=_main, args=given, daemon=False)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """The exit code, if it ended."""
        return self._process.exitcode

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._name, timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self._process.exitcode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Command(Stoker):
    """A run whose output is read at its end."""

    def __init__(
        self, arguments: Sequence[str], directory: Path, environment: Mapping[str, str],
        prepare: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        output = Path(tempfile.mkdtemp(prefix="command-", dir=directory))
        self._out, self._err = output / "out", output / "err"
        super().__init__(arguments, directory, environment, self._out, self._err, prepare)

    def printed(self) -> str:
        """What it printed so far: stdout, then stderr."""
        return "".join(file.read_text() for file in (self._out, self._err) if file.exists())

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; what it printed on stdout and stderr. Killed, and raises, at `timeout`."""
        try:
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait()
            raise
        return self._out.read_text(), self._err.read_text()


def _main(
    arguments: list[str], directory: str, environment: dict[str, str], out: str, err: str,
    prepare: Callable[[], None] | None,
) -> None:  # fmt: skip
    """In the forked process."""
    os.setsid()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, out, _APPEND), (2, err, _APPEND)):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode, closefd=False) for n, mode in enumerate(("r", "w", "w")))
    sys.argv = ["stoker", *arguments]
    signal.signal(SHOW_WORK, _show_work)
    gc.freeze()
    from stoker.cli.entry import main

    if prepare is not None:
        prepare()
    main()


def _show_work(*_: object) -> None:
    """Print where each thread and each task is."""
    faulthandler.dump_traceback(all_threads=True)
    gc.unfreeze()  # what is frozen is not listed
    for task in gc.get_objects():
        if isinstance(task, asyncio.Task) and not task.done():
            task.print_stack()
    print("That is all.", file=sys.stderr, flush=True)


_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
