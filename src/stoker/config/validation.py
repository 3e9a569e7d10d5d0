"""Validates each section. A wrong value is reported and removed, so that the rest is still checked."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from stoker.config.document import ConfigDocument
from stoker.config.line_numbers import KeyPath
from stoker.config.tables.file import File
from stoker.config.tables.value_checks import kind
from stoker.domain.nearest import did_you_mean


def check(doc: ConfigDocument) -> File:
    """The file without its wrong values, which are in `doc.problems()`. Raises nothing."""
    while True:
        try:
            return File.model_validate(doc.raw)
        except ValidationError as error:
            findings: dict[KeyPath, ErrorDetails] = {}
            for finding in error.errors(include_url=False):  # several of one value if it may have several types
                findings.setdefault(_path(doc, finding["loc"]), finding)
            for path, finding in findings.items():
                doc.problem(path, _sentence(path, finding))
            for path in findings:
                doc.spoil(path)


def _path(doc: ConfigDocument, loc: tuple[int | str, ...]) -> KeyPath:
    """`loc` without what pydantic adds behind the value's own place (`[key]`)."""
    path: KeyPath = loc
    while not doc.holds(path):
        path = path[:-1]
    return path


def _sentence(path: KeyPath, finding: ErrorDetails) -> str:
    """What is wrong. It never contains the value itself, except in messages of our own checks."""
    limits = finding.get("ctx", {})
    given = kind(finding["input"])
    match finding["type"]:
        case "extra_forbidden":
            return _unknown(path)
        case "value_error":
            return str(limits["error"])
        case "greater_than_equal":
            return f"is too small: at least {limits['ge']}"
        case "greater_than":
            return f"is too small: more than {limits['gt']}"
        case "less_than_equal":
            return f"is too large: at most {limits['le']}"
        case "int_type":
            return f"must be a whole number, not {given}"
        case "float_type" | "finite_number":
            return f"must be a number, not {given}"
        case "bool_type":
            return f"must be true or false, without quotes, not {given}"
        case "list_type":
            return _wants_list(path, given)
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"must be a table, not {given}"
        case _:
            return f"is not accepted: {finding['msg']}"


def _wants_list(path: KeyPath, given: str) -> str:
    if path in (("serve",), ("tier",)):
        return f"must be an array of tables, not {given}: write [[{path[0]}]] with double brackets"
    return f"must be a list in brackets, not {given}"


def _unknown(path: KeyPath) -> str:
    key = str(path[-1])
    known = keys_of(path[:-1])
    hint = did_you_mean(key, known)
    if not hint and key in _homes():
        hint = f"; did you mean '{_homes()[key]}'?"
    return f"unknown key{hint or '; known here: ' + ', '.join(sorted(known))}"


def keys_of(path: KeyPath) -> list[str]:
    """The keys that the table at `path` may have; empty where any name goes."""
    node = _schema()
    for part in path:
        node = _resolved(node["items"] if isinstance(part, int) else node.get("properties", {}).get(part) or _any(node))
    return list(node.get("properties", {}))


def _any(node: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = node["additionalProperties"]
    return values


def _resolved(node: dict[str, Any]) -> dict[str, Any]:
    for option in node.get("anyOf", ()):
        if option.get("type") != "null":
            node = option
    reference = node.get("$ref")
    found: dict[str, Any] = _schema()["$defs"][reference.rpartition("/")[2]] if reference else node
    return found


@cache
def _schema() -> dict[str, Any]:
    return File.model_json_schema()


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
        for key in keys_of(path):
            homes.setdefault(key, []).append(f"{title}{key}")
    for key in keys_of(("tier", 0)):  # what a tier shares with a serve is sooner meant for the serve
        homes.setdefault(key, [f"tier.{key}"])
    return {key: places[0] for key, places in homes.items() if len(places) == 1}
