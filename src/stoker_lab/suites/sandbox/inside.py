"""What runs in the sandbox: limits first, then a program and its tests. Its text is handed to a Python of its own.

It gets `[code, tests, descriptor, limits]` as JSON on standard input and writes words to that descriptor: `ready`
when the limits stand, then `passed`, or `failed` with the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from types import ModuleType, TracebackType
from typing import Any

NEVER = frozenset(
    (
        "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system", "os.kill", "os.killpg", "subprocess.Popen",
        "ctypes.dlopen", "socket.connect", "socket.bind", "socket.sendto",
    )
)  # fmt: skip
"""What no fixture asks for, by the names of Python's audit events."""
HERE_ONLY = frozenset(
    (
        "os.remove", "os.rmdir", "os.mkdir", "os.rename", "os.chmod", "os.chown", "os.truncate", "os.link",
        "os.symlink", "os.utime", "shutil.rmtree", "shutil.move",
    )
)  # fmt: skip
"""What changes files: in the program's own directory only."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def main() -> None:
    code, tests, descriptor, limits = json.loads(sys.stdin.buffer.read())
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, name), (value, value))
    sys.addaudithook(_watch(os.path.realpath(".")))
    os.write(descriptor, b"ready\n")
    module = ModuleType("answer")
    sys.modules["answer"] = module
    try:
        for name, text in (("answer", code), ("tests", tests)):
            exec(compile(text, name, "exec"), module.__dict__)
    except BaseException as error:
        lines = [line for name, line in _places(error.__traceback__) if name == "tests"]
        where = f" in line {lines[-1]} of the tests" if lines else ""
        result = f"failed {type(error).__name__}{where}: {str(error)[:120]}"
    else:
        result = "passed"
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    os.write(descriptor, result.replace("\n", " ").encode("utf-8", "replace") + b"\n")
    os._exit(0)


def _watch(home: str) -> Any:
    def is_here(path: object) -> bool:
        if isinstance(path, int):  # a descriptor that is open already
            return True
        return os.path.realpath(os.fsdecode(path)).startswith(home + os.sep)  # type: ignore[arg-type]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in NEVER:
            raise PermissionError(f"{event} is not allowed for this program")
        changes = event in HERE_ONLY or (event == "open" and arguments[2] & WRITING)
        if changes and not is_here(arguments[0]):
            raise PermissionError(f"{event} outside of its own directory")

    return hook


def _places(trace: TracebackType | None) -> list[tuple[str, int]]:
    found = []
    while trace is not None:
        found.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return found


if __name__ == "__main__":
    main()
