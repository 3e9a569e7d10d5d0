"""The settings of a serve as a form: its fields from the configuration's own schema, its values from the file. Pure.

Keys that name programs, files or other machines are not among them, nor are tables: who has an `admin` key over the
network could otherwise run any command as Stoker's user. They are changed in the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.config.line_numbers import locate
from stoker.domain.errors import ClientError
from stoker_setup.config_edit import Value

IN_FILE_ALONE = frozenset((
    "name", "engine", "model", "abstract", "extends", "driver", "cmd", "stop", "up", "cwd", "env", "inherit_env",
    "extra_args", "container", "unit", "requires", "conflicts", "trust_remote_code", "source", "sha256", "mmproj",
    "adapters", "speculative", "chat_template", "base_url", "base_path", "key", "key_header", "host", "port",
    "rendezvous", "health", "probe", "identity",
))  # fmt: skip
LONGEST_TEXT, MOST_ITEMS = 4096, 100
_PLACE = re.compile(r"^.*?:(\d+): ")


def fields(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the form has, in the schema's order: `name`, `kind` (boolean, integer, number, text, list, or choice with
    `choices`), `description`, `default` or None, and where they are known `minimum`, `maximum`, `examples`.
    """
    rows = schema["$defs"]["ServeRow"]["properties"]
    return [
        {"name": name, "description": row.get("description", ""), "default": row.get("default"), **_kind(row)}
        for name, row in rows.items()
        if name not in IN_FILE_ALONE and _kind(row)
    ]


def _kind(row: Mapping[str, Any]) -> dict[str, Any]:
    """Empty: no field of a form."""
    ways = row.get("oneOf")
    if ways:  # a number, or a word
        words = [one["const"] for one in ways if "const" in one]
        return {"kind": "text", "examples": [str(word) for word in words]} if words else {}
    limits = {
        name: row[name] for name in ("minimum", "maximum", "exclusiveMinimum", "examples", "pattern") if name in row
    }
    match row.get("type"):
        case "boolean" | "integer" | "number" as kind:
            return {"kind": kind, **limits}
        case "string" if "enum" in row:
            return {"kind": "choice", "choices": list(row["enum"])}
        case "string":
            return {"kind": "text", **limits}
        case "array" if row.get("items", {}).get("type") == "string":
            return {"kind": "list", "choices": list(row["items"].get("enum", ()))}
    return {}


def row_of(text: str, name: str) -> dict[str, Any]:
    """The `[[serve]]` of this name, as it is written. Raises ClientError 404."""
    rows = tomllib.loads(text).get("serve", [])
    found = next((row for row in rows if isinstance(row, dict) and row.get("name") == name), None)
    if found is None:
        raise ClientError(f"the file has no [[serve]] {name[:60]!r}", code="unknown_serve", status=404)
    return found


def checked(values: Mapping[str, Any], known: Sequence[Mapping[str, Any]]) -> dict[str, Value | None]:
    """What is to be written. Raises ClientError for a key that the form has not, and a value that no field has."""
    names = {one["name"]: one for one in known}
    found: dict[str, Value | None] = {}
    for name, value in values.items():
        if name not in names:
            text = f"'{name[:60]}' is no setting that can be changed here: change it in the file"
            raise ClientError(text, code="not_in_form", param=name[:60])
        if isinstance(value, str):
            fits = len(value) <= LONGEST_TEXT
        elif isinstance(value, list):
            are_texts = all(isinstance(one, str) and len(one) <= LONGEST_TEXT for one in value)
            fits = len(value) <= MOST_ITEMS and are_texts
        else:
            fits = value is None or isinstance(value, bool | int | float)
        if not fits:
            raise ClientError(f"'{name}' has a value that no setting has", code="bad_field", param=name)
        found[name] = _number(value) if isinstance(value, str) and _takes_number(names[name]) else value
    return found


def _takes_number(field: Mapping[str, Any]) -> bool:
    return field["kind"] == "text" and field.get("examples") == ["auto"]


def _number(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdigit() else text


def placed(problems: Sequence[str], text: str, name: str) -> list[dict[str, str | None]]:
    """Problems of the changed text, each with the key of this serve that is at its line, and without its place."""
    rows = tomllib.loads(text).get("serve", [])
    index = next((place for place, row in enumerate(rows) if isinstance(row, dict) and row.get("name") == name), -1)
    keys = {
        line: str(path[2]) for path, line in locate(text).items() if path[:2] == ("serve", index) and len(path) == 3
    }
    found: list[dict[str, str | None]] = []
    for problem in problems:
        match = _PLACE.match(problem)
        key = keys.get(int(match[1])) if match else None
        if key is None:
            key = next((one for one in keys.values() if f"'{name}'" in problem and f"`{one}`" in problem), None)
        found.append({"field": key, "message": problem[match.end() :] if match else problem})
    return found
