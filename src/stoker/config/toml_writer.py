"""Plain values to TOML text: tables, rows of tables, lists, text, numbers, true and false; no dates."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_WIDTH = 100


def render(table: Mapping[str, Any]) -> str:
    """A document that tomllib reads back to `table`. No value may be None."""
    lines: list[str] = []
    _table(lines, (), table)
    return "\n".join(lines).strip("\n") + "\n"


def _table(lines: list[str], path: tuple[str, ...], table: Mapping[str, Any]) -> None:
    """Plain values come first: after the header of a sub-table they would belong to it."""
    for key, value in table.items():
        if not _is_section(path, value):
            lines.append(f"{_key(key)} = {_value(value)}")
    for key, value in table.items():
        if not _is_section(path, value):
            continue
        inner = (*path, key)
        title = ".".join(map(_key, inner))
        for row in value if isinstance(value, list) else (value,):
            if not isinstance(value, list) and row and all(_is_section(inner, item) for item in row.values()):
                _table(lines, inner, row)  # nothing of its own: its sub-tables' headers imply it
                continue
            lines += ["", f"[[{title}]]" if isinstance(value, list) else f"[{title}]"]
            _table(lines, inner, row)


def _is_section(path: tuple[str, ...], value: Any) -> bool:
    """Tables get a header near the top; inside a row they stay on one line."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, Mapping) for item in value)
    return isinstance(value, Mapping) and path[:1] not in (("serve",), ("tier",))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return _list([_value(item) for item in value])
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return repr(value)


def _list(items: list[str]) -> str:
    line = f"[{', '.join(items)}]"
    return line if len(line) <= _WIDTH else "[\n" + "".join(f"  {item},\n" for item in items) + "]"


def _text(text: str) -> str:
    """JSON's escapes are TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
