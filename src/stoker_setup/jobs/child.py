"""The beginning of a process that runs a command for the web page: `stoker`, but it ends with the Stoker that began it.

`python -c "..." PID WORDS...`; PID is that Stoker's.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Runs the words as a command line, and exits with its code."""
    parent = int(sys.argv.pop(1))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a Stoker that ignores it hands that down
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0)
        if os.getppid() != parent:  # it has ended meanwhile
            sys.exit(1)
    from stoker.cli.entry import main as stoker

    stoker()
