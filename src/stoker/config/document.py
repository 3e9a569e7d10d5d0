"""One configuration file while it is read: its values, the line of each, and the problems."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Sequence
from typing import Any

from stoker.config.line_numbers import locate
from stoker.domain.definition import KeyPath
from stoker.domain.errors import ConfigError
from stoker.domain.nearest import did_you_mean

FEW_NAMES = 50
MOST_SEARCHES = 20
"""How often a mistyped name is looked up among more than `FEW_NAMES`: that takes 20 ms among hundreds."""
_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")


class ConfigDocument:
    """Values with their lines, and a list of the problems found so far."""

    def __init__(self, text: str, shown: str) -> None:
        """`shown` is the file's name in messages. Raises ConfigError when `text` is not TOML."""
        self.shown = shown
        try:
            self.raw: dict[str, Any] = tomllib.loads(text)
            self.lines = locate(text)
        except RecursionError:
            raise ConfigError([f"{shown}:1: not TOML: nested too deep"]) from None
        except ValueError as error:  # TOMLDecodeError, and what int() and the date types refuse
            raise ConfigError([_syntax(error, text, shown)]) from None
        self._titles: dict[KeyPath, str] = {
            (section, i): _title(row) for section in ("serve", "tier") for i, row in enumerate(_rows(self.raw, section))
        }
        for i, row in enumerate(_rows(self.raw, "serve")):
            for j, variant in enumerate(_rows(row, "variant") if isinstance(row, dict) else ()):
                self._titles["serve", i, "variant", j] = _title(variant)
        front_door = self.raw.get("front_door")
        if isinstance(front_door, dict):
            for i, row in enumerate(_rows(front_door, "keys")):
                self._titles["front_door", "keys", i] = _title(row)
        self._searches = 0
        self._problems: list[tuple[int, str]] = []
        self._spoiled: set[KeyPath] = set()
        self._spoiled_keys: dict[KeyPath, list[str]] = {}
        """By table."""

    def problem(self, path: KeyPath, text: str) -> None:
        """Add a finding about the value at `path`, which need not be there: then its table's line is given."""
        self._problems.append((self.line(path), f"key '{self.title(path)}': {text}"))

    def text(self, path: KeyPath, text: str) -> str:
        """A finding about the value at `path`, as `problems` shows it, without adding it."""
        return f"{self.shown}:{self.line(path)}: key '{self.title(path)}': {text}"

    def did_you_mean(self, word: str, known: Collection[str]) -> str:
        """As `domain.nearest.did_you_mean`; empty after many searches, so that a file with hundreds of them is checked
        in a second.
        """
        if len(known) > FEW_NAMES:
            self._searches += 1
            if self._searches > MOST_SEARCHES:
                return ""
        return did_you_mean(word, known)

    def problems(self) -> list[str]:
        """All findings, in the order of the file; none twice."""
        ordered = dict.fromkeys(sorted(self._problems, key=lambda finding: finding[0]))
        return [f"{self.shown}:{line}: {text}" for line, text in ordered]

    def line(self, path: KeyPath) -> int:
        """The line of `path`, or of the nearest table around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def title(self, path: KeyPath) -> str:
        """`serve[fast].port`: rows by their name, where they have one."""
        title = ""
        for depth, part in enumerate(path, start=1):
            if isinstance(part, int):
                title += f"[{self._titles.get(path[:depth]) or f'#{part + 1}'}]"
            else:
                title += f".{part}" if title else part
        return title

    def spoil(self, path: KeyPath) -> None:
        """Forget the value at `path`, or the list that it is in, so that the rest can still be checked. `is_spoiled`
        remembers.
        """
        while path and not isinstance(path[-1], str):
            path = path[:-1]
        if self.holds(path):  # else another item of a list around it was wrong, too
            table: Any = self.raw
            for part in path[:-1]:
                table = table[part]
            del table[path[-1]]
        self._spoiled.add(path)
        self._spoiled_keys.setdefault(path[:-1], []).append(str(path[-1]))

    def rename(self, path: KeyPath, new: str) -> None:
        """Give the key at `path` a new name in the same table. Its value must be no table or list."""
        table: Any = self.raw
        for part in path[:-1]:
            table = table[part]
        table[new] = table.pop(path[-1])
        if path in self.lines:
            self.lines[*path[:-1], new] = self.lines.pop(path)

    def spoiled_keys(self, path: KeyPath) -> Sequence[str]:
        """The keys of the table at `path` that were already reported."""
        return self._spoiled_keys.get(path, ())

    def is_spoiled(self, path: KeyPath) -> bool:
        """Whether the value at `path`, or a table around it, was already reported."""
        return bool(self._spoiled) and any(path[:depth] in self._spoiled for depth in range(1, len(path) + 1))

    def holds(self, path: KeyPath) -> bool:
        """Whether there is a value at `path` now."""
        value: Any = self.raw
        for part in path:
            if isinstance(value, dict):
                if part not in value:
                    return False
            elif not isinstance(value, list) or not isinstance(part, int) or part >= len(value):
                return False
            value = value[part]
        return True


def _rows(table: dict[str, Any], key: str) -> list[Any]:
    rows = table.get(key)
    return rows if isinstance(rows, list) else []


def _title(row: Any) -> str:
    name = row.get("name") if isinstance(row, dict) else None
    return name if isinstance(name, str) and name.isprintable() and len(name) <= 64 else ""


def _syntax(error: ValueError, text: str, shown: str) -> str:
    """tomllib gives the place at the end of its message, if at all."""
    message = str(error)
    place = _PLACE.search(message)
    if place is None:
        return f"{shown}:1: not TOML: {message}"
    line = int(place[1]) if place[1] else text.rstrip("\n").count("\n") + 1
    column = f" (column {place[2]})" if place[2] else " (at the end of the file)"
    return f"{shown}:{line}: not TOML: {_PLACE.sub('', message)}{column}"
