"""What was learned of tasks: a weight per feature and class; their sums make how likely each class is. Pure.

Multinomial logistic regression, and nothing between features: what a feature adds can be told. The weights of one
feature are the digits of one integer, so a text costs one addition per feature instead of one per feature and class.
They are put together when a feature is first met: most never are. What the text adds counts less the longer it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from math import exp
from struct import Struct

from stoker.request.decide.features import TABLES, Features, affixes, neighbours
from stoker.request.decide.packed import Table

SCALE = 24
"""A weight of 1 is written as this: one signed byte holds weights up to 5.3."""
USUAL = 100
"""Features of a text of usual length: each counts once."""
_DIGIT = 4
"""Bytes of one digit: the sum of more weights than a text can have fits in."""


def share_of(size: int) -> float:
    """What each feature of a text with so many counts: a long text is not surer than a short one, and of a few words
    nothing is sure.
    """
    return min((USUAL / size) ** 0.5, 2.0) if size else 1.0


class _Sums(dict[int, int]):
    """The digits of each name of a table, by its place: put together when they are first asked for."""

    def __init__(self, table: Table, zero: int, keys: Iterable[object]) -> None:
        super().__init__()
        self.place = dict(zip(keys, count(1), strict=False)).get
        """Of a name that has weights, from 1 on; else None."""
        self._table = table
        self._zero = zero

    def __missing__(self, place: int) -> int:
        made = self[place] = _packed(self._table.row(place - 1)) - self._zero
        return made

    def of(self, names: Iterable[object]) -> int:
        """Of those that are known, each once."""
        known = set(filter(None, map(self.place, names)))
        return sum(map(self.__getitem__, known))


class Weights:
    """`tables`: the weights of each feature, by table. Raises ValueError for a table that nobody knows, and for one of
    another number of classes.
    """

    def __init__(self, classes: Iterable[str], tables: Mapping[str, Table]) -> None:
        self.classes = tuple(classes)
        self._zero = _packed(bytes([128] * len(self.classes)))
        self._half = self._zero << (8 * _DIGIT - 8)
        """Makes each digit of a sum positive."""
        self._digits = Struct(f"<{len(self.classes)}I")
        if strange := tables.keys() - set(TABLES):
            raise ValueError(f"no table '{min(strange)}'")
        for name, table in tables.items():
            if len(table.rows) != len(table.names) * len(self.classes):
                raise ValueError(f"table '{name}' is not of {len(self.classes)} classes")
        nothing = Table((), b"")
        self._sums = {name: self._sums_of(name, tables.get(name, nothing)) for name in TABLES}
        self._affix, self._form = self._sums["affix"], self._sums["form"]
        self._words: dict[str, int] = {}
        """Of known words with their affixes."""
        self._usual = self._form.of(("usual",))
        self._no_form = self._read_off(self._usual)

    def of_text(self, seen: Features) -> int:
        sums, words = self._sums, self._words
        total = 0
        for word in seen.words:
            total += words[word] if word in words else self._of_word(word)
        return (
            total
            + sums["next"].of(neighbours(seen.sentences))
            + sum(
                sums[table].of(names)
                for table, names in (
                    ("first", seen.first),
                    ("last", seen.last),
                    ("ask", seen.asks),
                    ("mark", seen.marks),
                )
            )
        )

    def of_form(self, names: Iterable[str]) -> int:
        return self._usual + self._form.of(names)

    def likely(self, text: int, size: int, form: int) -> list[float]:
        """The probability of each class, by both sums. `size`: features of the text."""
        share, forms = share_of(size), self._no_form if form == self._usual else self._read_off(form)
        sums = [share * one + other for one, other in zip(self._read_off(text), forms, strict=True)]
        most = max(sums)
        grown = [exp((one - most) / SCALE) for one in sums]
        whole = sum(grown)
        return [one / whole for one in grown]

    def _read_off(self, total: int) -> tuple[int, ...]:
        """The sum of each class, and as much as `_half` adds to each."""
        return self._digits.unpack_from((total + self._half).to_bytes(self._digits.size + 1, "little"))

    def _sums_of(self, name: str, table: Table) -> _Sums:
        if name != "next":
            return _Sums(table, self._zero, table.names)
        words = " ".join(table.names).split(" ")
        return _Sums(table, self._zero, zip(words[::2], words[1::2], strict=True))

    def _of_word(self, word: str) -> int:
        known = self._sums["word"]
        place = known.place(word)
        if place is None:
            return self._affix.of(affixes(word))
        total = self._words[word] = self._affix.of(affixes(word)) + known[place]
        return total


def _packed(digits: bytes) -> int:
    spread = bytearray(_DIGIT * len(digits))
    spread[::_DIGIT] = digits
    return int.from_bytes(spread, "little")
