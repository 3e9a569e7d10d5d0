"""Makes a Python on Linux look like one on macOS to what runs in it: no /proc, no /sys, and none of the calls that
Linux alone has.

`scripts/as-macos` has it imported at the start of each Python that tests start, engines included. It is no macOS:
paths, signals and the C library are those of Linux, and other programs (Docker, nginx, browsers) see all of it. psutil
knows the real system, as it knows macOS there.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import resource
import select
import selectors
import signal
import socket
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

HIDDEN = ("/proc", "/sys", "/run/systemd")
LACKING: dict[ModuleType, tuple[str, ...]] = {
    os: (
        "pidfd_open", "eventfd", "eventfd_read", "eventfd_write", "memfd_create", "posix_fadvise", "posix_fallocate",
        "fdatasync", "pipe2", "splice", "copy_file_range", "getrandom", "unshare", "setns", "O_TMPFILE",
        "O_DIRECT", "O_PATH", "O_NOATIME", "getxattr", "setxattr", "listxattr", "removexattr", "sched_setscheduler",
        "sched_getscheduler", "sched_setparam", "sched_getparam", "sched_param", "sched_setaffinity",
        "sched_getaffinity", "SCHED_IDLE", "SCHED_BATCH", "POSIX_FADV_DONTNEED", "POSIX_FADV_WILLNEED",
    ),
    select: ("epoll",),
    signal: ("pidfd_send_signal", "sigtimedwait", "sigwaitinfo", "SIGRTMIN", "SIGRTMAX", "SIGPWR", "SIGSTKFLT"),
    socket: (
        "TCP_KEEPIDLE", "TCP_USER_TIMEOUT", "TCP_QUICKACK", "TCP_DEFER_ACCEPT", "TCP_CORK", "SO_PEERCRED", "SO_DOMAIN",
        "SO_PROTOCOL", "SO_BINDTODEVICE", "SOCK_CLOEXEC", "SOCK_NONBLOCK",
    ),
    resource: ("prlimit", "RLIMIT_NICE", "RLIMIT_RTPRIO", "RLIMIT_SIGPENDING"),
}  # fmt: skip
"""What Python has on Linux, and not on macOS (os.waitid came there with Python 3.13: it is left)."""
C_LACKING = frozenset(
    ("prctl", "mallopt", "mallinfo2", "malloc_trim", "memfd_create", "gettid", "epoll_create1", "signalfd", "eventfd")
)
"""Functions of glibc. `syscall` is there, with other numbers."""
AS_LINUX = frozenset(("psutil", "urllib.request", "playwright", "pip", "uvloop", "multiprocessing.util"))
"""Packages that load other modules by the system, and would not find those of macOS here."""


class AsLinux:
    """Finds a package of AS_LINUX as always, and has it loaded while `sys.platform` is that of Linux."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> Any:
        if name.startswith("_sysconfigdata_"):  # of the Python that runs
            return importlib.util.find_spec(name.replace("_darwin_", "_linux_")) if "_darwin_" in name else None
        if name.partition(".")[0] not in AS_LINUX and name not in AS_LINUX:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, None)) is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        before, sys.platform = sys.platform, "linux"
        try:
            self._loader.exec_module(module)
        finally:
            sys.platform = before
        if module.__name__ == "psutil":
            module.PROCFS_PATH = "//proc"  # type: ignore[attr-defined]  # the same folder, under a name that is not hidden


def is_hidden(path: object) -> bool:
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    elif isinstance(path, os.PathLike):
        path = os.fspath(path)
    return isinstance(path, str) and (path in HIDDEN or path.startswith(tuple(f"{one}/" for one in HIDDEN)))


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and is_hidden(arguments[0]):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])


def _hide(name: str) -> None:
    real = getattr(os, name)

    def call(path: Any, *arguments: Any, **named: Any) -> Any:
        if is_hidden(path):
            if name == "access":
                return False
            raise FileNotFoundError(2, "No such file or directory", path)
        return real(path, *arguments, **named)

    setattr(os, name, call)


def _lacks(library: ctypes.CDLL, name: str) -> Any:
    if vars(library)["_name"] is None and name in C_LACKING:
        raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
    return _real_getattr(library, name)


_real_getattr = ctypes.CDLL.__getattr__


def install() -> None:
    sys.platform = "darwin"
    idle = socket.TCP_KEEPIDLE
    for module, names in LACKING.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    socket.TCP_KEEPALIVE = idle  # type: ignore[attr-defined]
    selectors.DefaultSelector = selectors.PollSelector  # type: ignore[misc]
    ctypes.CDLL.__getattr__ = _lacks  # type: ignore[method-assign]
    for name in ("stat", "lstat", "readlink", "access"):
        _hide(name)
    sys.meta_path.insert(0, AsLinux())  # type: ignore[arg-type]
    sys.addaudithook(_refuse)


install()
