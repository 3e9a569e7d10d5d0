"""Changes one part of a configuration's text and nothing else: comments, order and spelling stay. Pure.

Each change is proved by reading the text before and after: the values differ in what was asked for, and only in that.
A text that cannot be changed so is refused, and the person edits it.
"""

from __future__ import annotations

import difflib
import io
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.config.line_numbers import locate
from stoker.domain.errors import StokerError

Value = bool | int | float | str | list[str]


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
        before, after = ([line.rstrip("\r\n") for line in _lines(text)] for text in (self.before, self.after))
        return "\n".join(difflib.unified_diff(before, after, name, name, lineterm="", n=3))


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
    index = _index_of(values, name)
    lines = _lines(text)
    begin, end = _lines_of(text, lines, index)
    after = "".join([*lines[:begin], *lines[end:]])
    wanted = {**values, "serve": [row for place, row in enumerate(values["serve"]) if place != index]}
    if not wanted["serve"]:
        del wanted["serve"]
    return _proved(text, after, wanted, f"remove the [[serve]] at line {begin + 1} by hand")


def change_serve(text: str, name: str, changes: Mapping[str, Value | None]) -> ConfigEdit:
    """The `[[serve]]` of this name with other values for keys of its own; None: without the key.

    A key that is there keeps its place, its spelling and the comment behind it; a new one comes behind the others.
    Raises EditRefused as `remove_serve` does.
    """
    values = _read(text)
    index = _index_of(values, name)
    wanted = {**values["serve"][index]}
    lines = _lines(text)
    newline = _newline(text)
    otherwise = f"change the [[serve]] '{name}' by hand"
    for key, value in changes.items():
        places = locate("".join(lines))
        header = places["serve", index] - 1
        if not lines[header].lstrip().startswith("[["):
            raise EditRefused(f"the serve '{name}' has no [[serve]] of its own in the file: {otherwise}")
        own = {path[2]: line - 1 for path, line in places.items() if path[:2] == ("serve", index) and len(path) == 3}
        if key in own:
            begin = own[key]
            end = _end_of_value(lines, begin)
            lines[begin:end] = [] if value is None else [_changed_line(lines[begin:end], value, newline)]
        elif value is not None:
            tables = [line for line in own.values() if lines[line].lstrip().startswith("[")]
            last = max([line for line in own.values() if line < min(tables, default=len(lines))], default=header)
            end = _end_of_value(lines, last) if last != header else header + 1
            if not lines[end - 1].endswith("\n"):
                lines[end - 1] += newline
            lines.insert(end, f"{key} = {_toml(value)}{newline}")
        if value is None:
            wanted.pop(key, None)
        else:
            wanted[key] = value
        rows = [wanted if place == index else row for place, row in enumerate(values["serve"])]
        _proved(text, "".join(lines), {**values, "serve": rows}, otherwise)
    return ConfigEdit(text, "".join(lines))


def _end_of_value(lines: Sequence[str], begin: int) -> int:
    """The line behind the last one of the key that begins at `begin`."""
    for end in range(begin + 1, len(lines) + 1):
        if _values(lines[begin:end]) is not None:
            return end
    return begin + 1


def _changed_line(old: Sequence[str], value: Value, newline: str) -> str:
    """One line, with the key as it is written and what stands behind its value."""
    before = old[0].partition("=")[0]
    spaces = old[0].partition("=")[2]
    last = old[-1].rstrip("\r\n")
    now = _values(old)
    comments = (at for at, sign in enumerate(last) if sign == "#" and _values([*old[:-1], last[:at]]) == now)
    at = next(comments, len(last))
    while at and last[at - 1] in " \t":
        at -= 1
    gap = spaces[: len(spaces) - len(spaces.lstrip(" \t"))]
    return f"{before}={gap}{_toml(value)}{last[at:]}{newline if old[-1].endswith(newline) else ''}"


def _toml(value: Value) -> str:
    """JSON's numbers, texts and lists of them are TOML's."""
    return json.dumps(value, ensure_ascii=False)


def _index_of(values: Mapping[str, Any], name: str) -> int:
    """Raises EditRefused."""
    rows = values.get("serve")
    names = [row.get("name") if isinstance(row, dict) else None for row in rows] if isinstance(rows, list) else []
    if name not in names:
        raise EditRefused(f"there is no [[serve]] with name = {name!r} in the file")
    return names.index(name)


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
