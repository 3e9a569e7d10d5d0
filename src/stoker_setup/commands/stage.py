"""`stoker stage`: a model comes into the vault while others are served; what is there; take one out."""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import RequestRefused, UsageError
from stoker.domain.nearest import did_you_mean

if TYPE_CHECKING:
    from stoker.domain.serve import Serve
    from stoker_setup.prefetch import Order, Prefetcher, PrefetchPlan


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the vault and the state directory are, and which serves are configured."""

    vault: Path
    state: Path
    serves: tuple[Serve, ...]
    config: str


def staged_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names in the vault that begin with `incomplete`."""
    from stoker.domain.errors import StokerError
    from stoker_setup import vault

    try:
        ground = find_ground(context.params.get("config"))
    except StokerError:
        return []  # completion must not print anything; `config check` reports the problem
    return [model.name for model in vault.models(ground.vault) if model.name.startswith(incomplete)]


def stage(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[SOURCE]",
            help="A serve, whose `source` it is; or a path, https://HOST/PATH, rsync:HOST:PATH, s3://BUCKET/KEY or "
            "hf:ORG/REPO[/FILE]; of a split GGUF the first part.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Its name in the vault. Default: as at its source."),
    ] = None,
    sha256: Annotated[
        list[str] | None,
        typer.Option(
            "--sha256", metavar="[FILE=]HEX", help="The expected digest of the model, or of its FILE (repeatable)."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Continue an earlier attempt, or start again.")
    ] = True,
    quota: Annotated[
        str | None,
        typer.Option(
            "--quota", metavar="SIZE", help='Most that the whole vault may hold: "200GiB".', show_default=False
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the models in the vault, and the serves that use them.")
    ] = False,
    remove: Annotated[
        str | None,
        typer.Option(
            "--remove",
            metavar="NAME",
            help="Remove a model from the vault. Refused while a serve uses it.",
            autocompletion=staged_names,
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With --remove: also if a serve uses it.")] = False,
    dry_run: options.DryRun = False,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Fetch a model into the vault while requests go on. Also lists and removes models of the vault."""
    import asyncio

    from stoker_setup.commands import stage_output

    if sum((source is not None, list_, remove is not None)) != 1:
        raise UsageError("give one of SOURCE, --list and --remove NAME")
    if force and remove is None:
        raise UsageError("--force goes with --remove NAME only")
    ground = find_ground(config)
    if list_:
        stage_output.show_list(ground.vault, ground.state, ground.serves, json)
        return
    if remove is not None:
        _remove(ground, remove.removeprefix("vault:"), force, dry_run, json)
        return
    order = _order(*_named(ground, str(source), name, sha256 or []))
    prefetcher = _prefetcher(ground, quota)
    if dry_run:
        plan = asyncio.run(prefetcher.plan(order))
        stage_output.show_plan(ground.vault, order, plan, json)
        _require(plan)
        return
    _stage(ground, prefetcher, order, resume, json, options.same_place(config, None))


def find_ground(config: str | None) -> Ground:
    """By the configuration; without any file the places that one has by default. Raises ConfigError."""
    from stoker.config.find import find
    from stoker.config.load import load
    from stoker.config.paths import default_state, default_vault
    from stoker.domain.errors import ConfigError

    try:
        path = find(config)
    except ConfigError:
        if config is not None or os.environ.get("STOKER_CONFIG"):
            raise
        return Ground(default_vault(), default_state(), (), "stoker.toml")
    settings = load(path, needs_secrets=False)
    return Ground(Path(settings.paths.vault), Path(settings.paths.state), settings.serves, str(path))


def _named(ground: Ground, text: str, name: str | None, digests: list[str]) -> tuple[str, str | None, list[str]]:
    """Of a serve its source, the name under which it looks for its model, and its digests, as far as the command does
    not say them; of anything else what is given.
    """
    if not _is_path(text) or os.sep in text or os.path.exists(text):
        return text, name, digests
    serve = next((one for one in ground.serves if one.name == text), None)
    if serve is None:
        if hint := did_you_mean(text, [one.name for one in ground.serves]):
            raise UsageError(f"there is no file {text!r} here, and there is no serve {text!r}{hint}", code="bad_source")
        return text, name, digests
    if not serve.model:
        raise UsageError(f"serve '{text}' has no `model`, so there is nothing to stage for it", code="bad_source")
    where = os.path.relpath(serve.model, ground.vault)
    if not os.path.isabs(serve.model) or where.startswith(os.pardir):
        at = f"has its model at {serve.model}, outside the vault {ground.vault}"
        raise UsageError(f"serve '{text}' {at}: write `model = \"vault:NAME\"`", code="bad_source")
    if serve.source is None:
        advice = f"add it, or type stoker stage SOURCE --as {where}"
        raise UsageError(f"serve '{text}' has no `source`: {advice}", code="bad_source")
    own = [f"{file}={digest}" for file, digest in serve.sha256.items()]
    return serve.source, name or where, digests or own


def _is_path(text: str) -> bool:
    return not text.startswith(("http://", "https://", "rsync:", "s3://", "hf:"))


def _order(text: str, name: str | None, digests: list[str]) -> Order:
    from stoker.fleet.weights.sources import SourceKind, of_folder, parse
    from stoker_setup.prefetch import order
    from stoker_setup.vault import listing

    try:
        found = parse(os.path.abspath(os.path.expanduser(text)) if _is_path(text) else text)
        files: list[str] = []
        if found.kind is SourceKind.PATH:
            if not os.path.exists(found.path):
                hub = f"; of the hub: `stoker stage hf:{text}`" if re.fullmatch(r"[\w.-]+/[\w.-]+", text) else ""
                raise ValueError(f"there is no {found.path}{hub}")
            if os.path.isdir(found.path):
                found, files = of_folder(found), listing(Path(found.path))
        return order(found, name.removeprefix("vault:") if name is not None else None, digests, files)
    except ValueError as error:
        raise UsageError(str(error), code="bad_source") from error


def _prefetcher(ground: Ground, quota: str | None) -> Prefetcher:
    from stoker.domain.units import parse_size
    from stoker.store.state_dir import StateDir
    from stoker_setup.prefetch import Prefetcher

    try:
        limit = parse_size(quota) if quota is not None else None
    except ValueError as error:
        raise UsageError(f"--quota {quota}: {error}") from error
    StateDir(ground.state).prepare()  # the digests are remembered there
    return Prefetcher(ground.vault, ground.state, limit)


def _require(plan: PrefetchPlan) -> None:
    from stoker_setup.prefetch import PrefetchAnswer

    if plan.decision.answer is PrefetchAnswer.REFUSE:
        raise RequestRefused(plan.decision.why, code=plan.decision.code)


def _stage(ground: Ground, prefetcher: Prefetcher, order: Order, resume: bool, json: bool, place: str) -> None:
    import asyncio

    from stoker.cli.console.errors import INTERRUPTED
    from stoker_setup import download_progress
    from stoker_setup.commands import stage_output
    from stoker_setup.prefetch import lower_priority
    from stoker_setup.vault import StagingArea

    lower_priority()
    try:
        with download_progress.display(quiet=json) as view:
            result = asyncio.run(prefetcher.prefetch(order, view.show, resume))
    except KeyboardInterrupt:
        kept = figures.size(StagingArea(ground.vault, order.name).size)
        terminal.note(f"stopped; {kept} are kept. To continue: {_again()}")
        raise typer.Exit(INTERRUPTED) from None
    stage_output.show_staged(order, result, ground.serves, json, place)


def _again() -> str:
    words = [word for word in sys.argv[1:] if word != "--no-resume"]
    if any("?" in word for word in words):  # what follows may be a signature
        return "type the same command again"
    return shlex.join(["stoker", *words])


def _remove(ground: Ground, name: str, force: bool, dry_run: bool, json: bool) -> None:
    from stoker_setup import vault
    from stoker_setup.vault import StagingArea, staging_areas

    model = vault.find(ground.vault, name) or vault.find(ground.vault, f"{name}.gguf")
    name = model.name if model is not None else name
    begun = next((box for box in staging_areas(ground.vault) if box.name == name), None)
    if model is None and begun is None:
        known = ", ".join(each.name for each in vault.models(ground.vault)) or "nothing"
        raise UsageError(f"there is no vault:{name}; {ground.vault} contains: {known}", code="unknown_model")
    users = vault.users(model, ground.serves) if model is not None else []
    if users and not force:
        raise RequestRefused(
            f"vault:{name} is used by {', '.join(users)}: remove it from {ground.config} first, or add --force "
            "(a running engine keeps its model, but its next start fails)",
            code="in_use",
        )
    size = (model.size if model is not None else 0) + StagingArea(ground.vault, name).size
    if not dry_run:
        if model is not None:
            vault.remove(ground.vault, model)
        elif begun is not None:
            with begun.claimed():
                begun.discard()
    if json:
        terminal.emit({"model": f"vault:{name}", "bytes": size, "removed": not dry_run, "used_by": users})
    else:
        terminal.say(f"vault:{name} {'would be' if dry_run else 'is'} removed, {figures.size(size)}")
