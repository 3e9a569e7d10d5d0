"""Faults that parse, or that stand where no fence says what they are, each beside the same block without it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.orchestrating.blocks import BLOCKS, faulty


class Plant(NamedTuple):
    kind: str
    fence: str | None
    """None: the code stands in no fence."""
    wrong: str
    right: str


_SQL = (
    ("SELEC name, total FORM orders WHERE;\n", "SELECT name, total FROM orders;\n"),
    ("SELECT FROM WHERE orders GROUP total BY;\n", "SELECT total FROM orders GROUP BY total;\n"),
    ("INSERT orders INTO (1, 2;\n", "INSERT INTO orders VALUES (1, 2);\n"),
    ("DELETE orders FROM total = 1 WHERE;\n", "DELETE FROM orders WHERE total = 1;\n"),
)
_CART = "class Cart:\n    def total(self, tax: float = 0.0) -> float:\n        return tax\n\n\n"
_ITEM = "from dataclasses import dataclass\n\n\n@dataclass\nclass Item:\n    name: str\n    price: int\n\n\n"
_TOTAL = "def total(items: list[int], tax: float = 0.0) -> float:\n    return sum(items) * (1 + tax)\n\n\n"
_JSON = "def show(data: dict[str, int]) -> str:\n    return json.dumps(data)\n"
_SUM = (
    "def total(items: list[int]) -> int:\n    result = 0\n    for item in items:\n        result += item\n    return "
)
NAMES = (
    ("method", "def add(items: list[str], item: str) -> None:\n    items.{}(item)\n", "push", "append"),
    ("method", "def has(prices: dict[str, int], name: str) -> bool:\n    return prices.{}(name)\n", "has_key",
     "__contains__"),
    ("method", "def find(text: str) -> int:\n    return text.{}('a')\n", "contains", "count"),
    ("method", "from pathlib import Path\n\n\ndef there(path: Path) -> bool:\n    return path.{}()\n", "exist",
     "exists"),
    ("method", _CART + "def show(cart: Cart) -> float:\n    return cart.{}()\n", "totl", "total"),
    ("method", "def collect(names: list[str]) -> list[str]:\n    found: list[str] = []\n    for name in names:\n"
     "        found.{}(name)\n    return found\n", "add", "append"),
    ("method", "class Queue:\n    def __init__(self) -> None:\n        self.items: list[str] = []\n\n"
     "    def put(self, item: str) -> None:\n        self.items.{}(item)\n", "push", "append"),
    ("method", "def words(text: str) -> list[str]:\n    parts = text.split(',')\n    parts.{}('end')\n"
     "    return parts\n", "push", "append"),
    ("keyword", "def order(items: list[int]) -> list[int]:\n    return sorted(items, {}=True)\n", "reversed",
     "reverse"),
    ("keyword", "import textwrap\n\n\ndef wrap(text: str) -> str:\n    return textwrap.indent(text, ' ', {}=None)\n",
     "predicat", "predicate"),
    ("keyword", _TOTAL + "def show() -> float:\n    return total([1], {}=0.2)\n", "taxes", "tax"),
    ("keyword", _ITEM + "def make() -> Item:\n    return Item(name='a', {}=2)\n", "prise", "price"),
    ("undefined", "def report(items: list[int]) -> str:\n    return {}(items)\n", "format_report", "str"),
    ("undefined", "{}\n\n\n" + _JSON, "import sys", "import json"),
    ("undefined", _SUM + "{}\n", "resullt", "result"),
)  # fmt: skip
"""A kind, a block, and what stands in its gap: wrong and right."""

_SHOWN = {"method": "no such method", "keyword": "no such argument", "undefined": "nothing defines it"}


def plants() -> Iterator[Plant]:
    block = BLOCKS[0]
    fences = (
        ("fenced as text", "text"),
        ("mistyped fence", "pyhton"),
        ("fence without a word", ""),
        ("no fence", None),
    )
    for kind, fence in fences:
        for fault in ("syntax", "string", "indentation", "truncated"):
            yield Plant(kind, fence, faulty(block, fault), block.text)
    for wrong, right in _SQL:
        yield Plant("nonsense in SQL", "sql", wrong, right)
    for kind, text, wrong, right in NAMES:
        yield Plant(_SHOWN[kind], "python", text.replace("{}", wrong), text.replace("{}", right))
