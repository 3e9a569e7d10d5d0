"""`stoker client`: the exact settings with which a client reaches this Stoker. Prints; writes no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import NotRunning, UsageError

if TYPE_CHECKING:
    from stoker.cli.console.installation import Installation
    from stoker_setup.clients.choosing import KnownStoker

_COLUMNS = ("CLIENT", "WHAT", "PROVIDER", "DIALECT", "TRIED WITH")


def client_names(incomplete: str) -> list[str]:
    from stoker_setup.clients.all_clients import CLIENTS

    return [name for name in CLIENTS if name.startswith(incomplete)]


def client(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of a client. Default: list all.",
            autocompletion=client_names,
            show_default=False,
        ),
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
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="Public address, with or without /v1. Default: the address of the front door.",
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
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Print the exact settings for a client: address, model, tokens, key variable. Prints no secret and writes no file.

    The recommended context leaves a quarter of the serve's context for the reply (at most 32768 tokens).
    """
    from stoker_setup.clients import facts, needs, render
    from stoker_setup.clients.all_clients import CLIENTS
    from stoker_setup.clients.choosing import choose_model, not_ready

    if name is None:
        _list(json)
        return
    if name not in CLIENTS:
        raise UsageError(f"there is no client '{name}'{facts.suggestion(name, list(CLIENTS))}", code="unknown_client")
    given = None if base_url is None else facts.read_root(base_url)
    from stoker.cli.console.installation import find_installation

    known, serves_there = known_stoker(find_installation(config, state))
    front_door = known.settings.front_door
    root = given or front_door.local_url
    wanted, chosen = CLIENTS[name], choose_model(known, model)
    client_facts = chosen.facts(wanted, root, facts.key_of(front_door, key_env))
    notes = [
        *facts.address_warnings(front_door, root),
        needs.context_shortage(wanted, client_facts, chosen.trained_context()),
        needs.effort_note(client_facts) if wanted.own_prompt is not None else None,
        not_ready(chosen, serves_there, options.same_place(config, state)),
    ]
    if json:
        terminal.emit(render.document(wanted, client_facts) | {"cautions": [note for note in notes if note]})
        return
    terminal.say(render.text(wanted, client_facts))
    for note in notes:
        if note:
            terminal.note(f"stoker: {note}")


def _list(json: bool) -> None:
    from stoker_setup.clients.all_clients import CLIENTS

    if json:
        terminal.emit([{"client": c.name, "title": c.title, "provider": c.provider, "dialect": c.dialect,
                        "tried": c.tried or None} for c in CLIENTS.values()])  # fmt: skip
        return
    terminal.table(_COLUMNS, [(c.name, c.title, c.provider, c.dialect, c.tried or "-") for c in CLIENTS.values()])


def known_stoker(installation: Installation) -> tuple[KnownStoker, Mapping[str, str]]:
    """The configuration with what a running Stoker says of its port and of keys (`--port` is not in the file, nor are
    keys made meanwhile), else what it says of its models; and its serves, with why each cannot load. Of those there are
    none if none runs.

    Raises NotRunning.
    """
    from stoker_setup.clients.choosing import KnownStoker
    from stoker_setup.clients.running import settings_of

    settings = installation.settings
    tasks: tuple[str, ...] = ()
    try:
        with installation.control() as control:
            status = control.status()
            if settings is None:
                settings, tasks = settings_of(status, control.document("/v1/models").get("data", []))
    except NotRunning:
        if settings is None:
            raise
        return KnownStoker(settings), {}
    door = status.frontdoor
    front_door = replace(settings.front_door, port=door.port, auth=door.auth == "keys")
    known = KnownStoker(replace(settings, front_door=front_door), tasks)
    return known, {one.replica_of or one.name: one.cannot_load or "" for one in status.serves}
