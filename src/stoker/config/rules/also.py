"""Rules about `also`, the endpoints elsewhere that serve the same model."""

from __future__ import annotations

from urllib.parse import urlsplit

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry, also_name
from stoker.config.tables.file import File
from stoker.domain.definition import KeyPath
from stoker.domain.serve import MAIN, AlsoServed


def check_also(doc: ConfigDocument, file: File, entries: list[ServeEntry]) -> None:
    """1 the address is given, and is not Stoker's own  2 each replica has a name of its own  3 what belongs to one
    process only is left out
    """
    for entry in entries:
        table = entry.table
        if table.abstract or not table.also:
            continue
        taken = {slot: f"slot '{slot}'" for slot in (table.slot, *table.slots) if slot is not None}
        taken = taken or {MAIN: "the serve's own replica"}
        for place, also in enumerate(table.also):
            path = (*entry.at("also"), place)
            _check_address(doc, file, path, also)  # 1
            name = also_name(also)
            if also.base_url and name in taken:  # 2
                text = f"its replica would be called '{entry.name}@{name}', as that of {taken[name]}; give it a `name`"
                doc.problem((*path, "name"), text)
            elif also.base_url and not name:
                doc.problem((*path, "name"), "has no usable host name for its replica; give it a `name`")
            taken.setdefault(name, f"`also` number {place + 1}")
        if table.keep_conversations and doc.holds(entry.at("keep_conversations")):  # 3
            text = "cannot be used with `also`: another replica cannot restore what one saved; remove one of the two"
            doc.problem(entry.at("keep_conversations"), text)


def _check_address(doc: ConfigDocument, file: File, path: KeyPath, also: AlsoServed) -> None:
    if not also.base_url:
        if not doc.is_spoiled((*path, "base_url")):
            doc.problem(path, "`base_url` is missing; every endpoint of `also` needs one")
        return
    url = urlsplit(also.base_url)
    if url.port == file.front_door.port and url.hostname in ("127.0.0.1", "localhost", "::1", file.front_door.host):
        doc.problem((*path, "base_url"), f"is this Stoker itself (port {url.port}); name another machine")
