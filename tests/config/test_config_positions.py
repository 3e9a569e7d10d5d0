"""Every key and item of a TOML text has a line, whatever TOML's corners do."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from stoker.config.line_numbers import locate
from stoker.domain.definition import KeyPath

CORNERS = '''# comment with [brackets] and = signs
top = 1   # "quotes" in a comment
"quoted key" = 'lit # eral'
"esc\\u0061ped\\t" = true
a.b . "c.d" = 2

[ table . "with space" ]
text = """
[not.a.table]
x = 1 # no comment
escaped \\""" still inside
two quotes at the end"""""
lit = \'\'\'
[[nor.this]]
''\'\'\'
after = 1979-05-27T07:32:00Z

[[rows]]
list = [ 1, # one
  [2, 3], "]",

  { k = "}", nested = { deep = [ "x" ] } }, # trailing comma
]
[rows.sub]
x = 1
[[rows.inner]]
y = 1
[[rows.inner]]
y = 2
[[rows]]
list = []
empty = {}
[[rows.inner]]
y = 3
[late]
[late.x.y]
z = inf'''


def paths(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if path:
        yield path
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


def line_of(text: str, start: str, which: int = 0) -> int:
    return [n for n, line in enumerate(text.splitlines(), 1) if line.startswith(start)][which]


@pytest.mark.parametrize("text", [CORNERS, CORNERS.replace("\n", "\r\n")], ids=["lf", "crlf"])
def test_nothing_in_a_file_is_without_a_line(text: str) -> None:
    assert set(paths(tomllib.loads(text))) == set(locate(text))


@pytest.mark.parametrize(
    ("path", "start", "which"),
    [
        (("top",), "top", 0),
        (("quoted key",), '"quoted', 0),
        (("escaped\t",), '"esc', 0),
        (("a", "b", "c.d"), "a.b", 0),
        (("table", "with space", "text"), "text", 0),
        (("table", "with space", "lit"), "lit", 0),
        (("table", "with space", "after"), "after", 0),
        (("rows", 0), "[[rows]]", 0),
        (("rows", 0, "list", 1, 1), "  [2, 3]", 0),
        (("rows", 0, "list", 3, "nested", "deep", 0), "  { k", 0),
        (("rows", 0, "sub", "x"), "x = 1", 1),
        (("rows", 0, "inner", 1, "y"), "y = 2", 0),
        (("rows", 1, "inner", 0, "y"), "y = 3", 0),
        (("rows", 1), "[[rows]]", 1),
        (("late", "x", "y", "z"), "z = inf", 0),
    ],
)
def test_the_line_is_the_right_one(path: KeyPath, start: str, which: int) -> None:
    assert locate(CORNERS)[path] == line_of(CORNERS, start, which)
