"""Starts a command by way of a small program that sets what can only be set from inside.

On Linux the command ends with Stoker, however Stoker ends: the kernel kills it, also after `kill -9`. What it has
started itself lives on, unless it is the first process of a PID namespace. Other systems have nothing like it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

NOT_FOUND = 127
"""The exit status if there is no such program."""
_PYTHON = os.path.realpath(sys.executable)
_STARTER = """
import json, os, resource, signal, sys
limits, parent = json.loads(sys.argv[1])
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    try:
        with open("/proc/self/environ", "rb") as given:
            if not any(one.startswith(b"LC_CTYPE=") for one in given.read().split(b"\\0")):
                os.environ.pop("LC_CTYPE", None)
    except OSError:
        pass
for name in ("SIGPIPE", "SIGXFSZ"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
for name, value in limits.items():
    hard = resource.getrlimit(getattr(resource, name))[1]
    value = value if hard < 0 else min(value, hard)
    resource.setrlimit(getattr(resource, name), (value, value))
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    os.write(2, f"{sys.argv[2]}: {error.strerror}\\n".encode())
    os._exit(127)
"""
"""PR_SET_PDEATHSIG is 1, SIGKILL 9. A parent that ended before that is another process now. Python ignores two signals,
and sets LC_CTYPE where no locale was given: the command is to get neither.
"""


def started(command: Sequence[str], limits: Mapping[str, int] = {}) -> list[str]:
    """The command line. Run it from this thread: on Linux the command is killed when the thread that started it ends.
    `limits`: by their names in the module `resource`, such as `RLIMIT_CPU`; none is raised.
    """
    return [_PYTHON, "-I", "-S", "-c", _STARTER, json.dumps([dict(limits), os.getpid()]), *command]
