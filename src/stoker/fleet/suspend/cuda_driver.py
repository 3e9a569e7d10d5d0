"""Suspends and resumes processes by the CUDA driver: `cuCheckpointProcess...`, Linux, driver 570 or newer.

A program of its own: `python -I -S cuda_driver.py suspend|resume|state PID...`. It prints an `Outcome`, as a JSON
array. The functions block for seconds, and a driver that was initialised cannot be given back: neither belongs into
Stoker's own process. It imports nothing of Stoker, so that it starts in milliseconds.

`suspend` locks all processes before it copies the memory of one: the ranks of an engine wait for each other. It leaves
processes alone that do not use CUDA. A process whose checkpoint or restore failed is unusable and has to be ended.

Source of the structures, codes and order: CUDA driver API, "CUDA Checkpointing"; github.com/NVIDIA/cuda-checkpoint.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

LIBRARY = "libcuda.so.1"
LOCK_WITHIN_MS = 10_000
RUNNING, LOCKED, CHECKPOINTED = "running", "locked", "checkpointed"
STATES = (RUNNING, LOCKED, CHECKPOINTED, "failed", "checkpointing", "restoring")
CODES: Mapping[int, str] = {
    1: "INVALID_VALUE", 2: "OUT_OF_MEMORY", 3: "NOT_INITIALIZED", 100: "NO_DEVICE", 201: "INVALID_CONTEXT",
    304: "OPERATING_SYSTEM", 401: "ILLEGAL_STATE", 600: "NOT_READY", 800: "NOT_PERMITTED", 801: "NOT_SUPPORTED",
}  # fmt: skip
USES_NO_CUDA = frozenset((1, 3, 201))
"""What the driver says of a process that has loaded it but does not use it."""


class LockArguments(ctypes.Structure):
    _fields_ = (("timeout_ms", ctypes.c_uint), ("reserved0", ctypes.c_uint), ("reserved1", ctypes.c_uint64 * 7))


class Refused(Exception):
    """The driver is not here, cannot do it, or refused it."""

    def __init__(self, function: str = "", code: int | None = None, pid: int | None = None, text: str = "") -> None:
        super().__init__(text or f"{function}({pid}): {code} {CODES.get(code or 0, 'unknown')}")
        self.function = function
        """Empty: the driver was not asked."""
        self.code = code
        """None: there is no such function, or no driver."""


class Outcome(NamedTuple):
    """What became of a suspend, a resume or a question."""

    states: Mapping[int, str]
    """Of each process that uses CUDA, as it is now."""
    seconds: float = 0.0
    function: str = ""
    """The function that failed; empty: none was reached, or all succeeded."""
    code: int | None = None
    """What it returned."""
    problem: str = ""
    """Empty: it succeeded."""


class CudaDriver:
    """The functions of libcuda. Raises Refused where there is no driver that has them. All methods block."""

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._cuda = ctypes.CDLL(library)
        except OSError as error:
            raise Refused(text=f"no CUDA driver: {error}") from error
        if not hasattr(self._cuda, "cuCheckpointProcessLock"):
            raise Refused("cuCheckpointProcessLock", text="the driver has no cuCheckpointProcessLock")

    def states(self, pids: Sequence[int]) -> dict[int, str]:
        """Of those that use CUDA. Raises Refused for any other reason not to know a process's state."""
        found = {}
        for pid in pids:
            value = ctypes.c_int(-1)
            try:
                self._call("cuCheckpointProcessGetState", pid, ctypes.byref(value))
            except Refused as refused:
                if refused.code not in USES_NO_CUDA:
                    raise
            else:
                found[pid] = STATES[value.value] if 0 <= value.value < len(STATES) else f"state {value.value}"
        return found

    def suspend(self, pids: Sequence[int]) -> float:
        """Seconds. Raises Refused. If a lock failed, all of them run on."""
        began = time.perf_counter()
        locked: list[int] = []
        try:
            for pid in pids:
                self._call("cuCheckpointProcessLock", pid, ctypes.byref(LockArguments(timeout_ms=LOCK_WITHIN_MS)))
                locked.append(pid)
        except Refused:
            for pid in locked:
                self._cuda.cuCheckpointProcessUnlock(ctypes.c_int(pid), None)
            raise
        for pid in pids:
            self._call("cuCheckpointProcessCheckpoint", pid, None)
        return time.perf_counter() - began

    def resume(self, pids: Sequence[int]) -> float:
        """Seconds. Raises Refused."""
        began = time.perf_counter()
        self._cuda.cuInit(0)  # a restore needs persistence mode, or an initialised caller
        for pid in pids:
            self._call("cuCheckpointProcessRestore", pid, None)
        for pid in pids:
            self._call("cuCheckpointProcessUnlock", pid, None)
        return time.perf_counter() - began

    def _call(self, name: str, pid: int, argument: object) -> None:
        code = int(getattr(self._cuda, name)(ctypes.c_int(pid), argument))
        if code:
            raise Refused(name, code, pid)


def users(pids: Sequence[int], proc: Path = Path("/proc")) -> tuple[list[int], list[int]]:
    """Those that have loaded the driver, and those of which that may not be read. NVML's numbers are of the host, and
    of no use in a container.
    """
    loaded, unreadable = [], []
    for pid in pids:
        try:
            maps = (proc / str(pid) / "maps").read_text(errors="replace")
        except PermissionError:
            unreadable.append(pid)
        except OSError:  # it is gone
            continue
        else:
            loaded += [pid] if "libcuda.so" in maps else []
    return loaded, unreadable


def carry_out(verb: str, pids: Sequence[int], library: str = LIBRARY) -> Outcome:
    """`suspend` and `resume` concern those of `pids` that use CUDA."""
    states: dict[int, str] = {}
    seconds = 0.0
    try:
        driver = CudaDriver(library)
        loaded, unreadable = users(pids)
        states = driver.states([*loaded, *unreadable])
        if unreadable and not states:
            raise Refused(code=800, text=f"/proc/{unreadable[0]}/maps may not be read")
        concerned = list(states)
        if verb != "state" and concerned:
            seconds = driver.suspend(concerned) if verb == "suspend" else driver.resume(concerned)
            states = driver.states(concerned)
    except Refused as refused:
        return Outcome(states, seconds, refused.function, refused.code, str(refused))
    return Outcome(states, seconds)


if __name__ == "__main__":
    print(json.dumps(carry_out(sys.argv[1], [int(pid) for pid in sys.argv[2:]])))
