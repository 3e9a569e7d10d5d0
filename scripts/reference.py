"""The tables of docs/reference, and share: what is made from the code.   scripts/reference.py [--write]

Fills what stands between `<!-- generated: NAME -->` and `<!-- end generated -->`, and writes the manual page and the
completions. Without --write it says which files are not in step, and exits 1 if one is not.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import man_page

from stoker.cli.main import command_tree
from stoker.config.effective import schema
from stoker_lab.preflight.table import CHECKS
from stoker_lab.testing.script import quirks, script

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
BLOCK = re.compile(r"(<!-- generated: (\w+)(?: ([\w. -]+?))? -->\n).*?(<!-- end generated -->)", re.DOTALL)
LARGE = 2**31
BAR = "\\|"
"""A bar in a cell of a table."""
WORDS = {"string": "text", "boolean": "true or false", "object": "table"}


@cache
def configuration() -> dict[str, Any]:
    return schema()


@cache
def commands() -> Any:
    return command_tree()


def keys_of(table: str) -> str:
    """The keys of one table of the configuration, or with no name the sections of the file."""
    found = configuration()
    properties = found["$defs"][table]["properties"] if table else found["properties"]
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key, node in properties.items():
        meaning = node.get("description", "").replace("|", "\\|")
        rows.append(f"| `{key}` | {kind_of(node)} | {default_of(node)} | {meaning} |")
    return "\n".join(rows)


def kind_of(node: dict[str, Any]) -> str:
    """The type of a key in words."""
    if options := node.get("anyOf") or node.get("oneOf"):
        return " or ".join(kind_of(option) for option in options)
    if "enum" in node:
        return " or ".join(f"`{word}`" for word in node["enum"])
    if "const" in node:
        return f"`{node['const']}`"
    kind = node.get("type", "table")
    if isinstance(kind, list):
        return " or ".join(dict.fromkeys(kind_of({**node, "type": one}) for one in kind if one != "null"))
    if kind == "array":
        return f"list of {several(kind_of(node.get('items', {})))}"
    if kind in ("integer", "number"):
        return ("whole number" if kind == "integer" else "number") + bounds(node)
    values = node.get("additionalProperties") if kind == "object" else None
    if values and "$ref" in values:
        return "tables by name"
    if values is not None and values is not False:
        return f"table of {several(kind_of(values))}"
    return measure_of(node.get("examples", [])) or WORDS.get(kind, str(kind))


def several(kind: str) -> str:
    """The plural of a type; literal values have none."""
    if "`" in kind:
        return kind
    kinds = kind.replace(WORDS["boolean"], "boolean").split(" or ")
    return " or ".join(f"{first}s{of}{rest}" for first, of, rest in (one.partition(" of ") for one in kinds))


def measure_of(examples: list[Any]) -> str:
    """`size` or `duration` with the words that may stand instead; empty: neither."""
    texts = [text for text in examples if isinstance(text, str)]
    words = [f'`"{text}"`' for text in texts if text.isalpha()]
    sizes, times = (any(re.fullmatch(unit, text) for text in texts) for unit in (r"[\d.]+[KMGT]?i?B", r"\d+(ms|s|m|h)"))
    return " or ".join([*(["size"] if sizes else ["duration"] if times else []), *words]) if sizes or times else ""


def bounds(node: dict[str, Any]) -> str:
    low, high = node.get("minimum", node.get("exclusiveMinimum")), node.get("maximum")
    if high is not None and high < LARGE:
        return f", {'above ' if 'exclusiveMinimum' in node else ''}{low:g} to {high:g}"
    return f", at least {low:g}" if low else ""


def default_of(node: dict[str, Any]) -> str:
    default = node.get("default")
    return "\N{EN DASH}" if default is None else "empty" if default == {} else f"`{json.dumps(default)}`"


SHARED = {"--config", "--state", "--json", "--dry-run", "--help"}
"""Options that many commands have: described once, at the top of the page."""


def options_of(words: str) -> str:
    """What a command does, in the words of its help; its arguments and options, but for those that many share."""
    command = commands()
    for word in words.split():
        command = command.commands[word]
    rows = []
    for parameter in command.params:
        if SHARED.isdisjoint(parameter.opts):
            rows.append(f"| {spelling_of(parameter)} | {(parameter.help or '').replace('|', chr(92) + '|')} |")
    table = "\n".join(["| option | meaning |", "|---|---|", *rows]) if rows else "Only the shared options."
    return f"{' '.join(command.help.split())}\n\n{table}"


def spelling_of(parameter: Any) -> str:
    names = [name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("-")]
    value = parameter.metavar or ("TEXT" if parameter.type.name == "text" else "N")
    if not names:
        return f"`{(parameter.metavar or parameter.name.upper()).replace('|', BAR)}`"
    return ", ".join(f"`{name}`" if parameter.is_flag else f"`{name} {value}`" for name in names)


def checks(_: str) -> str:
    rows = ["| check | proves | cannot see |", "|---|---|---|"]
    return "\n".join([*rows, *(f"| `{check.name}` | {check.proves} | {check.cannot_see} |" for check in CHECKS)])


TABLES: dict[str, Callable[[str], str]] = {
    "config": keys_of,
    "checks": checks,
    "options": options_of,
    "script": lambda _: script.table(),
    "quirks": lambda _: quirks.table(),
}


def filled(text: str) -> str:
    """The page with its tables as they should be. Blocks of other scripts stay as they are."""

    def fill(block: re.Match[str]) -> str:
        make = TABLES.get(block[2])
        return block[0] if make is None else f"{block[1]}{make(block[3] or '').strip()}\n{block[4]}"

    return BLOCK.sub(fill, text)


def main() -> int:
    texts = {page: filled(page.read_text()) for page in sorted(REFERENCE.glob("*.md"))} | man_page.generated()
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if "--write" in sys.argv[1:]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path])
        else:
            print(f"{path.relative_to(ROOT)} is not in step: run scripts/reference.py --write")
    return int(bool(stale) and "--write" not in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
