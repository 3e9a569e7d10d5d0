"""Reads the whole file by its tables. A wrong value is reported and removed, so that the rest is still checked."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from stoker.config.definition import UNKNOWN, WRONG, keys_at, read
from stoker.config.document import ConfigDocument
from stoker.config.line_numbers import KeyPath
from stoker.config.sections import extension_sections
from stoker.config.tables.file import File
from stoker.domain.nearest import did_you_mean


def check(doc: ConfigDocument) -> File:
    """The file without its wrong values, which are in `doc.problems()`. Raises nothing."""
    wrong: dict[KeyPath, str] = {}

    def report(path: KeyPath, text: str) -> None:
        wrong.setdefault(path, unknown_key(path) if text == UNKNOWN else text)

    sections = extension_sections()
    file = read(File, {name: value for name, value in doc.raw.items() if name not in sections}, (), report)
    brought: dict[str, Any] = {
        name: section.kind.read(doc.raw[name], (name,), report) for name, section in sections.items() if name in doc.raw
    }
    file = msgspec.structs.replace(file, extensions={name: one for name, one in brought.items() if one is not WRONG})
    for path, text in wrong.items():
        doc.problem(path, text)
    for path in wrong:
        doc.spoil(path)
    return file


def unknown_key(path: KeyPath) -> str:
    key = str(path[-1])
    section = extension_sections().get(str(path[0]))
    if section is None:
        known = keys_at(File, path[:-1])
    else:
        known = keys_at(section.table, path[2 if section.by_name else 1 : -1])
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
