"""Tables of the file that extensions bring: `[NAME]`, each read, checked, shown and described as the core's own are.

An extension offers a `Section` by the name of its table (`stoker.extensions.Extension.tables`). What the file says is
in `Settings.extensions`; a table that the file does not have is not there, and its module is not imported. Where an
extension that comes with Stoker is missing, its tables are in `Settings.unread`, as they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.tables.file import File
from stoker.domain.access import Settings
from stoker.domain.definition import ByNameKind, KeyPath, Kind, TableKind, ValueKind, keys_at
from stoker.domain.kinds import Form, name
from stoker.domain.serve import SECRET, Secret
from stoker.extensions import FAILURES, load, usable_extensions

SHIPPED = {
    "boxes": "boxes",
    "edge": "edge",
    "idle_suspend": "boxes",
    "orchestrator": "orchestrator",
    "telemetry": "otel",
    "tool_loop": "tools",
    "tools": "tools",
}
"""The tables of extensions that come with Stoker, and the extension that reads each."""
SHIPPED_BY_NAME = ("orchestrator", "edge", "tools", "boxes")
"""Those of them that are several tables, `[TABLE.NAME]`: shown as `{}` where the file has none."""


class WholeFile(NamedTuple):
    """What a rule may compare a table with."""

    file: File
    entries: list[ServeEntry]
    """The serves, with what they inherit."""
    directory: Path
    """The folder of the file: relative paths begin there."""


class Section(NamedTuple):
    """A table of the file."""

    table: type
    """A frozen msgspec Struct or dataclass: its fields with a `stoker.domain.kinds.setting` are the keys."""
    meaning: str
    check: Callable[[ConfigDocument, Any], None] | None = None
    """A rule about several keys: what it finds goes to `document.problem((NAME, KEY), "what is wrong")`."""
    by_name: bool = False
    """Several tables, `[TABLE.NAME]`: the value is a dict of them. A field `name` that is no key gets the name."""
    names: Form = Form(name)
    """What the names of tables `by_name` may be."""
    check_with: Callable[[ConfigDocument, Any, WholeFile], None] | None = None
    """A rule that looks at other tables, too, or at files."""
    complete: Callable[[Any, Path], Any] | None = None
    """Fills in what follows from other keys, and the content of files. Gets the table with absolute paths and secrets,
    and the folder of the file; called if there are no problems. May raise ConfigError.
    """
    noun: str = ""
    """What `config check` calls one of the tables, where it counts them; empty: it does not."""
    needs_replacement: bool = False
    """A change takes effect only with `stoker up --replace`."""

    @property
    def kind(self) -> Kind:
        table = TableKind(self.table)
        return ByNameKind(ValueKind(self.names), table) if self.by_name else table


def section(table: str) -> Section | None:
    """None: no extension reads this table, or the core does, or what is offered cannot be used."""
    if table in keys_at(File, ()):
        return None
    for extension in usable_extensions():
        for offer in extension.tables:
            if offer.name != table:
                continue
            try:
                found = load(offer.place)
            except FAILURES:
                continue
            if isinstance(found, Section):
                return found
    return None


def sections_of(settings: Settings) -> Iterator[tuple[str, Section, Any]]:
    """Of the tables that are there: name, section and value."""
    for table, value in settings.extensions.items():
        if (found := section(table)) is not None:
            yield table, found, value


def extension_sections() -> Mapping[str, Section]:
    """All, by name."""
    names = dict.fromkeys(offer.name for extension in usable_extensions() for offer in extension.tables)
    return {table: found for table in names if (found := section(table)) is not None}


def extension_secrets(settings: Settings) -> dict[KeyPath, Secret]:
    """Those in the tables of extensions, by their places."""
    secrets: dict[KeyPath, Secret] = {}

    def collect(value: Any, form: Form, path: KeyPath) -> Any:
        if form is SECRET and value is not None:
            secrets[path] = value
        return value

    for table, found, value in sections_of(settings):
        found.kind.changed(value, (table,), collect)
    return secrets


def table_names(file: File, table: str) -> Mapping[str, Any]:
    """`[TABLE.NAME]` of an extension, by name, also where the extension is missing."""
    found = file.extensions.get(table, file.unread.get(table))
    return found if isinstance(found, Mapping) else {}
