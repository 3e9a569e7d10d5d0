"""The entry point of a process. It imports little by itself."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Runs the command line of this process and exits with its code."""
    if sys.getfilesystemencoding() != "utf-8":
        _begin_again_in_utf8()
    from stoker.cli.main import run

    sys.exit(run(sys.argv[1:]))


def _begin_again_in_utf8() -> None:
    """Replaces this process. Configurations are UTF-8, and Python cannot name files by them in another encoding."""
    os.environ["PYTHONUTF8"] = "1"  # for all processes that this one starts
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
