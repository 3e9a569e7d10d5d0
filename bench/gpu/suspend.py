"""CUDA state of a process to main memory and back, by the driver: `cuCheckpointProcess...`, Linux, driver 570 or newer.

Structures and codes: CUDA driver API, "CUDA Checkpointing". `suspend` locks all processes before it copies one: ranks
wait for each other. A process whose checkpoint or restore failed is unusable: end it.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from pathlib import Path

LOCK_WITHIN_MS = 10_000
STATES = ("running", "locked", "checkpointed", "failed", "checkpointing", "restoring")
CODES = {
    1: "INVALID_VALUE", 3: "NOT_INITIALIZED", 100: "NO_DEVICE", 201: "INVALID_CONTEXT", 304: "OPERATING_SYSTEM",
    401: "ILLEGAL_STATE", 600: "NOT_READY", 800: "NOT_PERMITTED", 801: "NOT_SUPPORTED",
}  # fmt: skip


class LockArguments(ctypes.Structure):
    _fields_ = (("timeout_ms", ctypes.c_uint), ("reserved0", ctypes.c_uint), ("reserved1", ctypes.c_uint64 * 7))


class Refused(RuntimeError):
    """The driver is not here, cannot do it, or refused it: which function, for which process, with which code."""


def users(pids: Sequence[int], proc: Path = Path("/proc")) -> list[int]:
    """Those that have loaded the driver. NVML's numbers are of the host, and of no use in a container."""
    return [pid for pid in pids if "libcuda.so" in _maps(proc / str(pid) / "maps")]


def _maps(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it is gone
        return ""


class Driver:
    """The functions of libcuda. Raises Refused where there is no driver that has them."""

    def __init__(self, library: str = "libcuda.so.1") -> None:
        try:
            self._cuda = ctypes.CDLL(library)
        except OSError as error:
            raise Refused(f"no CUDA driver: {error}") from error
        if not hasattr(self._cuda, "cuCheckpointProcessLock"):
            raise Refused("this driver cannot suspend processes: 570 or newer can")

    def state(self, pid: int) -> str:
        value = ctypes.c_int(-1)
        self._call("cuCheckpointProcessGetState", pid, ctypes.byref(value))
        return STATES[value.value]

    def suspend(self, pids: Sequence[int]) -> float:
        """Seconds. Raises Refused; if a lock failed, all of them run on."""
        began = time.perf_counter()
        locked: list[int] = []
        try:
            for pid in pids:
                self._call("cuCheckpointProcessLock", pid, ctypes.byref(LockArguments(timeout_ms=LOCK_WITHIN_MS)))
                locked.append(pid)
        except Refused:
            for pid in locked:
                self._call("cuCheckpointProcessUnlock", pid, None)
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
        code = getattr(self._cuda, name)(ctypes.c_int(pid), argument)
        if code:
            raise Refused(f"{name}({pid}): {code} {CODES.get(code, 'unknown')}")
