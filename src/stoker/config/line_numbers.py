"""The line of every key in a TOML text, which tomllib does not keep."""

from __future__ import annotations

import re

from stoker.domain.definition import KeyPath

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN_LINE = re.compile(r"""[ \t]*([A-Za-z0-9_-]+)[ \t]*=[ \t]*(?:"[^"\\\n]*"|'[^'\n]*'|[A-Za-z0-9_.:+-]+)[ \t]*\n""")
"""A bare key with a value that ends on its line: what most lines of a long file are."""
_SCALAR = re.compile(r"[^,\]}#\n]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


def locate(text: str) -> dict[KeyPath, int]:
    """Lines, counted from 1, of every table, key and list item of a text that tomllib has accepted.

    A table that is opened more than once keeps the line of its first mention. What the result is for
    a text that is not TOML is not promised.
    """
    return _Scanner(text).scan()


class _Scanner:
    """One pass over a valid text. It knows just enough TOML to find where values end."""

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self.at = 0
        self.line = 1
        self.lines: dict[KeyPath, int] = {}
        self.rows: dict[KeyPath, int] = {}
        """How many times each [[array of tables]] was opened, so far."""

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self.skip_blank()
        while self.at < len(self.text):
            if (plain := _PLAIN_LINE.match(self.text, self.at)) is not None:
                self.mark((*table, plain[1]))
                self.at = plain.end()
                self.line += 1
            elif self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)
            self.skip_blank()
        return self.lines

    def header(self) -> KeyPath:
        """`[a.b]` or `[[a.b]]`; returns where its keys belong."""
        rows = self.text.startswith("[[", self.at)
        self.move(2 if rows else 1)
        *parents, last = self.key()
        self.move(2 if rows else 1)
        path: KeyPath = ()
        for name in parents:
            path = self.enter((*path, name))
        path = (*path, last)
        self.mark(path)
        if rows:
            self.rows[path] = self.rows.get(path, 0) + 1
        path = self.enter(path)
        self.mark(path)
        return path

    def enter(self, path: KeyPath) -> KeyPath:
        """The table that `path` means now: the last row, where it is an array of tables."""
        self.mark(path)
        return (*path, self.rows[path] - 1) if path in self.rows else path

    def pair(self, table: KeyPath) -> None:
        path = table
        for name in self.key():
            path = (*path, name)
            self.mark(path)
        self.move(1)
        self.skip_blank()
        self.value(path)

    def key(self) -> list[str]:
        """A dotted key; stops before `=` or `]`."""
        names: list[str] = []
        while True:
            self.skip_blank()
            if self.text[self.at] in "\"'":
                names.append(self.string())
            else:
                bare = _BARE.match(self.text, self.at)
                assert bare is not None, f"no key at line {self.line}"
                names.append(bare.group())
                self.move(len(bare.group()))
            self.skip_blank()
            if self.text[self.at] != ".":
                return names
            self.move(1)

    def value(self, path: KeyPath) -> None:
        char = self.text[self.at]
        if char in "\"'":
            self.string()
        elif char == "[":
            self.items(path)
        elif char == "{":
            self.inline(path)
        else:
            scalar = _SCALAR.match(self.text, self.at)
            assert scalar is not None, f"no value at line {self.line}"
            self.move(len(scalar.group()))

    def items(self, path: KeyPath) -> None:
        self.move(1)
        index = 0
        while self.next_item("]"):
            self.mark((*path, index))
            self.value((*path, index))
            index += 1

    def inline(self, path: KeyPath) -> None:
        self.move(1)
        while self.next_item("}"):
            self.pair(path)

    def next_item(self, end: str) -> bool:
        """Past blanks and a comma; False, and past `end`, when there is no further item."""
        self.skip_blank()
        if self.text[self.at] == ",":
            self.move(1)
            self.skip_blank()
        if self.text[self.at] != end:
            return True
        self.move(1)
        return False

    def string(self) -> str:
        """The decoded text of a string of any of the four kinds. Keys need it decoded; values only its end."""
        quote = self.text[self.at]
        long = self.text.startswith(quote * 3, self.at)
        mark = quote * 3 if long else quote
        start = end = self.at + len(mark)
        while not self.text.startswith(mark, end):
            end += 2 if quote == '"' and self.text[end] == "\\" else 1
        # Up to two quotes may stand right before the closing three.
        while long and self.text.startswith(mark, end + 1):
            end += 1
        raw = self.text[start:end]
        self.move(end + len(mark) - self.at)
        return raw if quote == "'" else _ESCAPE.sub(_unescape, raw)

    def skip_blank(self) -> None:
        while self.at < len(self.text):
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.move((len(self.text) if end < 0 else end) - self.at)
            elif self.text[self.at] in " \t\n":
                self.move(1)
            else:
                return

    def move(self, count: int) -> None:
        self.line += self.text.count("\n", self.at, self.at + count)
        self.at += count

    def mark(self, path: KeyPath) -> None:
        self.lines.setdefault(path, self.line)


def _unescape(match: re.Match[str]) -> str:
    short, long, char = match.groups()
    return chr(int(short or long, 16)) if short or long else _ESCAPED.get(char, "")
