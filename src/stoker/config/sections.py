"""Tables of the file that extensions bring: `[NAME]`, each read, checked, shown and described as the core's own are.

An extension offers a `Section` by the name of its table (`stoker.extensions.Extension.tables`). What the file says is
in `Settings.extensions`; a table that the file does not have is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from stoker.config.definition import ByNameKind, Kind, TableKind, ValueKind, keys_at
from stoker.config.document import ConfigDocument
from stoker.config.tables.file import File
from stoker.domain.kinds import Form, name
from stoker.extensions import FAILURES, load, usable_extensions


class Section(NamedTuple):
    """A table of the file."""

    table: type
    """A frozen msgspec Struct: its fields with a `stoker.domain.kinds.setting` are the keys, and each has a default."""
    meaning: str
    check: Callable[[ConfigDocument, Any], None] | None = None
    """A rule about several keys: what it finds goes to `document.problem((NAME, KEY), "what is wrong")`."""
    by_name: bool = False
    """Several tables, `[TABLE.NAME]`: the value is a dict of them. A field `name` that is no key gets the name."""

    @property
    def kind(self) -> Kind:
        table = TableKind(self.table)
        return ByNameKind(ValueKind(Form(name)), table) if self.by_name else table


@cache
def extension_sections() -> Mapping[str, Section]:
    """By name. Left out: what cannot be imported or is no `Section`, and what has the name of a table of the core."""
    found: dict[str, Section] = {}
    for extension in usable_extensions():
        for offer in extension.tables:
            try:
                section = load(offer.place)
            except FAILURES:
                continue
            if isinstance(section, Section) and offer.name not in keys_at(File, ()):
                found.setdefault(offer.name, section)
    return found
