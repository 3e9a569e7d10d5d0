"""`stoker launch`: becomes an agent that works with a model of this Stoker. Changes none of the agent's own files."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import NotRunning, RequestRefused, UsageError
from stoker.domain.errors import ConfigError
from stoker_setup.commands.client import known_stoker

if TYPE_CHECKING:
    from stoker.cli.console.installation import Installation
    from stoker.domain.access import Settings
    from stoker_setup.clients.client_types import Client
    from stoker_setup.clients.facts import ClientFacts
    from stoker_setup.clients.launching import LaunchPlan

_COLUMNS = ("AGENT", "WHAT", "INSTALLED", "TRIED WITH", "TO INSTALL")
UNUSED_AFTER = 30 * 86_400
"""Seconds after which a file that an agent was given is removed."""


def agent_names(incomplete: str) -> list[str]:
    return [name for name in _agents() if name.startswith(incomplete)]


def launch(
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="[AGENT]",
            help="Name of an agent. Default: list all.",
            autocompletion=agent_names,
            show_default=False,
        ),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- WORDS...]", help="Options and words for the agent itself.", show_default=False),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="M",
            help="Model id: any name of a serve, `auto`, `auto:CLASS`, an alias. Default: the first production serve.",
            autocompletion=options.model_names,
            show_default=False,
        ),
    ] = None,
    key_env: Annotated[
        str | None,
        typer.Option(
            "--key-env",
            metavar="VAR",
            help="Environment variable with the key. Default: that of the first key, else STOKER_KEY.",
        ),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Start it although the model's context is too small for it.")
    ] = False,
    config: options.Config = None,
    state: options.State = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Start a coding agent with a model of this Stoker, and Stoker itself if it does not run.

    The settings are those that `stoker client` prints. They are given to this one process: the agent's own files stay
    as they are. `stoker launch codex -- exec "fix the tests"` hands everything behind -- to the agent.
    """
    if agent is None:
        _list(json)
        return
    client = _agent(agent, options.same_place(config, state))
    program = shutil.which(_program(client)[0])
    if program is None and not dry_run:
        raise UsageError(f"{client.title} is not installed (no `{_program(client)[0]}` on PATH): {_install(client)}",
                         code="not_installed")  # fmt: skip
    place = options.same_place(config, state)
    facts, installation, is_running = _facts(client, config, state, model, key_env, anyway, place)
    key = _key(facts, installation.settings, key_env is not None, is_running, place)
    from stoker_setup.clients.launching import plan_launch

    assert installation.settings is not None or facts is not None
    plan = plan_launch(client, facts, key, words or (), installation.state / "launch")
    if dry_run:
        _show(client, facts, plan, json)
        return
    _write(plan)
    _ensure_running(installation)
    terminal.note(f"stoker: {client.title} with {facts.model} at {facts.root}")
    assert program is not None
    _become(program, plan)


def _agents() -> dict[str, Client]:
    from stoker_setup.clients.all_clients import LAUNCHED

    return LAUNCHED


def _agent(name: str, place: str) -> Client:
    """Raises UsageError for a client that is no agent, or cannot be started from a shell."""
    from stoker_setup.clients.all_clients import CLIENTS
    from stoker_setup.clients.facts import suggestion

    agents = _agents()
    if name in agents:
        return agents[name]
    if name in CLIENTS:
        text = f"{CLIENTS[name].title} is not started from here; its settings: stoker client {name}{place}"
        raise UsageError(text, code="not_launched")
    raise UsageError(f"there is no agent '{name}'{suggestion(name, list(agents))}", code="unknown_client")


def _program(client: Client) -> tuple[str, ...]:
    assert client.program is not None
    return client.program.command


def _install(client: Client) -> str:
    assert client.program is not None
    return client.program.install


def _list(json: bool) -> None:
    rows = [(client, shutil.which(_program(client)[0])) for client in _agents().values()]
    if json:
        terminal.emit([{"agent": c.name, "title": c.title, "program": _program(c)[0], "path": path,
                        "tried": c.tried or None, "install": _install(c)} for c, path in rows])  # fmt: skip
        return
    terminal.table(
        _COLUMNS,
        [(c.name, c.title, "yes" if path else "no", c.tried or "-", "-" if path else _install(c)) for c, path in rows],
    )


def _facts(
    client: Client, config: str | None, state: str | None, model: str | None, key_env: str | None, anyway: bool,
    place: str,
) -> tuple[ClientFacts, Installation, bool]:  # fmt: skip
    """What the client is told, and whether that Stoker runs. Raises UsageError and RequestRefused where it could not
    work.
    """
    from stoker.cli.console.installation import find_installation
    from stoker_setup.clients import needs
    from stoker_setup.clients.choosing import choose_model, not_ready
    from stoker_setup.clients.facts import key_of

    installation = find_installation(config, state)
    known, serves_there = known_stoker(installation)
    chosen, front_door = choose_model(known, model), known.settings.front_door
    client_facts = chosen.facts(client, front_door.local_url, key_of(front_door, key_env))
    if (problem := not_ready(chosen, serves_there, place)) is not None:
        raise RequestRefused(problem, code="not_ready")
    shortage = needs.context_shortage(client, client_facts, chosen.trained_context())
    if shortage is not None and not anyway:
        typed = f"stoker launch {client.name}{f' --model {shlex.quote(model)}' if model else ''}{place} --anyway"
        raise RequestRefused(f"{shortage}; to try it all the same: {typed}", code="context_too_small")
    return client_facts, installation, bool(serves_there)


def _key(facts: ClientFacts, settings: Settings | None, is_named: bool, is_running: bool, place: str) -> str:
    """1. the variable  2. none is needed  3. the configured one, if this person may read it and named no other.

    Raises UsageError.
    """
    from stoker_setup.clients.launching import NO_KEY

    value = os.environ.get(facts.key.variable)
    if value:
        return value  # 1
    if not facts.key.is_needed:
        return NO_KEY  # 2
    if settings is not None and settings.front_door.keys and not is_named:
        with suppress(ConfigError):
            return settings.front_door.keys[0].value.reveal()  # 3
    text = f"Stoker asks for a key, and ${facts.key.variable} is not set: export it"
    if is_running:
        text += f", or make a key: stoker keys create NAME{place}"
    raise UsageError(text, code="key_missing")


def _ensure_running(installation: Installation) -> None:
    """A Stoker answers when this returns. Raises RequestRefused if it does not start."""
    from stoker.cli.commands.run_stoker import start_in_background

    try:
        with installation.control() as control:
            control.status()
    except NotRunning:
        if installation.settings is None:
            raise
        start_in_background(installation)


def _write(plan: LaunchPlan) -> None:
    """A file that is there as planned stays untouched: an agent may be reading it. Others are replaced in one step.

    Files of earlier launches go after UNUSED_AFTER. Raises RequestRefused.
    """
    for path, text in plan.files.items():
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _has(path, text):
                with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:  # mode 0600
                    file.write(text)
                os.replace(file.name, path)
            os.utime(path)
            _remove_unused(path.parent)
        except OSError as error:
            said = f"cannot write {path}: {error.strerror or error}"
            raise RequestRefused(f"{said}; the agent reads its settings there", code="not_written") from error


def _has(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def _remove_unused(folder: Path) -> None:
    oldest = time.time() - UNUSED_AFTER
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another launch removes it
            if path.is_file() and path.stat().st_mtime < oldest:
                path.unlink()


def _become(program: str, plan: LaunchPlan) -> None:
    """This process becomes the agent, which so has the terminal, the signals and the exit code."""
    environment = {name: value for name, value in os.environ.items() if name not in plan.unset} | dict(plan.variables)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a child inherits that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, list(plan.command), environment)
    except OSError as error:
        raise RequestRefused(f"cannot start {program}: {error.strerror or error}", code="start_failed") from error


def _show(client: Client, facts: ClientFacts, plan: LaunchPlan, json: bool) -> None:
    """What would run, without the key."""
    shown = {name: f"${facts.key.variable}" if _is_key(name, client, facts) else value
             for name, value in plan.variables.items()}  # fmt: skip
    if json:
        terminal.emit(_document(client, facts, plan, shown))
        return
    for path, text in plan.files.items():
        terminal.say(f"# file {path}\n{text}\n")
    for name in plan.unset:
        terminal.say(f"unset {name}")
    for name, value in shown.items():
        terminal.say(f"{name}={shlex.quote(value) if not value.startswith('$') else value}")
    terminal.say(shlex.join(plan.command))


def _is_key(name: str, client: Client, facts: ClientFacts) -> bool:
    from stoker_setup.clients.client_types import KEY_VALUE

    assert client.program is not None
    return name == facts.key.variable or (name, KEY_VALUE) in client.program.variables


def _document(client: Client, facts: ClientFacts, plan: LaunchPlan, shown: Mapping[str, str]) -> dict[str, Any]:
    return {
        "agent": client.name,
        "model": facts.model,
        "small_model": facts.helper.name if facts.helper is not None else None,
        "root": facts.root,
        "command": list(plan.command),
        "variables": dict(shown),
        "unset": list(plan.unset),
        "files": {str(path): text for path, text in plan.files.items()},
    }
