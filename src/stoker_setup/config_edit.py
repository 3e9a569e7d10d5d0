"""Changes one part of a configuration's text and nothing else: comments, order and spelling stay. Pure.

Each change is proved by reading the text before and after: the values differ in what was asked for, and only in that.
A text that cannot be changed so is refused, and the person edits it.
"""

from __future__ import annotations

import difflib
import io
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stoker.config.line_numbers import locate
from stoker.domain.errors import StokerError


class EditRefused(StokerError):
    """The text is not changed; the message says why, and what to do."""

    status = 409
    code = "not_edited"


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """A text before and after a change."""

    before: str
    after: str

    def diff(self, name: str) -> str:
        """The changed lines with three around them, as `diff -u` shows them; empty: nothing changes."""
        lines = difflib.unified_diff(
            *([line.rstrip("\r\n") for line in _lines(text)] for text in (self.before, self.after)),
            name, name, lineterm="", n=3,
        )  # fmt: skip
        return "\n".join(lines)


def append_block(text: str, block: str) -> ConfigEdit:
    """`block`, which is one `[[serve]]` or more, perhaps with tables before it, at the end of `text`.

    Raises EditRefused if TOML does not allow it there: `serve` is written in one line, or the table exists.
    """
    newline = _newline(text)
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    after = text + gap + block.rstrip("\n").replace("\n", newline) + newline
    return _proved(text, after, _merged(_read(text), _read(block)), "add the lines by hand")


def remove_serve(text: str, name: str) -> ConfigEdit:
    """Without the `[[serve]]` of this name: its header, its keys and tables, and the comments that touch them.

    A comment that an empty line separates from the serve stays, and one that touches the next table belongs to that.
    What `append_block` added goes with the empty line before it. Raises EditRefused if there is no such serve, or its
    lines do not lie together.
    """
    values = _read(text)
    rows = values.get("serve")
    names = [row.get("name") if isinstance(row, dict) else None for row in rows] if isinstance(rows, list) else []
    if name not in names:
        raise EditRefused(f"there is no [[serve]] with name = {name!r} in the file")
    index = names.index(name)
    lines = _lines(text)
    begin, end = _lines_of(text, lines, index)
    after = "".join([*lines[:begin], *lines[end:]])
    wanted = {**values, "serve": [row for place, row in enumerate(values["serve"]) if place != index]}
    if not wanted["serve"]:
        del wanted["serve"]
    return _proved(text, after, wanted, f"remove the [[serve]] at line {begin + 1} by hand")


def _lines_of(text: str, lines: Sequence[str], index: int) -> tuple[int, int]:
    """Of a serve's `[[serve]]`: its first line, and the line behind its last, counted from 0."""
    places = locate(text)
    header = places["serve", index] - 1
    others = (line - 1 for path, line in places.items() if path[:2] != ("serve", index) and line - 1 > header)
    following = min(others, default=len(lines))
    last = following
    while last > header + 1 and (not lines[last - 1].strip() or _is_comment(lines[last - 1])):
        last -= 1
    own = _values(lines[header:following])
    while _values(lines[header:last]) != own:  # what looks like a comment is the end of a text
        last += 1
    end = last
    while end < following and _is_comment(lines[end]):
        end += 1
    if end == following < len(lines):  # they touch the next table
        end = last
    begin = header
    while begin and _is_comment(lines[begin - 1]):
        begin -= 1
    if end < len(lines) and not lines[end].strip():
        end += 1
    elif end == len(lines) and begin and not lines[begin - 1].strip():
        begin -= 1
    return begin, end


def _values(lines: Sequence[str]) -> dict[str, Any] | None:
    try:
        return tomllib.loads("".join(lines))
    except ValueError:
        return None


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _lines(text: str) -> list[str]:
    """With their ends. A line of TOML ends at a newline, and not at what else Unicode calls the end of a line."""
    return list(io.StringIO(text, newline="\n"))


def _newline(text: str) -> str:
    """As the last line has it that has one."""
    return "\r\n" if text[: text.rfind("\n") + 1].endswith("\r\n") else "\n"


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise EditRefused(f"the file is not TOML ({error}): correct it first") from None


def _merged(values: dict[str, Any], block: dict[str, Any]) -> dict[str, Any]:
    """Lists one behind the other, tables together; what is in both otherwise is that of `block`."""
    found = dict(values)
    for key, value in block.items():
        old = found.get(key)
        if isinstance(old, list) and isinstance(value, list):
            found[key] = [*old, *value]
        elif isinstance(old, dict) and isinstance(value, dict):
            found[key] = _merged(old, value)
        else:
            found[key] = value
    return found


def _proved(before: str, after: str, wanted: dict[str, Any], otherwise: str) -> ConfigEdit:
    """Raises EditRefused if `after` does not say what is wanted."""
    try:
        is_right = tomllib.loads(after) == wanted
    except (ValueError, RecursionError):
        is_right = False
    if not is_right:
        raise EditRefused(f"the file cannot be changed without touching other lines of it: {otherwise}")
    return ConfigEdit(before, after)
