"""Rules about orchestrators.

1. its name is free                         3. the validator is a serve or a tier
2. the worker is there, and answers itself  4. worker and validator can be loaded together
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.line_numbers import KeyPath
from stoker.config.rules.names import auto_names, model_names
from stoker.config.tables.file import File
from stoker.domain.orchestrator import Orchestrator
from stoker.domain.routing import AUTO, is_reserved
from stoker.domain.serve import share_slot, slots_of
from stoker.request.decide.alias_patterns import is_matched


def check_orchestrators(doc: ConfigDocument, file: File, entries: list[ServeEntry]) -> None:
    """All of them."""
    names = {*model_names(entries, file), *file.alias}
    for name, table in file.orchestrator.items():
        path: KeyPath = ("orchestrator", name)
        if name in names or is_reserved(name):  # 1
            doc.problem(path, f"'{name[:64]}' already means a serve, tier or alias; give the orchestrator another name")
        _check_worker(doc, file, path, table, names)  # 2
        _check_validator(doc, file, path, table, entries)  # 3
        _check_slots(doc, file, path, table, entries)  # 4


def _check_worker(doc: ConfigDocument, file: File, path: KeyPath, table: Orchestrator, names: set[str]) -> None:
    worker, place = table.worker, (*path, "worker")
    if not worker:
        if not doc.is_spoiled(place):
            doc.problem(path, "`worker` is missing; name the serve, tier or alias that writes, or `auto`")
    elif worker == AUTO:
        if not file.tier and not doc.is_spoiled(("tier",)):
            doc.problem(place, "`auto` chooses among tiers, but there is no [[tier]]; add one, or name a serve")
    elif worker in file.orchestrator:
        what = "is this orchestrator itself" if worker == path[1] else f"'{worker[:64]}' is another orchestrator"
        doc.problem(place, f"{what}; the worker must be a serve, a tier or an alias of one")
    elif worker not in names and not is_matched(worker, names) and not doc.is_spoiled(("serve",)):
        known = [*names, *auto_names(file)]
        doc.problem(place, f"there is no serve, tier or alias '{worker[:64]}'{doc.did_you_mean(worker, known)}")


def _check_validator(
    doc: ConfigDocument, file: File, path: KeyPath, table: Orchestrator, entries: list[ServeEntry]
) -> None:
    validator, place = table.validator, (*path, "validator")
    if not validator:
        return
    known = {
        *(entry.name for entry in entries if not entry.table.abstract),
        *(one.name for one in file.tier if one.name),
    }
    if validator in file.orchestrator:
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
