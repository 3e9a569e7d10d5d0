"""One namespace for the `model` field: the names of serves, their served names, their aliases, and what is reserved."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.config.document import Document
from stoker.config.inherit import Entry
from stoker.config.positions import Path


def model_names(entries: list[Entry]) -> set[str]:
    """Everything that a client may write into `model`."""
    return {name for entry in entries if not entry.table.abstract for name, _ in _names(entry)}


def check_names(doc: Document, entries: list[Entry]) -> None:
    """Missing names, names that two serves want, and reserved ones. Twice within one serve is fine."""
    owners: dict[str, tuple[Entry, Path]] = {}
    for entry in entries:
        path = ("serve", entry.index)
        if entry.table.name is None and not doc.is_spoiled((*path, "name")):
            doc.problem(path, "`name` is missing; every [[serve]] needs one")
        for name, place in _names(entry):
            if name == "auto" or name.startswith("auto:"):
                doc.problem(place, f"'{name[:64]}' is reserved for routing; choose another name")
            elif name not in owners:
                owners[name] = (entry, place)
            elif owners[name][0] is not entry:
                other, theirs = owners[name]
                doc.problem(
                    place,
                    f"'{name[:64]}' already means serve '{other.name}' (line {doc.line(theirs)}); "
                    "names, served names and aliases share one namespace",
                )


def _names(entry: Entry) -> Iterator[tuple[str, Path]]:
    table, path = entry.table, ("serve", entry.index)
    if table.name:
        yield table.name, (*path, "name")
    if table.served_name:
        yield table.served_name, (*path, "served_name")
    elif entry.served_name != entry.name:
        yield entry.served_name, (*path, "model")
    for place, alias in enumerate(table.aliases):
        yield alias, (*path, "aliases", place)
