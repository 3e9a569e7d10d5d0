"""The entry point of a process. It imports little by itself.

`stoker up` reads its command line and its configuration in a process of its own, which ends then. What only that needs
(typer, which brings pydantic, and the rules of the file) would be 12 MB in memory, as long as Stoker runs. The
process that serves imports its own modules meanwhile.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import TYPE_CHECKING

from stoker.domain.errors import StokerError

if TYPE_CHECKING:
    from stoker.cli.commands.up_start import Start

_INTERRUPTED = 130


def main() -> None:
    """Runs the command line of this process and exits with its code."""
    if sys.getfilesystemencoding() != "utf-8":
        _begin_again_in_utf8()
    arguments = sys.argv[1:]
    if arguments[:1] == ["up"]:
        sys.exit(_up(arguments))
    from stoker.cli.main import run

    sys.exit(run(arguments))


def _begin_again_in_utf8() -> None:
    """Replaces this process. Configurations are UTF-8, and Python cannot name files by them in another encoding."""
    os.environ["PYTHONUTF8"] = "1"  # for all processes that this one starts
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _up(arguments: list[str]) -> int:
    """The exit code. In the forked process, that of the command line."""
    reading, writing = os.pipe()
    reader = os.fork()  # this process has no threads yet
    if reader == 0:
        os.close(reading)
        return _read(arguments, writing)
    os.close(writing)
    try:
        import stoker.app.run  # noqa: F401  # meanwhile

        with open(reading, "rb") as pipe:
            written = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
    except KeyboardInterrupt:  # the reader got it, too, and says so
        return _INTERRUPTED
    if not written:
        return code if code >= 0 else 128 - code
    start: Start = pickle.loads(written)
    try:
        return start.run()
    except StokerError as error:
        from stoker.cli.command_line import report

        return report(error)
    except BrokenPipeError:  # nobody reads what is announced
        return 1


def _read(arguments: list[str], writing: int) -> int:
    """Do all of `up` but the serving: what is to be served goes to `writing`. Other commands are not even imported."""
    import typer.main

    from stoker.cli import command_line
    from stoker.cli.commands.up import up

    def hand_over(start: Start) -> int:
        with open(writing, "wb") as pipe:
            pickle.dump(start, pipe)
        return 0

    app = command_line.without_commands()
    app.command()(up)
    return command_line.run(typer.main.get_command(app), arguments, hand_over)
