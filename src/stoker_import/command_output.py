"""What every `stoker import` does with its result: reports it, writes it unless a model was lost, and checks it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import options as every_command
from stoker.cli.console import terminal
from stoker.cli.console.errors import FAILED, UsageError
from stoker.domain.figures import counted
from stoker.domain.host_port import host_port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.domain.access import ListenSettings
    from stoker_import.imported import ImportedConfig
    from stoker_import.write import ConfigVerdict

Target = Annotated[Path, typer.Option("--path", metavar="FILE", help="Where to write.")]
DEFAULT_TARGET = Path("stoker.toml")
Check = Annotated[bool, typer.Option("--check", help="Print the report, and write nothing.")]
Partial = Annotated[bool, typer.Option("--partial", help="Write the rest if a model cannot be carried.")]
_KEY_OF_SERVE = re.compile(r"\S+: key 'serve\[(.+)\]\.key': (.+)")
"""What `stoker config check` says of a serve's key: line, serve, problem."""
MAX_NAMES = 3
"""Models named together that lack the same."""
Overwrite = Annotated[bool, typer.Option("--force", help=every_command.OVERWRITES)]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The options that every import takes."""

    path: Path
    check: bool = False
    partial: bool = False
    force: bool = False
    json: bool = False


def check_target(options: ImportOptions) -> None:
    """Refuse a target that cannot be written to, before anything is read. Raises UsageError."""
    if options.check:
        return
    if options.path.exists() and not options.force:
        raise UsageError(
            f"{options.path} exists: overwrite it with --force, choose another file with --path, or only look: --check"
        )
    if not options.path.parent.is_dir():
        raise UsageError(
            f"{options.path}: the directory {options.path.parent} does not exist; create it, or choose another --path"
        )


@dataclass(frozen=True, slots=True)
class ImportEnd:
    """What was written, and what is left to do before `stoker up`."""

    refusals: tuple[str, ...]
    """What `stoker config check` would refuse: nothing is written then."""
    files: tuple[Path, ...]
    not_ready: tuple[tuple[str, str], ...]
    """Serves ("": all of them), and what keeps each from starting here, with what to do about it."""
    port_holder: str
    """Which program has Stoker's port, in a sentence; empty: it is free."""
    next: str
    """The command to type next; empty: there is no file to start."""


def finish(imported: ImportedConfig, options: ImportOptions) -> None:
    """Print the report, write the file, and say what to type next, or what is missing here.

    Exits with 1 if a model could not be carried (then nothing is written, unless `--partial` is given), if there is no
    model, or if `stoker config check` would refuse the result. What this machine lacks is a report only.
    """
    from stoker_import import vault_links, write

    verdict = write.check(imported, options.path.parent)
    failed, is_empty = imported.failed_models, not imported.document.get("serve")
    files: list[Path] = []
    if not (options.check or verdict.refusals or is_empty) and (not failed or options.partial):
        files += vault_links.make_links(imported.links)
        try:
            written, kept = write.write(imported, options.path)
        except OSError as error:
            raise UsageError(str(error)) from error
        files += written
        if kept is not None:
            terminal.note(every_command.kept_text(options.path, kept))
    end = _end(verdict, files, options)
    if options.json:
        terminal.emit(_document(imported, options, end))
    else:
        _report(imported)
        _say_result(imported, options, end)
    if end.refusals or failed or is_empty:
        raise typer.Exit(FAILED)


def _end(verdict: ConfigVerdict, files: Sequence[Path], options: ImportOptions) -> ImportEnd:
    """As `doctor` looks at each serve, and as the dry run of its start does."""
    from stoker.cli.console.installation import is_running
    from stoker.extensions import offered

    settings = verdict.settings
    not_ready = [("", problem) for problem in verdict.unset]
    where = options.path.absolute()
    command, holder = "stoker up", ""
    if settings is not None and not verdict.refusals:
        serve_problems = offered("serve-problems") or (lambda serve, paths: ())
        not_ready += [
            (serve.name, problem.removeprefix(f"serve '{serve.name}': "))
            for serve in settings.serves
            for problem in serve_problems(serve, settings.paths)
        ]
        door = settings.front_door
        if is_running(replace(settings, source=str(where))):
            command = "stoker reload"
        else:
            holder = _port_problem(door)
    if not_ready:
        command = "stoker doctor"
    is_default = options.path.name == "stoker.toml" and where.parent == Path.cwd()
    following = command if is_default else f"{command} --config {shlex.quote(str(where))}"
    return ImportEnd(verdict.refusals, tuple(files), tuple(not_ready), holder, following if files else "")


def _port_problem(door: ListenSettings) -> str:
    """Why the front door cannot listen, and what to do; empty: it can."""
    from stoker.cli.machine import ports

    address = host_port(door.host, door.port)
    try:
        is_free = ports.is_free(door.host, door.port)
    except OSError as error:
        return f"cannot listen on {address}: {error.strerror or error}; change [front_door] port"
    return "" if is_free else f"{address} is in use by {ports.holder(door.port)}: stop it first"


def _report(imported: ImportedConfig) -> None:
    rows = [(row.model or "-", row.key, row.outcome.value, row.became or "-", row.note) for row in imported.report]
    if rows:
        terminal.table(("model", "key", "outcome", "became", "note"), rows)


def _say_result(imported: ImportedConfig, options: ImportOptions, end: ImportEnd) -> None:
    serves = len(imported.document.get("serve", ()))
    models = counted(serves, "model")
    for problem in end.refusals:
        terminal.note(f"`stoker config check` would refuse it: {problem}")
    if imported.failed_models:
        terminal.note(f"could not be carried: {', '.join(imported.failed_models)}")
    if not end.files:
        if not serves:
            terminal.note("there is no model to import: nothing was written")
        elif options.check:
            terminal.say(f"{models} can be imported; nothing was written, because of --check")
        elif not end.refusals:
            terminal.note("nothing was written; to write the rest: add --partial")
    for file in end.files:
        terminal.say(f"wrote {file.absolute()}")
    _say_what_is_left(models, end)


def _say_what_is_left(models: str, end: ImportEnd) -> None:
    lacking = {name for name, _ in end.not_ready if name}
    if lacking:
        terminal.note(f"{len(lacking)} of {models} cannot start here yet:")
    by_problem: dict[str, list[str]] = {}
    for name, problem in end.not_ready:
        of_key = _KEY_OF_SERVE.fullmatch(problem)
        name, problem = of_key.groups() if of_key is not None else (name, problem)
        by_problem.setdefault(problem.replace(f" of serve '{name}'", ""), []).append(name)
    for problem, names in by_problem.items():
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        terminal.note(f"  {', '.join(names[:MAX_NAMES])}{more}: {problem}" if names[0] else problem)
    if end.next and end.not_ready:
        terminal.say(f"when that is done, check again: {end.next}")
    elif end.next:
        if end.port_holder:
            terminal.note(end.port_holder)
        terminal.say(f"next: {end.next}")


def _document(imported: ImportedConfig, options: ImportOptions, end: ImportEnd) -> dict[str, object]:
    return {
        "path": str(options.path.absolute()),
        "written": [str(file.absolute()) for file in end.files],
        "problems": list(end.refusals),
        "failed": list(imported.failed_models),
        "not_ready": [{"serve": name or None, "problem": problem} for name, problem in end.not_ready],
        "next": end.next or None,
        "serves": [serve["name"] for serve in imported.document.get("serve", ())],
        "report": [
            {"model": row.model or None, "key": row.key, "outcome": row.outcome.value, "became": row.became or None,
             "note": row.note or None}
            for row in imported.report
        ],
    }  # fmt: skip
