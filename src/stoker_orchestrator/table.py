"""`[orchestrator.NAME]`: rules, and the files that it names.

1. its name is free                         3. the validator is a serve or a tier
2. the worker is there, and answers itself  4. worker and validator can be loaded together
5. files of prompts can be read and have their placeholders; a project is a directory that can be written
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.paths import absolute
from stoker.config.rules.names import auto_names, model_names
from stoker.config.sections import Section, WholeFile
from stoker.config.tables.file import File
from stoker.domain.definition import KeyPath
from stoker.domain.errors import ConfigError
from stoker.domain.kinds import ANY_TEXT
from stoker.domain.routing import AUTO, is_reserved
from stoker.domain.serve import share_slot, slots_of
from stoker.request.decide.alias_patterns import is_matched
from stoker_orchestrator.orchestrator import PLACEHOLDERS, Orchestrator

MAX_PROMPT = 64 * 1024
"""Characters of a prompt file."""


def _check(doc: ConfigDocument, tables: Mapping[str, Orchestrator], whole: WholeFile) -> None:
    """All rules."""
    file, entries = whole.file, whole.entries
    names = {*model_names(entries, file), *file.alias}
    for name, table in tables.items():
        path: KeyPath = ("orchestrator", name)
        if name in names or is_reserved(name):  # 1
            doc.problem(path, f"'{name[:64]}' already means a serve, tier or alias; give the orchestrator another name")
        _check_worker(doc, file, path, tables, names)  # 2
        _check_validator(doc, file, path, tables, entries)  # 3
        _check_slots(doc, file, path, table, entries)  # 4
        _check_files(doc, path, table, whole.directory)  # 5


def _check_worker(
    doc: ConfigDocument, file: File, path: KeyPath, tables: Mapping[str, Orchestrator], names: set[str]
) -> None:
    worker, place = tables[str(path[1])].worker, (*path, "worker")
    if not worker:
        if not doc.is_spoiled(place):
            doc.problem(path, "`worker` is missing; name the serve, tier or alias that writes, or `auto`")
    elif worker == AUTO:
        if not file.tier and not doc.is_spoiled(("tier",)):
            doc.problem(place, "`auto` chooses among tiers, but there is no [[tier]]; add one, or name a serve")
    elif worker in tables:
        what = "is this orchestrator itself" if worker == path[1] else f"'{worker[:64]}' is another orchestrator"
        doc.problem(place, f"{what}; the worker must be a serve, a tier or an alias of one")
    elif worker not in names and not is_matched(worker, names) and not doc.is_spoiled(("serve",)):
        known = [*names, *auto_names(file)]
        doc.problem(place, f"there is no serve, tier or alias '{worker[:64]}'{doc.did_you_mean(worker, known)}")


def _check_validator(
    doc: ConfigDocument, file: File, path: KeyPath, tables: Mapping[str, Orchestrator], entries: list[ServeEntry]
) -> None:
    validator, place = tables[str(path[1])].validator, (*path, "validator")
    if not validator:
        return
    known = {
        *(entry.name for entry in entries if not entry.table.abstract),
        *(one.name for one in file.tier if one.name),
    }
    if validator in tables:
        doc.problem(place, f"'{validator[:64]}' is an orchestrator; the validator must be a serve or a tier")
    elif validator not in known and not doc.is_spoiled(("serve",)):
        doc.problem(place, f"there is no serve or tier '{validator[:64]}'{doc.did_you_mean(validator, known)}")


def _check_slots(
    doc: ConfigDocument, file: File, path: KeyPath, table: Orchestrator, entries: list[ServeEntry]
) -> None:
    """Where one slot holds one serve at a time, worker and validator would swap for each block."""
    if not table.worker or not table.validator:
        return
    real = [entry for entry in entries if not entry.table.abstract]
    slots = {entry.name: entry.table.slot for entry in real}
    variants = {one.name: entry.name for entry in real for one in entry.table.variants}
    worker = _serve_of(file, variants.get(table.worker, table.worker), slots)
    validator = _serve_of(file, table.validator, slots)
    if not share_slot(slots.get(worker), slots.get(validator)) or worker == validator:
        return
    shared = [name for name in slots_of(str(slots[worker])) if name in slots_of(str(slots[validator]))]
    for slot in shared[:1]:
        _check_slot(doc, file, path, slot, worker, validator)


def _check_slot(doc: ConfigDocument, file: File, path: KeyPath, slot: str, worker: str, validator: str) -> None:
    configured = file.slots.get(slot)
    if configured is not None and configured.together:
        if not any({worker, validator}.issubset(group) for group in configured.together):
            doc.problem(
                (*path, "validator"),
                f"'{validator}' and the worker '{worker}' are in slot '{slot}', and no set of its `together` has both, "
                "so they can never be loaded together; move one to another slot, or add a set with both",
            )
    elif configured is not None and configured.memory is None:
        doc.problem(
            (*path, "validator"),
            f"'{validator}' and the worker '{worker}' are in slot '{slot}', which holds one serve at a time, so they "
            f"can never be loaded together; move one to another slot, or give [slots.{slot}] `memory`",
        )


def _serve_of(file: File, name: str, serves: Iterable[str]) -> str:
    """The serve that a name means, as far as the file says."""
    if name in file.alias:
        name = str(file.alias[name].serve or "")
    if name in serves:
        return name
    return next((one.serve or name for one in file.tier if one.name == name), name)


def _check_files(doc: ConfigDocument, path: KeyPath, table: Orchestrator, directory: Path) -> None:
    for key in PLACEHOLDERS:
        if written := getattr(table, f"{key}_file"):
            _, problems = _prompt(absolute(written, directory), key)
            for problem in problems:
                doc.problem((*path, key), problem)
    if table.project:
        project = absolute(table.project, directory)
        if not project.is_dir():
            doc.problem((*path, "project"), f"there is no directory {project}: make it, or remove `project`")
        elif not os.access(project, os.W_OK | os.X_OK):
            doc.problem((*path, "project"), f"{project} cannot be written: check its owner and mode")


def _prompt(path: Path, key: str) -> tuple[str, list[str]]:
    """The text of a prompt file, and why it cannot be used."""
    try:
        with path.open(encoding="utf-8") as prompt:
            text = prompt.read(MAX_PROMPT + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        ship = "`stoker orchestrator prompts --ship` shows the prompt that ships"
        return "", [f"{path} cannot be read: {reason}; {ship}"]
    problems = []
    missing = [placeholder for placeholder in PLACEHOLDERS[key] if placeholder not in text]
    if missing:
        problems.append(f"{path} does not contain {' and '.join(missing)}, which Stoker fills in; add it")
    if len(text) > MAX_PROMPT:
        problems.append(f"{path} has more than {MAX_PROMPT} characters; shorten it")
    return text, problems


def _with_prompts(tables: Mapping[str, Orchestrator], directory: Path) -> dict[str, Orchestrator]:
    """Raises ConfigError: a file has changed since it was checked, and cannot be used any more."""
    found = {}
    for name, table in tables.items():
        texts = {}
        for key in PLACEHOLDERS:
            if written := getattr(table, f"{key}_file"):
                texts[key], problems = _prompt(Path(written), key)
                if problems:
                    raise ConfigError(problems)
        found[name] = msgspec.structs.replace(table, **texts)
    return found


ORCHESTRATOR = Section(
    Orchestrator,
    "Model names whose answers are written block by block and checked: `[orchestrator.NAME]`.",
    by_name=True,
    names=ANY_TEXT,
    check_with=_check,
    complete=_with_prompts,
    noun="orchestrator",
)
