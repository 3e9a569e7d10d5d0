"""`stoker add MODEL`: from a name to a model that answers. The configuration changes once the model is here, whole."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import FAILED, INTERRUPTED, NotRunning, RequestRefused, UsageError
from stoker.domain.errors import ConfigError, StokerError
from stoker.extensions import offered

if TYPE_CHECKING:
    from stoker.domain.access import Settings
    from stoker.domain.serve import Slot
    from stoker.fleet.memory.devices import Device
    from stoker.fleet.memory.fit.estimate import Shape
    from stoker_setup.adding import FileRequest, HubRequest, ModelRequest, ProgramRequest, ServeLines, WebRequest
    from stoker_setup.config_edit import ConfigEdit
    from stoker_setup.config_file import ConfigFile
    from stoker_setup.hub import Hub
    from stoker_setup.hub_models import Choice
    from stoker_setup.prefetch import Order, Prefetched, Prefetcher


@dataclass(frozen=True, slots=True)
class _Destination:
    """Where the model goes: the configuration, the slot, and how the slot runs a model."""

    file: ConfigFile
    settings: Settings
    slot: Slot
    devices: list[Device]
    state: str | None
    """The state directory of the Stoker that is meant; None: the configuration's."""
    place: str
    """The options that lead to it; `file_place`: for a command that takes `--config` alone."""
    file_place: str
    judge: Callable[[Shape, str, int], Choice]
    """Of a shape, a file's path, and how many requests at once."""

    def parallel(self, shape: Shape, one: Choice) -> int:
        """As many requests at once as `init` plans, if that costs no context."""
        from stoker.cli.machine.serve_plan import PARALLEL

        several = self.judge(shape, one.file, PARALLEL)
        return PARALLEL if (several.verdict, several.context) == (one.verdict, one.context) else 1


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The model that is added. `order`: what has to be fetched; None: it is at `path` already."""

    title: str
    choice: Choice
    path: Path
    name: str = ""
    """For its serve; empty: made from the file's name."""
    source: str = ""
    order: Order | None = None
    prefetcher: Prefetcher | None = None
    listed: list[dict[str, object]] = field(default_factory=list)
    """Of a repository: all that it offers, as JSON."""
    parallel: int = 1


def model_words(context: typer.Context, incomplete: str) -> list[str]:
    """How a model can be named: repositories that were downloaded once, and model files."""
    found = [word for word in options.serves_and_repositories(context, incomplete) if word.startswith("hf:")]
    return found if incomplete.startswith("hf:") else [*found, *options.model_files(incomplete)]


def add(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="hf:ORG/REPO, hf:ORG/REPO:QUANT, hf:ORG/REPO:FILE, a page or file of the hub, https://HOST/FILE.gguf, "
            "a path, or a model of Ollama or LM Studio (ollama:NAME, lmstudio:NAME).",
            autocompletion=model_words,
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the serve. Default: from the file's name.")
    ] = None,
    slot: Annotated[
        str | None,
        typer.Option(
            "--slot",
            metavar="SLOT",
            help="Slot that it runs in. Default: the one with the fewest serves.",
            autocompletion=options.slot_names,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; take what is proposed.")] = False,
    preflight: Annotated[
        bool, typer.Option("--preflight/--no-preflight", help="Load it at the end, and check that it answers.")
    ] = True,
    config: options.Config = None,
    state: options.State = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be fetched and written, and change nothing.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Fetch a model, add it to stoker.toml, reload, and check that it answers.

    Lists what a repository of the hub has, with a verdict for this machine, and proposes one. The file gets one block
    at its end; everything else in it stays. `stoker remove NAME` undoes it.
    """
    from stoker_setup import adding
    from stoker_setup.commands.reload_after import reload_after
    from stoker_setup.hub import Hub

    try:
        request = adding.parse_model(model, Hub.of(os.environ).endpoint)
    except ValueError as error:
        raise UsageError(str(error), code="bad_model") from error
    destination = _destination(config, state, slot)
    chosen = _find(request, destination, yes, dry_run, json)
    there = next((one.name for one in destination.settings.serves if one.model == str(chosen.path)), None)
    if there is not None:
        _already(there, chosen, destination, json)
        return
    lines = _lines(chosen, destination, name)
    edit = _edit(destination, lines)  # before gigabytes are fetched for it
    if not json:
        _say_plan(chosen, destination, lines)
    if dry_run:
        _show_plan(chosen, destination, lines, edit, json)
        return
    if not yes and not typer.confirm("Add it?", default=True):
        raise typer.Exit(FAILED)
    destination.file.require_writable(edit)  # before the download, too
    fetched = _fetch(chosen, destination, json)
    lines = _lines(_measured(chosen, destination), destination, lines.name, fetched)
    edit = _edit(destination, lines)
    destination.file.write(edit)
    is_running, checked = False, None
    try:
        is_running = reload_after(destination.file, edit, destination.state)
        if not json:
            terminal.say(f"{lines.name} is in {destination.file.path}" + (", and Stoker has reloaded it" * is_running))
        checked = _check(destination, lines.name, json) if preflight else None
    except KeyboardInterrupt:  # what was added is said nevertheless
        checked = {"outcome": "interrupted", "seconds": None, "checks": [], "error": None}
        terminal.note(f"stoker: stopped; {lines.name} is in {destination.file.path}, and was not checked")
    following = _use(lines.name, lines.context, destination.place)
    if json:
        terminal.emit(_document(chosen, destination, lines, edit) | {
            "dry_run": False, "fetched": fetched is not None and fetched.fetched, "reloaded": is_running,
            "preflight": checked, "next": following,
        })  # fmt: skip
    else:
        terminal.say(f"next: {following}")
    if checked is not None and checked["outcome"] != "passed":
        raise typer.Exit(INTERRUPTED if checked["outcome"] == "interrupted" else FAILED)


# -- where it goes -----------------------------------------------------------------------------------------------------


def _destination(config: str | None, state: str | None, slot: str | None) -> _Destination:
    """Of `state` alone the file is the one with which the Stoker there runs.

    Raises ConfigError for a file with problems, and UsageError for a slot that it has not.
    """
    from stoker.cli.machine.discover import gpus
    from stoker.cli.machine.serve_plan import MachineInventory
    from stoker.config.find import find
    from stoker.config.load import load_text
    from stoker.config.paths import default_vault
    from stoker.domain.nearest import did_you_mean
    from stoker.fleet.memory.devices import chosen
    from stoker.fleet.memory.host import host_memory
    from stoker.store.state_dir import StateDir
    from stoker_setup import adding, bandwidth
    from stoker_setup.commands import fit, init_config
    from stoker_setup.config_file import ConfigFile
    from stoker_setup.hub_models import judged

    given = config
    if state is not None:
        state = str(Path(state).expanduser().absolute())
        config = config or StateDir(Path(state)).running_configuration or None
    named = config or os.environ.get("STOKER_CONFIG")
    try:
        existing = find(config)
    except ConfigError:
        path = Path(named).expanduser() if named else Path("stoker.toml")
        if path.exists() or not path.absolute().parent.is_dir():
            raise
        file = ConfigFile(path, init_config.head_text(MachineInventory(gpus(), (), (), default_vault()), 8000))
    else:
        file = ConfigFile(existing)
    settings = load_text(file.text, file.path, needs_secrets=False)
    if given is not None and state == settings.paths.state:
        state = None  # the file leads there
    probe = fit.machine()
    every = list(probe.devices())
    if slot is None:
        place = adding.choose_slot(settings, bool(every))
        if place is None:
            raise UsageError(f"{file.path} has no slot for a model of this machine: add [slots.NAME] to it")
    else:
        names = [one.name for one in settings.slots if one.cluster is None]
        if slot not in names:
            hint = did_you_mean(slot, names) or f": it has {', '.join(names) or 'none'}"
            raise UsageError(f"there is no slot '{slot}' of this machine in {file.path}{hint}", code="unknown_slot")
        place = next(one for one in settings.slots if one.name == slot)
    devices = chosen(every, place.devices)
    held = fit.held_by_models(fit.running_status(str(file.path), state))
    main, read_with = host_memory(credit=held), bandwidth.main_memory()

    def judge(shape: Shape, path: str, parallel: int) -> Choice:
        return judged(shape, path, devices, main, None, parallel, None, read_with, place)

    place_words, file_words = options.same_place(given, state), options.same_place(config, None)
    return _Destination(file, settings, place, devices, state, place_words, file_words, judge)


def _edit(destination: _Destination, lines: ServeLines) -> ConfigEdit:
    """Checked by the reader of the configuration. Raises ConfigError and EditRefused."""
    from stoker_setup import adding
    from stoker_setup.config_edit import ConfigEdit, append_block

    edit = append_block(destination.file.text, adding.block(lines))
    if destination.file.is_new:
        edit = ConfigEdit("", edit.after)
    destination.file.check(edit)
    return edit


# -- which model -------------------------------------------------------------------------------------------------------


def _find(request: ModelRequest, destination: _Destination, yes: bool, dry_run: bool, json: bool) -> _Chosen:
    from stoker_setup.adding import FileRequest, HubRequest, WebRequest

    asks = not (yes or dry_run)
    if asks and (json or not sys.stdin.isatty()):
        raise UsageError("there is nobody to ask here: add --yes to take what is proposed, or --dry-run to see it",
                         code="needs_yes")  # fmt: skip
    if isinstance(request, HubRequest):
        return _of_hub(request, destination, asks, dry_run, json)
    if isinstance(request, WebRequest):
        return _of_web(request, destination)
    return _of_file(request, destination) if isinstance(request, FileRequest) else _of_program(request, destination)


def _of_hub(request: HubRequest, destination: _Destination, asks: bool, dry_run: bool, json: bool) -> _Chosen:
    """Raises HubRefused, UsageError for what it has not, RequestRefused where nothing fits."""
    from stoker_setup.adding import select
    from stoker_setup.commands.fit_repository import read_choices, show_choices
    from stoker_setup.hub import Hub
    from stoker_setup.hub_download import hub_order
    from stoker_setup.hub_models import Verdict, best

    hub = Hub.of(os.environ)
    is_path = request.wanted.endswith((".gguf", "/")) and "/" in request.wanted
    under = request.wanted if is_path and request.wanted != "./" else ""
    parallel: dict[str, int] = {}

    def judge(shape: Shape, path: str) -> Choice:
        choice = destination.judge(shape, path, 1)
        parallel[path] = destination.parallel(shape, choice)
        return choice

    repository, every = read_choices(hub, request.repository, request.revision, under, judge)
    found = select(every, request.wanted)
    if not every and not under:
        text = f"{request.repository} has no model that an engine here could run: neither GGUF nor safetensors files"
        raise UsageError(text, code="no_model")
    if not found:
        text = f"{request.repository} has no model {request.wanted}; what it has: "
        text += f"stoker add hf:{request.repository} --dry-run{destination.place}"
        raise UsageError(text, code="no_model")
    if not json:
        show_choices(found, destination.devices, 1, is_numbered=asks and len(found) > 1)
    proposed = best(found)
    if proposed is None:
        if json and dry_run:
            terminal.emit({"chosen": None, "models": _listed(request, hub, found), "dry_run": True})
        why = "; ".join(dict.fromkeys(one.problem for one in found if one.problem)) or "it does not fit"
        advice = "; take a smaller model" if any(one.verdict is Verdict.TOO_LARGE for one in found) else ""
        raise RequestRefused(f"nothing of {request.repository} can run here: {why}{advice}", code="does_not_fit")
    choice = _ask(found, proposed) if asks and len(found) > 1 else proposed
    prefetcher = _prefetcher(destination, hub.headers())
    try:
        order = hub_order(hub, repository, choice.file)
        if _is_another(prefetcher, order, Path(order.path_of(destination.settings.paths.vault))):
            inside = repository.name if order.is_folder else f"{repository.name}/{order.name}"
            order = hub_order(hub, repository, choice.file, inside)
    except ValueError as error:
        raise UsageError(str(error), code="bad_model") from error
    path = Path(order.path_of(destination.settings.paths.vault))
    named = order.name if choice.file != "./" else repository.name
    source = str(order.source) if request.revision == "main" else ""
    return _Chosen(str(order.source), choice, path, named, source, order, prefetcher,
                   _listed(request, hub, found), parallel[choice.file])  # fmt: skip


def _listed(request: HubRequest, hub: Hub, found: Sequence[Choice]) -> list[dict[str, object]]:
    """As JSON, each with `add`: what names it and no other."""
    from urllib.parse import quote

    from stoker_setup.commands.fit_repository import choice_document

    def words(choice: Choice) -> str:
        if request.revision == "main":
            return f"hf:{request.repository}:{choice.file}"
        return f"{hub.endpoint}/{request.repository}/blob/{quote(request.revision, safe='')}/{quote(choice.file)}"

    return [choice_document(one) | {"add": words(one)} for one in found]


def _ask(found: Sequence[Choice], proposed: Choice) -> Choice:
    """The number of one that runs here; asked again until it is."""
    while True:
        number: int = typer.prompt("Which one? (its number)", default=found.index(proposed) + 1, type=int)
        if 1 <= number <= len(found) and found[number - 1].context is not None:
            return found[number - 1]
        terminal.note(f"give the number, from 1 to {len(found)}, of a model that fits")


def _of_web(request: WebRequest, destination: _Destination) -> _Chosen:
    from stoker.fleet.weights.sources import parse
    from stoker_setup.hub_models import Choice, Verdict
    from stoker_setup.prefetch import order

    try:
        wanted = order(parse(request.url), None, ())
    except ValueError as error:
        raise UsageError(str(error), code="bad_model") from error
    if not wanted.name.endswith(".gguf"):
        raise UsageError(f"{wanted.source} is no GGUF file: name one, or hf:ORG/REPO", code="no_model")
    prefetcher = _prefetcher(destination, {})
    choice = Choice(wanted.name, 0, "", Verdict.UNKNOWN)
    source = "" if wanted.source.query else str(wanted.source)
    path = Path(wanted.path_of(destination.settings.paths.vault))
    return _Chosen(str(wanted.source), choice, path, wanted.name, source, wanted, prefetcher)


def _of_file(request: FileRequest, destination: _Destination) -> _Chosen:
    from stoker_setup.hub_models import Choice, Verdict

    unjudged = Choice(str(request.path), 0, "", Verdict.UNKNOWN)
    return _measured(_Chosen(str(request.path), unjudged, request.path, request.path.name), destination)


def _of_program(request: ProgramRequest, destination: _Destination) -> _Chosen:
    """Raises UsageError with the models that are there, or with the repository of the hub that may be meant."""
    from stoker.domain.nearest import did_you_mean
    from stoker_setup.adding import spellings
    from stoker_setup.hub_models import Choice, Verdict

    find = offered("local-models")
    local = find(os.environ, Path.home()) if find is not None else None
    models = [one for one in (local.models if local is not None else ()) if one.origin.startswith(request.program)]
    name = request.name.lower()
    found = [one for one in models if name in spellings(one)]
    if len(found) > 1:
        listed = ", ".join(str(one.path) for one in found)
        raise UsageError(f"{request.name} may be several models; name one by its path: {listed}", code="several")
    if found:
        unjudged = Choice(str(found[0].path), 0, "", Verdict.UNKNOWN)
        title = f"{found[0].path.name if not found[0].name else found[0].name}, from {found[0].origin}"
        return _measured(_Chosen(title, unjudged, found[0].path, found[0].name or found[0].path.name), destination)
    for one in local.left_out if local is not None else ():
        if request.name in one.title:
            raise UsageError(f"{one.title} of {one.origin} cannot be added: {one.reason}", code="no_model")
    where = request.program or "another program here"
    text = f"there is no file {request.name}, and no model of {where} is called so"
    hint = did_you_mean(request.name, sorted({each for one in models for each in spellings(one)}))
    if not hint and request.name.count("/") == 1:
        hint = f"; of the hub: stoker add hf:{request.name}{destination.place}"
    raise UsageError(text + hint, code="no_model")


def _measured(chosen: _Chosen, destination: _Destination) -> _Chosen:
    """With the verdict of its own header, now that it is here. Raises UnreadableModel, RequestRefused."""
    from stoker.fleet.memory.fit import check
    from stoker_setup.hub_models import Verdict

    shape = check.read(str(chosen.path))
    choice = destination.judge(shape, chosen.choice.file, 1)
    if choice.verdict is Verdict.TOO_LARGE:
        text = f"{chosen.title} does not fit into slot {destination.slot.name}: {choice.problem}"
        if chosen.order is not None:
            text += (
                f"; it is in the vault; to remove it: stoker stage --remove {chosen.order.name}{destination.file_place}"
            )
        raise RequestRefused(text, code="does_not_fit")
    return replace(chosen, choice=choice, parallel=destination.parallel(shape, choice))


# -- fetching ----------------------------------------------------------------------------------------------------------


def _prefetcher(destination: _Destination, headers: dict[str, str]) -> Prefetcher:
    from stoker_setup.prefetch import Prefetcher

    return Prefetcher(Path(destination.settings.paths.vault), _state_of(destination), headers=headers)


def _state_of(destination: _Destination) -> Path:
    return Path(destination.state or destination.settings.paths.state)


def _is_another(prefetcher: Prefetcher, order: Order, path: Path) -> bool:
    """Whether the vault has another model of this name."""
    import asyncio

    return path.exists() and asyncio.run(prefetcher.plan(order)).decision.code == "name_taken"


def _fetch(chosen: _Chosen, destination: _Destination, json: bool) -> Prefetched | None:
    """What was fetched, or is in the vault already; None: nothing had to be. What came so far is kept, and said."""
    import asyncio

    from stoker.store.state_dir import StateDir
    from stoker_setup import download_progress
    from stoker_setup.vault import StagingArea

    if chosen.order is None or chosen.prefetcher is None:
        return None
    StateDir(_state_of(destination)).prepare()
    area = StagingArea(Path(destination.settings.paths.vault), chosen.order.name)
    try:
        with download_progress.display(quiet=json) as view:
            return asyncio.run(chosen.prefetcher.prefetch(chosen.order, view.show))
    except KeyboardInterrupt:
        _say_kept("stopped", area)
        raise typer.Exit(INTERRUPTED) from None
    except StokerError:
        if area.size:
            _say_kept("nothing was added", area)
        raise


def _say_kept(what: str, area: Any) -> None:
    terminal.note(f"{what}; {figures.size(area.size)} are kept. To continue, type the same command again")


# -- the lines ---------------------------------------------------------------------------------------------------------


def _lines(
    chosen: _Chosen, destination: _Destination, name: str | None, fetched: Prefetched | None = None
) -> ServeLines:
    """Raises UsageError for a name that is taken."""
    from stoker.cli.machine.serve_plan import CONTEXT, slug, unused_name
    from stoker.engines.record import Weights
    from stoker.engines.registry import those
    from stoker_setup import adding

    taken = adding.taken_names(destination.settings)
    if name is not None and name in taken:
        raise UsageError(f"the name '{name}' is taken in {destination.file.path}: choose another, such as --name "
                         f"{unused_name(name, taken)}", code="name_taken")  # fmt: skip
    is_folder = chosen.order.is_folder if chosen.order is not None else chosen.path.is_dir()
    choice = chosen.choice
    vault = Path(destination.settings.paths.vault)
    inside = chosen.path.is_relative_to(vault)
    return adding.ServeLines(
        name=name or unused_name(slug(chosen.name), taken),
        model=f"vault:{chosen.path.relative_to(vault)}" if inside else str(chosen.path),
        slot=destination.slot.name,
        title=chosen.title,
        size=sum(fetched.sizes.values()) if fetched is not None else choice.size,
        context=choice.context or CONTEXT,
        is_guess=choice.context is None,
        is_whole=choice.context is not None and choice.context == choice.trained,
        parallel=chosen.parallel,
        engine=those(lambda one: one.weights is Weights.FOLDER)[0] if is_folder else "",
        settings=choice.setting.splitlines(),
        source=chosen.source,
        sha256=_digests(fetched),
    )


def _digests(fetched: Prefetched | None) -> dict[str, str]:
    from stoker.fleet.weights.sources import is_file

    return {name: digest for name, digest in fetched.sha256.items() if is_file(name)} if fetched is not None else {}


def _say_plan(chosen: _Chosen, destination: _Destination, lines: ServeLines) -> None:
    from stoker_setup import adding

    choice = chosen.choice
    size = f", {figures.size(choice.size)}" if choice.size else ""
    fits = f": {choice.verdict}, context {choice.context}" if choice.context is not None else ""
    setting = ", with " + " and ".join(f"`{line}`" for line in choice.setting.splitlines()) if choice.setting else ""
    terminal.say(f"adds {chosen.title}{size}{fits}{setting}")
    if choice.devices:
        devices = " and ".join(choice.devices)
        advice = f"`devices` of slot {destination.slot.name} has to name them, and no others"
        terminal.note(f"stoker: it was judged for {devices}: {advice}")
    others = [one.name for one in adding.users(destination.settings, destination.slot.name)]
    if others and destination.slot.memory is None:
        terminal.say(
            f"in slot {destination.slot.name}, one model at a time: when it loads, {' or '.join(others)} makes room"
        )
    where = "makes" if destination.file.is_new else "adds to"
    terminal.say(f"as {lines.name}; {where} {destination.file.path.absolute()}")


def _show_plan(chosen: _Chosen, destination: _Destination, lines: ServeLines, edit: ConfigEdit, json: bool) -> None:
    """What --dry-run prints."""
    import asyncio

    from stoker_setup.prefetch import PrefetchAnswer

    to_fetch, refusal = 0, None
    if chosen.order is not None and chosen.prefetcher is not None:
        plan = asyncio.run(chosen.prefetcher.plan(chosen.order))
        refusal = plan.decision if plan.decision.answer is PrefetchAnswer.REFUSE else None
        if plan.decision.answer is PrefetchAnswer.FETCH:
            to_fetch = max(0, (plan.situation.size or 0) - plan.situation.kept)
    if json:
        document = _document(chosen, destination, lines, edit)
        terminal.emit(document | {"dry_run": True, "to_fetch": to_fetch, "problem": refusal.why if refusal else None})
    else:
        terminal.say(f"to fetch: {figures.size(to_fetch)}" if to_fetch else "nothing has to be fetched")
        terminal.say(edit.diff(str(destination.file.path)))
    if refusal is not None:
        raise RequestRefused(refusal.why, code=refusal.code)


def _document(chosen: _Chosen, destination: _Destination, lines: ServeLines, edit: ConfigEdit) -> dict[str, Any]:
    from stoker_setup import adding
    from stoker_setup.commands.fit_repository import choice_document

    displaced = adding.users(destination.settings, destination.slot.name) if destination.slot.memory is None else []
    return {
        "name": lines.name, "model": lines.model, "path": str(chosen.path), "source": chosen.source or None,
        "config": str(destination.file.path.absolute()), "is_new": not edit.before, "slot": lines.slot,
        "context": lines.context, "parallel": lines.parallel, "shares_slot_with": [one.name for one in displaced],
        "chosen": choice_document(chosen.choice), "models": chosen.listed,
        "diff": edit.diff(str(destination.file.path)),
    }  # fmt: skip


# -- afterwards --------------------------------------------------------------------------------------------------------


def _check(destination: _Destination, name: str, json: bool) -> dict[str, Any] | None:
    """Load it, with a Stoker of its own if none runs, and ask it a little; None: it was not asked, and why is said."""
    from stoker.cli.commands.run_stoker import started_stoker
    from stoker.cli.console.installation import find_installation
    from stoker_setup.commands.reload_after import other_configuration

    short_preflight = offered("short-preflight")
    if short_preflight is None:
        terminal.note("stoker: it is not checked, because the extension lab is missing")
        return None
    config = str(destination.file.path)
    installation = find_installation(config, destination.state)
    try:
        with installation.control() as control:
            control.status()
    except NotRunning:
        if destination.state is not None:
            terminal.note(f"stoker: it is not checked, because no Stoker runs in {destination.state}")
            return None
        terminal.note("stoker: no Stoker is running with it; one runs for the check")
        with started_stoker(installation):
            return _asked(short_preflight, name, destination, json)
    if other := other_configuration(installation.state, destination.file.path):
        terminal.note(
            f"stoker: it is not checked, because the Stoker that runs in {installation.state} has another "
            f"configuration, {other}: end that one, then type stoker eval preflight {name}{destination.place}"
        )
        return None
    return _asked(short_preflight, name, destination, json)


def _asked(
    short_preflight: Callable[[str, str, str | None], Any], name: str, destination: _Destination, json: bool
) -> dict[str, Any] | None:
    from stoker.cli.console.installation import find_installation
    from stoker.cli.console.loading import load_serves

    config = str(destination.file.path)
    outcome = load_serves(find_installation(config, destination.state), [name], False, None, quiet=json)
    if outcome.failed:
        return {"outcome": "failed", "seconds": None, "checks": [], "error": outcome.failed[0]["error"]}
    try:
        run = short_preflight(name, config, destination.state)
    except StokerError as error:
        terminal.note(f"stoker: {name} is loaded, and not checked: {error.message}")
        return None
    checks = [{"name": one.name, "outcome": one.outcome.value, "observed": one.observed} for one in run.findings]
    if not json:
        for one in run.findings:
            if one.outcome.value == "failed":
                terminal.say(f"{one.name}: {one.observed}" + (f"; fix: {one.fix}" if one.fix else ""))
        passed = sum(one["outcome"] == "passed" for one in checks)
        terminal.say(f"checked: {passed} of {len(checks)} passed, {figures.seconds(run.seconds)}")
    return {"outcome": run.outcome.value, "seconds": round(run.seconds, 3), "checks": checks, "error": None}


def _already(name: str, chosen: _Chosen, destination: _Destination, json: bool) -> None:
    serve = next(one for one in destination.settings.serves if one.name == name)
    following = _use(name, serve.context or 0, destination.place)
    if json:
        terminal.emit({"name": name, "path": str(chosen.path), "config": str(destination.file.path.absolute()),
                       "already": True, "next": following})  # fmt: skip
        return
    terminal.say(f"{chosen.title} is there already: serve {name} of {destination.file.path}")
    terminal.say(f"next: {following}")


def _use(name: str, context: int, place: str) -> str:
    """The command that uses it: an agent that is installed and can work with so much context, else a question."""
    from stoker_setup.clients.agents import AGENTS
    from stoker_setup.clients.needs import needed_context

    word = shlex.quote(name)
    for agent in AGENTS:
        if agent.program is None or shutil.which(agent.program.command[0]) is None:
            continue
        if (needed_context(agent) or 0) <= context:
            return f"stoker launch {agent.name} --model {word}{place}"
    return f"stoker client curl --model {word}{place}"
