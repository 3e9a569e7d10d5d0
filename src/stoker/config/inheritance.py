"""`extends`: a serve takes over its parent's keys, unless it gives them itself.

Tables (`env`, `requires`) are merged key by key; everything else is replaced. Names are never inherited.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from stoker.config.document import ConfigDocument
from stoker.config.local_address import is_local
from stoker.config.tables.file import File
from stoker.domain.definition import KeyPath, no_problem, read
from stoker.domain.serve import AlsoServed, Driver, ServeRow, Translation, are_in_boxes
from stoker.engines.registry import DEFAULT, GENERIC, engine_of

_OWN = frozenset(("name", "served_name", "aliases", "variant", "extends", "abstract"))


def is_cloud(url: str) -> bool:
    """On https, and no private address or name of this machine."""
    return url.startswith("https://") and not is_local(url)


def also_name(also: AlsoServed) -> str:
    """What its replica is called after the `@`."""
    return also.name or re.sub(r"[^A-Za-z0-9._-]", "-", urlsplit(also.base_url).hostname or "").strip("-.")


@dataclass(frozen=True, slots=True)
class ServeEntry:
    """One [[serve]] with everything that it inherits, or the serve that a cloud tier is."""

    index: int
    table: ServeRow
    given: Mapping[str, Any]
    """The keys that are given, here or in a parent, and their values in the file."""
    inherited: Mapping[str, KeyPath] = field(default_factory=dict)
    """Where the keys that it takes over from its parents were given, wrong values included."""
    is_whole: bool = True
    """False: a parent was not found, so nothing can be reported as missing."""
    section: str = "serve"
    """The table that it is written in: `tier` for a cloud."""

    @property
    def name(self) -> str:
        """Its name. A serve without one has been reported, and gets a name that no file can contain."""
        return self.table.name or f"#{self.index + 1}"

    @property
    def driver(self) -> Driver:
        table = self.table
        if "driver" in self.given:
            return table.driver
        if table.base_url is not None:
            return Driver.EXTERNAL
        return Driver.PROCESS if table.container is None else Driver.COMPOSE

    @property
    def is_external(self) -> bool:
        return self.driver is Driver.EXTERNAL

    @property
    def is_in_boxes(self) -> bool:
        """Whether all its places are slots of other Stokers, so that nothing of it is started here."""
        return are_in_boxes(self.table.slot, self.table.slots) and not self.is_external

    @property
    def has_several_places(self) -> bool:
        return len(self.table.slots) > 1

    @property
    def engine(self) -> str:
        if "engine" in self.given:
            return self.table.engine
        is_generic = self.driver in (Driver.EXTERNAL, Driver.COMPOSE) or self.is_in_boxes
        return (GENERIC if is_generic else DEFAULT).name

    @property
    def served_name(self) -> str:
        """What /v1/models must show. A manifest that knows only `container` and `model` means the model's id."""
        table = self.table
        own = table.model if self.driver is Driver.COMPOSE and "{model}" not in " ".join(table.up or ()) else ""
        return table.served_name or own or self.name

    @property
    def translation(self) -> Translation:
        """With what follows from its engine and its address."""
        written, given = self.table.translation, self.given.get("translation", {})
        return replace(
            written,
            always=written.always if "always" in given else engine_of(self.engine).poor_dialects,
            cloud=written.cloud if "cloud" in given else is_cloud(self.table.base_url or ""),
        )

    def at(self, key: str) -> KeyPath:
        """Where `key` was given: here, or in the nearest parent that has it; else this serve itself."""
        return self.inherited.get(key) or (self.section, self.index, key)

    def gives(self, doc: ConfigDocument, key: str) -> bool:
        """Whether `key` was given, here or in a parent, with a valid value."""
        return doc.holds(self.at(key))

    def lacks(self, doc: ConfigDocument, key: str) -> bool:
        """Whether `key` was given nowhere. An invalid one has been reported, and does not count."""
        return self.is_whole and not self.gives(doc, key) and not doc.is_spoiled(self.at(key))


class _Row(NamedTuple):
    """A [[serve]] together with its parents. Each is merged once, however many inherit from it."""

    values: dict[str, Any]
    places: dict[str, KeyPath]
    is_whole: bool


def inherit(doc: ConfigDocument, file: File) -> list[ServeEntry]:
    """One entry per [[serve]], in the file's order. Unknown parents and cycles become problems."""
    rows: dict[str, int] = {}
    for index, table in enumerate(file.serve):
        if table.name:
            rows.setdefault(table.name, index)
    merged: dict[int, _Row] = {}
    entries = []
    for index, table in enumerate(file.serve):
        if table.extends is None:
            is_whole = not doc.is_spoiled(("serve", index, "extends"))
            entries.append(ServeEntry(index, table, doc.raw["serve"][index], is_whole=is_whole))
            continue
        for row in reversed(_unmerged(doc, file, rows, index, merged)):
            merged[row] = _merge(doc, file, row, merged.get(rows.get(file.serve[row].extends or "", -1)))
        values, places, is_whole = merged[index]
        inherited = {key: path for key, path in places.items() if path[1] != index}
        table = read(ServeRow, values, ("serve", index), no_problem)
        entries.append(ServeEntry(index, table, values, inherited, is_whole))
    return entries


def _unmerged(
    doc: ConfigDocument, file: File, rows: dict[str, int], index: int, merged: dict[int, _Row]
) -> dict[int, None]:
    """The row, its parent and so on, up to one that is merged already. Unknown parents and cycles become problems."""
    chain: dict[int, None] = {}
    row = index
    while row not in merged:
        chain[row] = None
        parent = file.serve[row].extends
        if not parent:
            break
        path = ("serve", row, "extends")
        if parent not in rows:
            doc.problem(path, f"there is no serve '{parent[:64]}'{doc.did_you_mean(parent, rows)}")
            break
        row = rows[parent]
        if row in chain:
            cycle = list(chain)[list(chain).index(row) :]
            names = " extends ".join(str(file.serve[one].name) for one in (*cycle, row))
            doc.problem(path, f"a cycle: {names}; remove one `extends`")
            break
    return chain


def _merge(doc: ConfigDocument, file: File, index: int, parent: _Row | None) -> _Row:
    own = doc.raw["serve"][index]
    values = {} if parent is None else {key: value for key, value in parent.values.items() if key not in _OWN}
    for key, value in own.items():
        below = values.get(key)
        values[key] = {**below, **value} if isinstance(below, dict) and isinstance(value, dict) else value
    places = {} if parent is None else {key: path for key, path in parent.places.items() if key not in _OWN}
    places |= {key: ("serve", index, key) for key in (*own, *doc.spoiled_keys(("serve", index)))}
    has_no_parent = file.serve[index].extends is None and not doc.is_spoiled(("serve", index, "extends"))
    return _Row(values, places, has_no_parent if parent is None else parent.is_whole)
