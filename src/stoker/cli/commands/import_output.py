"""What every `stoker import` does with its result: reports it, and writes it unless a model was lost."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import terminal
from stoker.cli.console.errors import FAILED, UsageError
from stoker.domain.figures import counted

if TYPE_CHECKING:
    from stoker.cli.importers.imported import ImportedConfig

Target = Annotated[Path, typer.Option("--path", metavar="FILE", help="Where to write.")]
DEFAULT_TARGET = Path("stoker.toml")
Check = Annotated[bool, typer.Option("--check", help="Print the report, and write nothing.")]
Partial = Annotated[bool, typer.Option("--partial", help="Write the rest if a model cannot be carried.")]
Overwrite = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


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


def finish(imported: ImportedConfig, options: ImportOptions) -> None:
    """Print the report, write the file, say what to type next.

    Exits with 1 if a model could not be carried (then nothing is written, unless `--partial` is given), or if
    `stoker config check` would refuse the result.
    """
    from stoker.cli.importers import vault_links, write

    problems = write.problems_of(imported, options.path.parent)
    failed = imported.failed_models
    is_written = not options.check and not problems and (not failed or options.partial)
    files: list[Path] = []
    if is_written:
        files += vault_links.make_links(imported.links)
        try:
            files += write.write(imported, options.path)
        except OSError as error:
            raise UsageError(str(error)) from error
    if options.json:
        terminal.emit(_document(imported, options, problems, files))
    else:
        _report(imported)
        _say_result(imported, options, problems, files)
    if problems or failed:
        raise typer.Exit(FAILED)


def _report(imported: ImportedConfig) -> None:
    rows = [(row.model or "-", row.key, row.outcome.value, row.became or "-", row.note) for row in imported.report]
    if rows:
        terminal.table(("model", "key", "outcome", "became", "note"), rows)


def _say_result(imported: ImportedConfig, options: ImportOptions, problems: list[str], files: list[Path]) -> None:
    serves = len(imported.document.get("serve", ()))
    models = counted(serves, "model")
    for problem in problems:
        terminal.note(f"stoker config check would refuse it: {problem}")
    if imported.failed_models:
        terminal.note(f"could not be carried: {', '.join(imported.failed_models)}")
    if not files:
        if options.check:
            terminal.say(f"{models} can be imported; nothing was written, because of --check")
        elif not problems:
            terminal.note("nothing was written; to write the rest: add --partial")
        return
    for file in files:
        terminal.say(f"wrote {file.absolute()}")
    where = options.path.absolute()
    is_default = options.path.name == "stoker.toml" and where.parent == Path.cwd()
    terminal.say("next: stoker up" if is_default else f"next: stoker up --config {shlex.quote(str(where))}")


def _document(
    imported: ImportedConfig, options: ImportOptions, problems: list[str], files: list[Path]
) -> dict[str, object]:
    return {
        "path": str(options.path.absolute()),
        "written": [str(file.absolute()) for file in files],
        "problems": problems,
        "failed": list(imported.failed_models),
        "serves": [serve["name"] for serve in imported.document.get("serve", ())],
        "report": [
            {"model": row.model or None, "key": row.key, "outcome": row.outcome.value, "became": row.became or None,
             "note": row.note or None}
            for row in imported.report
        ],
    }  # fmt: skip
