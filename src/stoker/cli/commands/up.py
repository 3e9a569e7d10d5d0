"""`stoker up`: the front door and its fleet, in the foreground."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.commands import demo_screen, read_again
from stoker.cli.console import options, terminal
from stoker.cli.console.errors import RequestRefused, UsageError, unknown_serve
from stoker.cli.console.installation import config_warnings, demo_state, is_answering, socket_of
from stoker.cli.console.unmeasured import unmeasured_warnings
from stoker.cli.console.weights_warnings import weights_warnings
from stoker.domain.figures import counted
from stoker.domain.host_port import host_port
from stoker.extensions import is_usable, offered

if TYPE_CHECKING:
    from stoker.domain.access import Settings

DEMO_PORT = 8000
SETUP = "setup"
"""The extension that examines this machine."""
MAX_NAMES = 8
"""How many models a start names."""


def up(
    config: options.Config = None,
    demo_: Annotated[
        bool, typer.Option("--demo", help="Run two tiny models without a configuration, to try Stoker out.")
    ] = False,
    leave_running: Annotated[
        bool, typer.Option("--leave-running", help="On Ctrl-C or SIGTERM, leave the models running for the next `up`.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Load the models that were resident when Stoker last ran.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace the Stoker that runs, without refusing a request: an upgrade."),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65535, help="Listen here instead of the configured port.", show_default=False
        ),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="DIR",
            help="Keep the state here instead of in the configured directory.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        list[str] | None,
        typer.Option(
            "--force", metavar="NAME", help="Allow this rejected or blocked serve (repeatable).", show_default=False
        ),
    ] = None,
) -> None:
    """Run the front door and its models in the foreground. Ctrl-C stops both."""
    from stoker.config.find import find

    if demo_ and config is not None:
        raise UsageError("--demo has its own configuration: leave out --config or --demo")
    if demo_ and leave_running:
        raise UsageError("--leave-running does not work with --demo: leave it out, or use a configuration")
    where = None if state is None else os.path.abspath(os.path.expanduser(state))
    given = read_again.ReadOptions(config, port, where)
    if demo_:
        settings = _demo_settings(given)
    else:
        terminal.note(f"reading {os.path.abspath(find(config))}")
        settings = read_again.read_file(given)
    forced = frozenset(force or ())
    for name in sorted(forced):
        if name not in {serve.name for serve in settings.serves}:
            raise unknown_serve(name, [s.name for s in settings.serves], settings.source or "the demo")
    warn(settings)
    own = [*(("--demo",) if demo_ else ()), *(("--config", config) if config else ())]
    command = shlex.join(["stoker", "up", *own])
    if "LISTEN_FDS" not in os.environ and not (replace and is_answering(Path(settings.paths.state))):
        require_none(settings, command, demo_, shlex.join(["--state", where]) if where else "")
        require_port(settings, command)
    terminal.note(f"starting with {counted(len(settings.serves), 'serve')}; Ctrl-C ends it")
    from stoker.app.run import run

    place = options.same_place(config, state)

    def self_check() -> dict[str, Any]:
        findings: dict[str, Any] = offered("self-check")(given, settings if demo_ else None)
        return findings

    code = run(
        settings,
        leave_running=leave_running,
        resume=resume,
        replace=replace,
        announce=terminal.say,
        read=None if demo_ else partial(read_again.read_again, given),
        self_check=self_check if is_usable(SETUP) else None,
        force=forced,
        welcome=lambda needs_key: demo_screen.screen(settings, needs_key) if demo_ else next_steps(settings, place),
    )
    raise typer.Exit(code)


def next_steps(settings: Settings, place: str = "") -> str:
    """What to type into a client, and how to see its other settings. `place`: the options that lead to this Stoker."""
    names = [serve.name for serve in settings.serves]
    shown = ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")
    url = demo_screen.base_url(settings)
    page = f"web page: {demo_screen.page_url(settings)}"
    if not names:
        return f"models: none\n{page}"
    return f"models: {shown}\nclients: base URL {url}; all settings: stoker client NAME{place}\n{page}"


def warn(settings: Settings) -> None:
    """Print what is allowed but probably not meant."""
    for warning in config_warnings(settings) + weights_warnings(settings) + unmeasured_warnings(settings):
        terminal.note(f"warning: {warning}")


def require_none(settings: Settings, command: str, is_demo: bool = False, state_option: str = "") -> None:
    """Raises RequestRefused if one runs on this state directory: where it answers, and how to run another one.
    `command`: what to type, without `state_option`.
    """
    state = Path(settings.paths.state)
    if not is_answering(state):
        return
    from stoker.cli.console.control import Control
    from stoker.cli.machine import ports

    with Control(socket_of(state)) as control:
        running = control.status()
    port, taken = settings.front_door.port, running.frontdoor.port
    port = port if port != taken else ports.another_port(settings.front_door.host, taken)
    which, code = ("a demo", "demo_runs") if is_demo else ("Stoker", "stoker_runs")
    replacing = " ".join(filter(None, (command, state_option, "--replace")))
    raise RequestRefused(
        f"{which} runs already: process {running.pid}, {running.frontdoor.base_url}; use it, replace it: "
        f"`{replacing}`, end it with `kill {running.pid}`, or run another one beside it: "
        f"{command} --port {port} --state DIR",
        code=code,
    )


def require_port(settings: Settings, command: str, rest: Sequence[str] = ()) -> None:
    """Raises RequestRefused, naming who holds the front door's port and what to do, unless it is free. `command`: how
    it was started, with `rest` behind all options.
    """
    from stoker.cli.machine import ports

    host, port = settings.front_door.host, settings.front_door.port
    try:
        if ports.is_free(host, port):
            return
    except OSError as error:
        raise RequestRefused(
            f"cannot listen on {host_port(host, port)}: {error.strerror or error}; change [front_door] host, or use "
            "--port",
            code="cannot_listen",
        ) from error
    raise RequestRefused(
        f"port {port} on {host} is in use by {ports.holder(port)}; "
        f"stop it, or listen elsewhere: {command} --port {ports.another_port(host, port)} {shlex.join(rest)}".rstrip(),
        code="port_in_use",
    )


def _demo_settings(given: read_again.ReadOptions) -> Settings:
    from stoker.config.demo import demo

    return demo(demo_state() if given.state is None else Path(given.state), given.port or DEMO_PORT)
