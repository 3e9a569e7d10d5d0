"""The scripted model server as a program: `python -m stoker_lab.testing.scripted --port N --id NAME [options]`.

Tests that need it in their own loop import `Script` and `ScriptedServer` from here.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import fields
from typing import NoReturn

from stoker_lab.testing.script.script import Script, flag_name, is_switch, meaning
from stoker_lab.testing.server import ScriptedServer

__all__ = ["Script", "ScriptedServer", "main"]


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT. Exit codes: 0 stopped, 1 could not listen, 2 usage, or what the script says."""
    given = sys.argv[1:] if arguments is None else arguments
    options, script = read_arguments(given)
    if script.wrapper:
        return _wrap([one for one in given if one != "--wrapper"])
    if script.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # from now on, not only once the loop runs
    if script.exit_code is not None and script.crash_after is None:
        _say_last(script)
        return script.exit_code
    loop_factory = None
    if options.uvloop:
        import uvloop

        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(_serve(script, options.host, options.port))


async def _serve(script: Script, host: str, port: int) -> int:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    server = ScriptedServer(script, host=host, port=port)

    def on_sigterm() -> None:
        if not server.script.ignore_sigterm:  # POST /control may have changed it
            told.set()

    loop.add_signal_handler(signal.SIGTERM, on_sigterm)
    loop.add_signal_handler(signal.SIGINT, told.set)
    if script.crash_after is not None:
        loop.call_later(script.crash_after, _crash, script)
    if not await _is_told_within(told, script.listen_after):
        try:
            await server.start()
        except OSError as error:
            print(f"cannot listen on {host}:{port}: {error}; give another --port", file=sys.stderr)
            return 1
        print(f"scripted model {script.id!r} listens on {server.url}", flush=True)
        await told.wait()
    await asyncio.sleep(server.script.stop_after)
    await server.close()
    return 0


async def _is_told_within(told: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await told.wait()
    except TimeoutError:
        return False
    return True


def _crash(script: Script) -> NoReturn:
    _say_last(script)
    os._exit(1 if script.exit_code is None else script.exit_code)


def _say_last(script: Script) -> None:
    if script.last_words:
        print(script.last_words, file=sys.stderr, flush=True)


def _wrap(arguments: list[str]) -> int:
    """Acts like a launch script: starts the server as a child, waits, and passes on only its exit code."""
    with subprocess.Popen([sys.executable, "-m", "stoker_lab.testing.scripted", *arguments]) as child:
        try:
            code = child.wait()
        except KeyboardInterrupt:  # the terminal sent the signal to the child, too
            code = child.wait()
    return code if code >= 0 else 128 - code


def read_arguments(arguments: list[str]) -> tuple[argparse.Namespace, Script]:
    parser = argparse.ArgumentParser(
        prog="python -m stoker_lab.testing.scripted", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: a free one, printed on stdout")
    parser.add_argument("--uvloop", action="store_true", help="run on uvloop")
    for one in fields(Script):
        action = argparse.BooleanOptionalAction if is_switch(one.name) else "store"
        text = meaning(one).replace("%", "%%")
        parser.add_argument(flag_name(one.name), dest=one.name, action=action, default=None, help=text)
    options = parser.parse_args(arguments)
    changes = {one.name: value for one in fields(Script) if (value := getattr(options, one.name)) is not None}
    try:
        return options, Script().amended(changes)
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
