"""Runs a program with its tests in a process of its own, with limits.

For measuring models that the operator chose himself. It keeps a wrong program from doing harm by accident: it is no
security boundary, and nothing that strangers can send belongs here.

A fresh `python -I -S` in an empty directory, without our environment, in a session of its own: at most CPU seconds,
MEMORY bytes, files of FILE bytes, WALL seconds, OUTPUT bytes said. Python itself refuses it other programs, connections
and files outside of its directory (audit hooks: see `inside`). It is killed with all that it started. Where the kernel
grants them, it has a user, a network (with nothing in it) and process numbers of its own; as root it runs as `nobody`
where that user can read the interpreter.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from enum import StrEnum
from importlib.resources import files
from typing import Any, NamedTuple

CPU, WALL, START = 2, 5.0, 30.0
"""Seconds: of work, from `ready` on, and until then (a machine may be busy)."""
MEMORY, FILE, OUTPUT = 512 * 2**20, 2**20, 64 * 2**10
LIMITS = {
    "RLIMIT_CPU": CPU, "RLIMIT_AS": MEMORY, "RLIMIT_FSIZE": FILE, "RLIMIT_NPROC": 16, "RLIMIT_NOFILE": 32,
    "RLIMIT_CORE": 0,
}  # fmt: skip
"""By the names of the module `resource`. Processes count per user; where it has a user of its own, per program."""
TRY_AGAIN = 60.0
"""Seconds after which a better way is looked for."""
NOBODY = 65534
NO_NETWORK = "-n"
"""Of `unshare`: a network with nothing in it."""


class SandboxOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    """The program is wrong, ended itself, took too long or said too much."""
    BROKEN = "broken"
    """The sandbox failed, and the program did not run."""


class SandboxResult(NamedTuple):
    end: SandboxOutcome
    message: str = ""
    output: bytes = b""
    """The program's output, at most OUTPUT bytes."""
    seconds: float = 0.0


class IsolationMethod(NamedTuple):
    prefix: tuple[str, ...] = ()
    user: int | None = None

    def with_network(self) -> IsolationMethod:
        """The same, with the network of this machine."""
        return self._replace(prefix=tuple(word for word in self.prefix if word != NO_NETWORK))


def run_program(code: str, tests: str) -> SandboxResult:
    """Blocks, for WALL seconds at most once it runs. Never raises because of the program."""
    try:
        return _run(isolation_method(), code, tests)
    except (OSError, ValueError) as error:
        return SandboxResult(SandboxOutcome.BROKEN, f"the sandbox cannot start: {error}"[:200])


def isolation_method() -> IsolationMethod:
    """The first way by which an empty program passes; the last one, if none does. The best is known for good; a machine
    that was too busy to show another one is asked again after TRY_AGAIN.
    """
    global _found
    if _found is None or time.monotonic() >= _found[1]:
        ways = _ways()
        method = next((one for one in ways[:-1] if _passes(one)), ways[-1])
        _found = method, math.inf if method == ways[0] else time.monotonic() + TRY_AGAIN
    return _found[0]


_found: tuple[IsolationMethod, float] | None = None
"""The method, and until when it is known."""


def _passes(method: IsolationMethod) -> bool:
    try:
        return _run(method, "", "").end is SandboxOutcome.PASSED
    except (OSError, ValueError):
        return False


def _ways() -> list[IsolationMethod]:
    """1. as nobody, in namespaces  2. in namespaces  3. as nobody  4. as we are."""
    unshare = shutil.which("unshare")
    own = (unshare, "-r", NO_NETWORK, "-p", "-f", "--kill-child") if unshare else ()
    users = [NOBODY, None] if os.geteuid() == 0 else [None]
    spaces = [IsolationMethod(own, user) for user in users if own]
    return [*spaces, *(IsolationMethod((), user) for user in users)]


def _run(chosen: IsolationMethod, code: str, tests: str) -> SandboxResult:
    with tempfile.TemporaryDirectory(prefix="stoker-sandbox-", ignore_cleanup_errors=True) as directory:
        if chosen.user is not None:
            os.chown(directory, chosen.user, chosen.user)
        reading, writing = os.pipe()
        try:
            process = _start(chosen, directory, writing)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        try:
            return _watch(process, reading, _order(code, tests, writing))
        finally:
            _end(process)
            os.close(reading)


def inside_source() -> str:
    return (files("stoker_lab.suites.sandbox") / "inside.py").read_text()


def _start(chosen: IsolationMethod, directory: str, descriptor: int) -> subprocess.Popen[bytes]:
    more: dict[str, Any] = {}
    if chosen.user is not None:
        more = {"user": chosen.user, "group": chosen.user, "extra_groups": []}
    return subprocess.Popen(
        [*chosen.prefix, os.path.realpath(sys.executable), "-I", "-S", "-c", inside_source()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=directory,
        env={},
        pass_fds=(descriptor,),
        start_new_session=True,
        **more,
    )


def _order(code: str, tests: str, descriptor: int) -> bytes:
    return json.dumps([code, tests, descriptor, LIMITS]).encode("ascii", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the session's process group. In a PID namespace the first process takes all others with it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


class _SandboxPipes:
    def __init__(self, process: subprocess.Popen[bytes], reading: int, order: bytes) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.messages, self.output, self.began = b"", b"", time.monotonic()
        self.deadline = self.began + START
        self._order = order
        self._pipes = selectors.DefaultSelector()
        self._pipes.register(process.stdout, selectors.EVENT_READ, self._on_output)
        self._pipes.register(reading, selectors.EVENT_READ, self._on_message)
        self._pipes.register(process.stdin, selectors.EVENT_WRITE, self._on_writable)
        for pipe in (process.stdout.fileno(), reading, process.stdin.fileno()):
            os.set_blocking(pipe, False)
        self._stdin = process.stdin

    @property
    def is_ready(self) -> bool:
        return self.messages.startswith(b"ready\n")

    @property
    def result(self) -> str:
        """The result; empty: none yet."""
        return self.messages[len(b"ready\n") :].partition(b"\n")[0].decode("utf-8", "replace")

    def wait(self) -> str:
        """Wait for a result, or until all pipes are closed. Returns what ended the wait too early; empty: nothing."""
        with self._pipes:
            while self._pipes.get_map() and not self.result:
                left = self.deadline - time.monotonic()
                if left <= 0:
                    return "time"
                for key, _ in self._pipes.select(left):
                    key.data(key.fileobj)
                if len(self.output) > OUTPUT:
                    return "output"
        return ""

    def _on_output(self, pipe: Any) -> None:
        self.output += self._take(pipe)

    def _on_message(self, pipe: Any) -> None:
        was_ready = self.is_ready
        self.messages += self._take(pipe)
        if self.is_ready and not was_ready:
            self.deadline = time.monotonic() + WALL

    def _on_writable(self, pipe: Any) -> None:
        try:
            self._order = self._order[os.write(pipe.fileno(), self._order) :]
        except BrokenPipeError:
            self._order = b""
        if not self._order:
            self._pipes.unregister(pipe)
            self._stdin.close()

    def _take(self, pipe: Any) -> bytes:
        data = os.read(pipe if isinstance(pipe, int) else pipe.fileno(), OUTPUT + 1)
        if not data:
            self._pipes.unregister(pipe)
        return data


def _watch(process: subprocess.Popen[bytes], reading: int, order: bytes) -> SandboxResult:
    """1. never ready  2. passed  3. failed, with its reason  4. wrote too much  5. took too long  6. ended itself."""
    pipes = _SandboxPipes(process, reading, order)
    early = pipes.wait()
    output, seconds = pipes.output[:OUTPUT], round(time.monotonic() - pipes.began, 3)
    if not pipes.is_ready:  # 1
        why = "no output" if early else output.decode("utf-8", "replace").strip()[-160:]
        return SandboxResult(SandboxOutcome.BROKEN, f"the sandbox did not start: {why}", output, seconds)
    result, _, why = pipes.result.partition(" ")
    if result == "passed":  # 2
        return SandboxResult(SandboxOutcome.PASSED, "", output, seconds)
    if result == "failed":  # 3
        return SandboxResult(SandboxOutcome.FAILED, why, output, seconds)
    if early == "output":  # 4
        return SandboxResult(SandboxOutcome.FAILED, f"wrote more than {OUTPUT} bytes", output, seconds)
    if early == "time":  # 5
        return SandboxResult(SandboxOutcome.FAILED, f"took longer than {WALL:g} s", output, seconds)
    return SandboxResult(
        SandboxOutcome.FAILED, "ended without a result: it reached a limit, or exited", output, seconds
    )  # 6
