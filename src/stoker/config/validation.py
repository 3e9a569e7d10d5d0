"""Reads the whole file by its tables. A wrong value is reported and removed, so that the rest is still checked."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from stoker.config.document import ConfigDocument
from stoker.config.sections import SHIPPED, extension_sections, section
from stoker.config.tables.file import File
from stoker.domain.definition import UNKNOWN, WRONG, KeyPath, keys_at, read
from stoker.domain.nearest import did_you_mean


def check(doc: ConfigDocument) -> File:
    """The file without its wrong values, which are in `doc.problems()`. Raises nothing."""
    wrong: dict[KeyPath, str] = {}

    def report(path: KeyPath, text: str) -> None:
        wrong.setdefault(path, unknown_key(path) if text == UNKNOWN else text)

    sections = {name: found for name in doc.raw if (found := section(name)) is not None}
    unread = {name: value for name, value in doc.raw.items() if name in SHIPPED and name not in sections}
    own = {name: value for name, value in doc.raw.items() if name not in sections and name not in unread}
    brought: dict[str, Any] = {
        name: found.kind.read(doc.raw[name], (name,), report) for name, found in sections.items()
    }
    brought = {name: table for name, table in brought.items() if table is not WRONG}
    file = msgspec.structs.replace(read(File, own, (), report), extensions=brought, unread=unread)
    for path, text in wrong.items():
        doc.problem(path, text)
    for path in wrong:
        doc.spoil(path)
    return file


def unknown_key(path: KeyPath) -> str:
    key = str(path[-1])
    found = section(str(path[0]))
    if found is None:
        known = keys_at(File, path[:-1])
        if len(path) == 1:
            known = [*{*known, *SHIPPED, *extension_sections()}]
    else:
        known = keys_at(found.table, path[2 if found.by_name else 1 : -1])
    hint = did_you_mean(key, known)
    if not hint and key in _homes():
        hint = f"; did you mean '{_homes()[key]}'?"
    return f"{UNKNOWN}{hint or '; known here: ' + ', '.join(sorted(known))}"


@cache
def _homes() -> dict[str, str]:
    """The full name of each key that only one section has, as a hint for a key in the wrong section."""
    homes: dict[str, list[str]] = {}
    for title, path in {
        "": (),
        "front_door.": ("front_door",),
        "paths.": ("paths",),
        "swap.": ("swap",),
        "slots.NAME.": ("slots", "NAME"),
        "serve.": ("serve", 0),
        "warm.": ("warm",),
        "watchdog.": ("watchdog",),
        "conversations.": ("conversations",),
        "router.": ("router",),
    }.items():
        for key in keys_at(File, path):
            homes.setdefault(key, []).append(f"{title}{key}")
    for key in keys_at(File, ("tier", 0)):  # what a tier shares with a serve is sooner meant for the serve
        homes.setdefault(key, [f"tier.{key}"])
    return {key: places[0] for key, places in homes.items() if len(places) == 1}
