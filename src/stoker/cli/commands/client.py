"""`stoker client`: the exact settings with which a client reaches this Stoker. Prints; writes no file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import NotRunning, UsageError

if TYPE_CHECKING:
    from stoker.domain.access import Settings
    from stoker.domain.serve import Serve

_COLUMNS = ("CLIENT", "WHAT", "PROVIDER", "DIALECT", "TRIED WITH")


def client_names(incomplete: str) -> list[str]:
    from stoker.cli.clients.all_clients import CLIENTS

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
    json: options.Json = False,
) -> None:
    """Print the exact settings for a client: address, model, tokens, key variable. Prints no secret and writes no file.

    The recommended context leaves a quarter of the serve's context for the reply (at most 32768 tokens).
    """
    from stoker.cli.clients import facts, needs, render
    from stoker.cli.clients.all_clients import CLIENTS

    if name is None:
        _list(json)
        return
    if name not in CLIENTS:
        raise UsageError(f"there is no client '{name}'{facts.suggestion(name, list(CLIENTS))}", code="unknown_client")
    given = None if base_url is None else facts.read_root(base_url)
    settings = _settings(config)
    serve, asked, is_task = _model(settings, model)
    root = given or facts.root_of(settings.front_door)
    wanted = CLIENTS[name]
    helper = None if is_task else facts.helper_serve(settings, serve, wanted.helper_name)
    key = facts.key_of(settings.front_door, key_env)
    client_facts = facts.ClientFacts(root, serve, asked, key, helper, is_task, settings.responses.store)
    notes = [
        *facts.address_warnings(settings.front_door, root),
        needs.context_shortage(wanted, client_facts, None if is_task else _trained(serve)),
        needs.effort_note(client_facts) if wanted.own_prompt is not None else None,
    ]
    if json:
        terminal.emit(render.document(wanted, client_facts) | {"cautions": [note for note in notes if note]})
        return
    terminal.say(render.text(wanted, client_facts))
    for note in notes:
        if note:
            terminal.note(f"stoker: {note}")


def _model(settings: Settings, wanted: str | None) -> tuple[Serve, str, bool]:
    """A serve, the id to ask for, and whether that asks for a choice. Raises UsageError."""
    from stoker.cli.clients import facts

    router = settings.router
    if router is not None and wanted is not None and (found := facts.common_serve(router, settings.serves, wanted)):
        return found, wanted, True
    tasks = router.listed if router is not None else ()
    return *facts.choose_serve(facts.with_all_aliases(settings), wanted, settings.source or "the demo", tasks), False


def _trained(serve: Serve) -> int | None:
    """Tokens that its model was trained for, from the header of its weights; None: unknown."""
    if not serve.model.endswith(".gguf"):
        return None
    from stoker.domain.errors import UnreadableModel
    from stoker.fleet.memory.fit import gguf

    try:
        return gguf.read(serve.model).context
    except (UnreadableModel, OSError):
        return None


def _list(json: bool) -> None:
    from stoker.cli.clients.all_clients import CLIENTS

    if json:
        terminal.emit([{"client": c.name, "title": c.title, "provider": c.provider, "dialect": c.dialect,
                        "tried": c.tried or None} for c in CLIENTS.values()])  # fmt: skip
        return
    terminal.table(_COLUMNS, [(c.name, c.title, c.provider, c.dialect, c.tried or "-") for c in CLIENTS.values()])


def _settings(config: str | None) -> Settings:
    """The configuration's, else those of a demo that runs. Raises what `find_installation` does, and NotRunning.

    What a running Stoker says of its port and of keys counts: `--port` is not in the file, nor are keys made meanwhile.
    """
    from stoker.cli.console.installation import find_installation

    installation = find_installation(config)
    settings = installation.settings
    try:
        with installation.control() as control:
            door = control.status().frontdoor
    except NotRunning:
        if settings is None:
            raise
        return settings
    if settings is None:
        from stoker.config.demo import demo

        settings = demo(installation.state, door.port)
    front_door = replace(settings.front_door, port=door.port, auth=door.auth == "keys")
    return replace(settings, front_door=front_door)
