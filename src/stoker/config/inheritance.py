"""`extends`: a serve takes over its parent's keys, unless it gives them itself.

Tables (`env`, `requires`) are merged key by key; everything else is replaced. Names are never inherited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stoker.config.document import ConfigDocument
from stoker.config.line_numbers import KeyPath
from stoker.config.tables.file import File, ServeTable
from stoker.domain.nearest import did_you_mean

_OWN = frozenset(("name", "served_name", "aliases", "variant", "extends", "abstract"))


@dataclass(frozen=True, slots=True)
class ServeEntry:
    """One [[serve]] with everything that it inherits, or the serve that a cloud tier is."""

    index: int
    table: ServeTable
    chain: tuple[int, ...]
    """Its own row, its parent's, and so on."""
    is_whole: bool = True
    """False: a parent was not found, so nothing can be reported as missing."""
    section: str = "serve"
    """The table that it is written in: `tier` for a cloud."""

    @property
    def name(self) -> str:
        """Its name. A serve without one has been reported, and gets a name that no file can contain."""
        return self.table.name or f"#{self.index + 1}"

    @property
    def driver(self) -> str:
        table = self.table
        if table.driver is not None:
            return table.driver
        return "external" if table.base_url is not None else "compose" if table.container is not None else "process"

    @property
    def is_external(self) -> bool:
        return self.driver == "external"

    @property
    def has_several_places(self) -> bool:
        return len(self.table.slots) > 1

    @property
    def engine(self) -> str:
        return self.table.engine or ("openai" if self.driver in ("external", "compose") else "llama.cpp")

    @property
    def served_name(self) -> str:
        """What /v1/models must show. A manifest that knows only `container` and `model` means the model's id."""
        table = self.table
        own = table.model if self.driver == "compose" and "{model}" not in " ".join(table.up or ()) else None
        return table.served_name or own or self.name

    def at(self, doc: ConfigDocument, key: str) -> KeyPath:
        """Where `key` was given: here, or in the nearest parent that has it; else this serve itself."""
        for index in self.chain:
            path = (self.section, index, key)
            if (key not in _OWN or index == self.index) and (doc.holds(path) or doc.is_spoiled(path)):
                return path
        return (self.section, self.index, key)

    def gives(self, doc: ConfigDocument, key: str) -> bool:
        """Whether `key` was given, here or in a parent, with a valid value."""
        return doc.holds(self.at(doc, key))

    def lacks(self, doc: ConfigDocument, key: str) -> bool:
        """Whether `key` was given nowhere. An invalid one has been reported, and does not count."""
        return self.is_whole and not self.gives(doc, key) and not doc.is_spoiled(self.at(doc, key))


def inherit(doc: ConfigDocument, file: File) -> list[ServeEntry]:
    """One entry per [[serve]], in the file's order. Unknown parents and cycles become problems."""
    rows: dict[str, int] = {}
    for index, table in enumerate(file.serve):
        if table.name:
            rows.setdefault(table.name, index)
    entries = []
    in_cycles: set[int] = set()
    for index in range(len(file.serve)):
        chain = _chain(doc, file, rows, index, in_cycles)
        merged: dict[str, Any] = {}
        for row in reversed(chain):
            _take(merged, doc.raw["serve"][row], own=row == index)
        entries.append(ServeEntry(index, ServeTable.model_validate(merged), chain, _is_whole(doc, file, chain)))
    return entries


def _chain(doc: ConfigDocument, file: File, rows: dict[str, int], index: int, in_cycles: set[int]) -> tuple[int, ...]:
    chain = [index]
    while parent := file.serve[chain[-1]].extends:
        path = ("serve", chain[-1], "extends")
        if parent not in rows:
            doc.problem(path, f"there is no serve '{parent[:64]}'{did_you_mean(parent, rows)}")
            break
        if rows[parent] in chain:
            cycle = chain[chain.index(rows[parent]) :]
            if not in_cycles.intersection(cycle):
                names = " extends ".join(str(file.serve[row].name) for row in (*cycle, cycle[0]))
                doc.problem(path, f"a cycle: {names}; remove one `extends`")
            in_cycles.update(cycle)
            break
        chain.append(rows[parent])
    return tuple(chain)


def _is_whole(doc: ConfigDocument, file: File, chain: tuple[int, ...]) -> bool:
    last = chain[-1]
    return file.serve[last].extends is None and not doc.is_spoiled(("serve", last, "extends"))


def _take(merged: dict[str, Any], row: dict[str, Any], own: bool) -> None:
    for key, value in row.items():
        if key in _OWN and not own:
            continue
        below = merged.get(key)
        merged[key] = {**below, **value} if isinstance(below, dict) and isinstance(value, dict) else value
