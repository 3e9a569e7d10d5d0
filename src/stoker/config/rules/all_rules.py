"""All rules about several keys at once, and those about the front door and its keys."""

from __future__ import annotations

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.local_address import is_loopback
from stoker.config.rules.gates import check_gates
from stoker.config.rules.names import auto_names, check_names, model_names
from stoker.config.rules.orchestrators import check_orchestrators
from stoker.config.rules.routing import check_routing
from stoker.config.rules.serves import check_serves
from stoker.config.rules.slots import check_slots
from stoker.config.tables.file import File
from stoker.domain.nearest import did_you_mean
from stoker.request.accept.budget import least_for


def check_rules(doc: ConfigDocument, file: File, entries: list[ServeEntry]) -> None:
    """All rules. Raises nothing; what was already found wrong is not reported again."""
    _check_door(doc, file)
    _check_keys(doc, file, entries)
    check_names(doc, entries, file.tier)
    check_serves(doc, entries)
    check_slots(doc, file, entries)
    check_gates(doc, file, entries)
    check_routing(doc, file, entries)
    check_orchestrators(doc, file, entries)


def _check_door(doc: ConfigDocument, file: File) -> None:
    door, section = file.front_door, ("front_door",)
    if door.body_budget is not None and door.body_budget < least_for(door.body_limit):
        least = -(-least_for(door.body_limit) // 2**20)
        text = f"is too small for one body of `body_limit`: give at least {least}MiB, or lower `body_limit`"
        doc.problem((*section, "body_budget"), text)
    if door.keys or door.auth == "none" or doc.is_spoiled((*section, "keys")) or doc.is_spoiled((*section, "auth")):
        return
    if not is_loopback(door.host):
        doc.problem(
            (*section, "host"),
            f"'{door.host[:64]}' can be reached from other machines, and there are no keys; "
            'give `keys`, or set auth = "none"',
        )
    elif doc.holds((*section, "auth")):
        doc.problem((*section, "auth"), 'is "keys", but there are no keys; give `keys`, or remove it')


def _check_keys(doc: ConfigDocument, file: File, entries: list[ServeEntry]) -> None:
    names = {*model_names(entries, file.tier), *auto_names(file), *file.orchestrator}
    all_known = not any(
        doc.is_spoiled(place)
        for place in (
            ("serve",),
            *(entry.at(doc, key) for entry in entries for key in ("name", "served_name", "aliases")),
            *(("tier", index, "name") for index in range(max(len(file.tier), 1))),
        )
    )
    seen: dict[str, int] = {}
    for index, key in enumerate(file.front_door.keys):
        path = ("front_door", "keys", index)
        for required in ("name", "value"):
            if getattr(key, required) is None and not doc.is_spoiled((*path, required)):
                doc.problem(path, f"`{required}` is missing")
        if key.name and key.name in seen:
            doc.problem((*path, "name"), f"line {seen[key.name]} already has a key with this name; choose another")
        elif key.name:
            seen[key.name] = doc.line((*path, "name"))
        for place, model in enumerate(key.models):
            is_class_known = not doc.is_spoiled(("router", "class", model.removeprefix("auto:")))
            if model != "*" and model not in names and model not in file.alias and all_known and is_class_known:
                hint = did_you_mean(model, names)
                doc.problem((*path, "models", place), f"no serve has the name '{model[:64]}'{hint}")
