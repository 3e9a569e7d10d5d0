"""Options that many commands share, and completion of serve names."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from stoker.cli.console.errors import UsageError

Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        "--manifest",
        "-c",
        metavar="FILE",
        help="Configuration file. Default: $STOKER_CONFIG, ./stoker.toml, ~/.config/stoker/stoker.toml, then "
        "/etc/stoker/stoker.toml.",
        show_default=False,
    ),
]
State = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="State directory of the running Stoker, instead of the configuration's.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would run, and change nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Also load a serve whose status is rejected or blocked.")]
DrainTimeout = Annotated[
    str | None,
    typer.Option(
        "--drain-timeout",
        metavar="TIME",
        help='How long running requests may take to end before their serve stops ("30s"; "0s" cuts them at once).',
        show_default=False,
    ),
]


OVERWRITES = "Overwrite an existing file; what it held is kept in FILE.bak."


def kept_text(path: Path, kept: Path) -> str:
    """What is said where `OVERWRITES` was done."""
    return f"what {path.absolute()} held is kept: {kept.absolute()}"


def same_place(config: str | None, state: str | None) -> str:
    """The options, behind a command that is proposed, that lead to the same Stoker as those that were given."""
    return f" --state {shlex.quote(state)}" if state else f" --config {shlex.quote(config)}" if config else ""


def serve_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of configured serves that begin with `incomplete`. Reads names only: a key press must not wait."""
    tables = _listed(_document(context).get("serve"))
    return _matching([t.get("name") for t in tables if not t.get("abstract")], incomplete)


def serves_and_repositories(context: typer.Context, incomplete: str) -> list[str]:
    """Names of serves, and `hf:ORG/REPO` of what the hub's own client has downloaded here."""
    if not "hf:".startswith(incomplete[:3]) or not incomplete:
        return [*serve_names(context, incomplete), *(["hf:"] if not incomplete else [])]
    home = os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "huggingface")
    try:
        folders = sorted(os.listdir(os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")))
    except OSError:
        folders = []
    kept = [
        "hf:" + name.removeprefix("models--").replace("--", "/", 1) for name in folders if name.startswith("models--")
    ]
    return [*serve_names(context, incomplete), *_matching(kept or ["hf:"], incomplete)]


def model_names(context: typer.Context, incomplete: str) -> list[str]:
    """What a client may write as `model`: serves and their other names, aliases, and `auto` where there are tiers.

    Aliases of tasks are left out where there is no tier to choose from.
    """
    document = _document(context)
    has_tiers = bool(_listed(document.get("tier")))
    more = [
        name for serve in _listed(document.get("serve")) if not serve.get("abstract") for name in _other_names(serve)
    ]
    aliases = [name for name, target in _tables(document, "alias").items() if has_tiers or not _is_task(target)]
    names = [*more, *(["auto"] if has_tiers else []), *aliases]
    return list(dict.fromkeys([*serve_names(context, incomplete), *_matching(names, incomplete)]))


def _other_names(serve: dict[str, Any]) -> list[object]:
    """A serve's aliases, and the names of its variants."""
    aliases = serve.get("aliases")
    variants = [one.get("name") for one in _listed(serve.get("variant"))]
    return [*(aliases if isinstance(aliases, list) else ()), *variants]


def alias_names(context: typer.Context, incomplete: str) -> list[str]:
    """Aliases that may be moved to another serve: those of `[alias]` that are no task's."""
    aliases = _tables(_document(context), "alias")
    return _matching([name for name, target in aliases.items() if not _is_task(target)], incomplete)


def slot_names(context: typer.Context, incomplete: str) -> list[str]:
    """Configured slots, and those of boxes that serves name."""
    document = _document(context)
    places = [place for one in _listed(document.get("serve")) for place in (one.get("slot"), *(one.get("slots") or ()))]
    of_boxes = [place for place in places if isinstance(place, str) and ":" in place]
    return _matching([*_tables(document, "slots"), *of_boxes], incomplete)


def cluster_names(context: typer.Context, incomplete: str) -> list[str]:
    """Configured clusters."""
    return _matching(_tables(_document(context), "clusters"), incomplete)


def _is_task(definition: object) -> bool:
    """`"auto:CLASS"`, or a table with that as its `serve`."""
    from stoker.domain.routing import is_reserved

    target = definition.get("serve") if isinstance(definition, dict) else definition
    return isinstance(target, str) and is_reserved(target)


def tier_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of configured tiers, in their order."""
    return _matching([t.get("name") for t in _listed(_document(context).get("tier"))], incomplete)


def orchestrator_names(context: typer.Context, incomplete: str) -> list[str]:
    """Configured orchestrators; without a configuration that of the demo."""
    found = (_document(context) or {"orchestrator": {"pair": {}}}).get("orchestrator")
    return _matching(found if isinstance(found, dict) else (), incomplete)


def edge_names(context: typer.Context, incomplete: str) -> list[str]:
    """Configured edges."""
    return _matching(_tables(_document(context), "edge"), incomplete)


def app_names(context: typer.Context, incomplete: str) -> list[str]:
    """Configured applications."""
    return _matching(_tables(_document(context), "app"), incomplete)


def key_names(context: typer.Context, incomplete: str) -> list[str]:
    """Keys of the configuration, and those made at run time."""
    door, paths = _document(context).get("front_door"), _document(context).get("paths")
    own = [row.get("name") for row in _listed(door.get("keys"))] if isinstance(door, dict) else []
    configured = paths.get("state") if isinstance(paths, dict) else None
    file = _state(context, context.params.get("state") or configured) / "access.db"
    try:
        from stoker.access.access_file import read_key_names

        made = read_key_names(file)
    except Exception:  # a key press shows nothing rather than an error
        made = []
    return _matching([*own, *made], incomplete)


def orchestrated_requests(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of the requests that have a scratchpad, the newest first."""
    paths = _document(context).get("paths")
    configured = paths.get("state") if isinstance(paths, dict) else None
    given = context.params.get("state") or configured
    try:
        found = list((_state(context, given) / "orchestrator").glob("*.md"))
        found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []
    return _matching([path.stem for path in found], incomplete)


def _state(context: typer.Context, given: object) -> Path:
    """The state directory; a relative one is beside the configuration."""
    from stoker.config.paths import default_state

    if isinstance(given, str):
        file = context.params.get("config") or os.environ.get("STOKER_CONFIG") or "stoker.toml"
        is_option = given == context.params.get("state")
        return Path(given).expanduser() if is_option else Path(file).expanduser().parent / Path(given).expanduser()
    return default_state() if _document(context) else default_state() / "demo"


def compared_names(context: typer.Context, incomplete: str) -> list[str]:
    """Serves, tiers, and aliases of serves."""
    every = (*serve_names(context, incomplete), *tier_names(context, incomplete), *alias_names(context, incomplete))
    return list(dict.fromkeys(every))


def class_names(context: typer.Context, incomplete: str) -> list[str]:
    """Classes of tasks: the built-in ones, then the configuration's own."""
    from stoker.domain.task import CLASSES

    router = _document(context).get("router")
    own = router.get("class") if isinstance(router, dict) else None
    return _matching([*CLASSES, *(own if isinstance(own, dict) else ())], incomplete)


def class_lists(context: typer.Context, incomplete: str) -> list[str]:
    """Class names for the last item of a comma-separated list; earlier items stay."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in class_names(context, last)]


def profile_files(incomplete: str) -> list[str]:
    """Files of JSON, and the directories where one may lie."""
    return _paths(incomplete, lambda entry: entry.is_dir() or entry.suffix == ".json")


def model_files(incomplete: str) -> list[str]:
    """GGUF files, and the directories where one may lie, or that are a model."""
    return _paths(incomplete, lambda entry: entry.is_dir() or entry.suffix == ".gguf")


def directories(incomplete: str) -> list[str]:
    return _paths(incomplete, Path.is_dir)


def project_files(context: typer.Context, incomplete: str) -> list[str]:
    """Files and directories; relative ones are in the directory of `--project`, as `stoker run` reads them."""
    project = context.params.get("project")
    return _paths(incomplete, Path.exists, Path(project).expanduser() if isinstance(project, str) else Path())


def _paths(incomplete: str, fits: Callable[[Path], bool], base: Path = Path()) -> list[str]:
    """What a path may go on as; directories with their `/`. Hidden ones only if their dot is typed."""
    typed = base / Path(incomplete).expanduser()
    where = typed if incomplete.endswith("/") or not incomplete else typed.parent
    head = incomplete[: len(incomplete) - len("" if where == typed else typed.name)]
    try:
        entries = sorted(where.iterdir())
    except OSError:
        return []
    found = [f"{head}{entry.name}{'/' * entry.is_dir()}" for entry in entries if fits(entry)]
    hides = incomplete == head
    return [name for name in found if name.startswith(incomplete) and not (hides and name[len(head)] == ".")]


def _document(context: typer.Context) -> dict[str, Any]:
    """The configuration as written, else that of the Stoker that runs. Empty if it cannot be read, since completion
    must not print anything (`config check` reports the problem).
    """
    import tomllib

    from stoker.config.paths import config_places, default_state
    from stoker.store.state_dir import StateDir

    given = context.params.get("config") or os.environ.get("STOKER_CONFIG")
    running = StateDir(default_state()).running_configuration
    places = [Path(given).expanduser()] if given else [*config_places(), *([Path(running)] if running else ())]
    for place in places:
        try:
            return tomllib.loads(place.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
    return {}


def _tables(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The entries of a table; empty if it is none."""
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _listed(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _matching(names: Iterable[object], incomplete: str) -> list[str]:
    found = [name for name in names if isinstance(name, str) and name.startswith(incomplete)]
    return list(dict.fromkeys(found))


ServeName = Annotated[str, typer.Argument(metavar="SERVE", help="Name of a serve.", autocompletion=serve_names)]
MaybeServe = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]", help="Name of a serve. Default: all.", autocompletion=serve_names, show_default=False
    ),
]
OneServe = Annotated[
    str | None,
    typer.Argument(
        metavar="[SERVE]",
        help="A serve, by any of its names. Default: the only one to choose from.",
        autocompletion=serve_names,
        show_default=False,
    ),
]
Tier = Annotated[
    str | None,
    typer.Option(
        "--tier",
        metavar="NAME",
        help="A tier, or a serve: the same as SERVE.",
        autocompletion=compared_names,
        show_default=False,
    ),
]
BaseUrl = Annotated[str | None, typer.Option("--base-url", metavar="URL", help="Ask this server instead.")]
ModelThere = Annotated[str | None, typer.Option("--model", metavar="ID", help="The model id at --base-url.")]
KeyVariable = Annotated[
    str | None, typer.Option("--key-env", metavar="VARIABLE", help="The environment variable with the key.")
]


def measured_name(serve: str | None, tier: str | None) -> str | None:
    """What SERVE and `--tier` name. Raises UsageError if they differ."""
    if serve is not None and tier not in (None, serve):
        raise UsageError(f"give either {serve} or --tier {tier}, not both")
    return serve if tier is None else tier


def accept_config(app: typer.Typer) -> None:
    """Lets a group of commands take `--config` before the command, too: `stoker serves --config FILE status`. One after
    the command counts more.
    """

    @app.callback(context_settings={"default_map": {}})
    def group(context: typer.Context, config: Config = None) -> None:
        defaults: dict[str, Any] = context.default_map  # type: ignore[assignment]
        defaults.clear()
        if config is not None:
            defaults.update({name: {"config": config} for name in getattr(context.command, "commands", ())})


def duration(text: str | None, option: str) -> float | None:
    """Seconds of an option's value. Raises UsageError that shows what is accepted."""
    if text is None:
        return None
    from stoker.domain.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from error
