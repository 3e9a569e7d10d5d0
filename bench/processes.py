"""Children that are ended by pid whatever happens, and what a process tree has cost so far. Linux."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

_LIBC = ctypes.CDLL(None)
_SET_PARENT_DEATH_SIGNAL = 1


class Identity(NamedTuple):
    """A process, told apart from a later one with the same number."""

    pid: int
    started: int


class Child:
    """A process of ours, in a session of its own so that Ctrl-C reaches only the bench, which then ends it."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.process = process
        self.pid = process.pid
        self._log = log

    @classmethod
    def start(
        cls,
        name: str,
        argv: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        cpus: frozenset[int] | None = None,
        folder: Path | None = None,
    ) -> Child:
        """Start it in `folder` (None: ours), on these CPUs only, output to `log`. If the bench dies it gets SIGTERM."""

        def settle() -> None:
            _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
            if cpus is not None:
                os.sched_setaffinity(0, cpus)

        with log.open("ab") as output:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(os.environ if env is None else env),
                cwd=folder,
                start_new_session=True,
                preexec_fn=settle,
            )
        return cls(name, process, log)

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def last_words(self, lines: int = 8) -> str:
        """The end of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def freeze(self) -> None:
        """Nothing of it runs until `thaw`: what is measured meanwhile has the machine to itself."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in tree(self.pid) if self.is_alive() else ():
            with contextlib.suppress(ProcessLookupError):  # gone since we looked
                os.kill(pid, number)

    def end(self, grace: float = 15.0) -> list[int]:
        """SIGTERM, `grace` seconds, SIGKILL. Returns the pids it had left behind, which are ended too."""
        kin = [identity for pid in descendants(self.pid) if (identity := identify(pid)) is not None]
        if self.is_alive():
            self.process.terminate()
            self.thaw()  # a frozen process would not see it
        try:
            self.process.wait(grace)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        left = [one for one in kin if identify(one.pid) == one]
        for one in left:
            with contextlib.suppress(ProcessLookupError):  # gone since we looked: what we wanted
                os.kill(one.pid, signal.SIGKILL)
        until = time.monotonic() + 5
        while any(identify(one.pid) == one for one in left) and time.monotonic() < until:
            time.sleep(0.002)  # not our children: their end cannot be waited for
        return [one.pid for one in left]


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the command's name, from the state on; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2 :].split()


def identify(pid: int) -> Identity | None:
    """None if there is no such process or it is a zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in "ZX" else Identity(pid, int(fields[19]))


def descendants(root: int) -> list[int]:
    """Every live process below `root`, without it."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        fields = _stat(int(entry)) if entry.isdigit() else None
        if fields is not None:
            parents.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    ahead = list(parents.get(root, ()))
    while ahead:
        pid = ahead.pop()
        found.append(pid)
        ahead.extend(parents.get(pid, ()))
    return found


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system time of these processes, all threads, dead ones too; a process that is gone counts 0.

    The kernel's CPU clock of a process (clock_getcpuclockid) has nanoseconds where /proc/PID/stat has ticks of 10 ms.
    """
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):  # the process is gone
            total += time.clock_gettime((~pid << 3) | 2)
    return total


def resident_bytes(pids: Sequence[int]) -> int:
    """Resident memory, summed; pages that processes share count once for each."""
    total = 0
    for pid in pids:
        fields = _stat(pid)
        if fields is not None:
            total += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return total


def tree(root: int) -> list[int]:
    return [root, *descendants(root)]


def split_cpus() -> tuple[frozenset[int], frozenset[int]] | None:
    """One CPU for what is measured, the others for what measures; None where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        return None
    return frozenset(usable[:1]), frozenset(usable[1:2])


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def raise_file_limit() -> int:
    """As many open files as we are allowed; children inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def end_on_sigterm() -> None:
    """SIGTERM unwinds the bench like Ctrl-C does, so that its children are ended."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
