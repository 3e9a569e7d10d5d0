"""What was learned of tasks: a weight per feature and class; their sums make how likely each class is. Pure.

Multinomial logistic regression, and nothing between features: what a feature adds can be told. The weights of one
feature are the digits of one integer, so a text costs one addition per feature instead of one per feature and class.
What the text adds counts less the longer it is.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from math import exp
from struct import Struct

from stoker.request.decide.features import HAS_AFFIXES, NO_BLANKS, TABLES, Features, pairs

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


class Weights:
    """`tables`: by table and feature, base64 of one byte per class, the weight and 128. Raises ValueError for another
    number of bytes, and for a table that nobody knows.
    """

    def __init__(self, classes: Iterable[str], tables: Mapping[str, Mapping[str, str]]) -> None:
        self.classes = tuple(classes)
        self._zero = _packed(bytes([128] * len(self.classes)))
        self._half = self._zero << (8 * _DIGIT - 8)
        """Makes each digit of a sum positive."""
        self._digits = Struct(f"<{len(self.classes)}I")
        if strange := tables.keys() - set(TABLES):
            raise ValueError(f"no table '{min(strange)}'")
        read = {name: {key: self._read(value) for key, value in tables.get(name, {}).items()} for name in TABLES}
        affix = read["affix"]
        self._begins = {key[:-1]: value for key, value in affix.items() if key[-1] == "~"}
        self._ends = {key[1:]: value for key, value in affix.items() if key[0] == "~"}
        self._pairs = {key: value for key, value in affix.items() if "~" not in key}
        self._word = {word: value + self._of_affixes(word) for word, value in read["word"].items()}
        self._known = self._word.keys()
        self._next = {tuple(key.split(" ")): value for key, value in read["next"].items()}
        self._nexts = self._next.keys()
        self._first, self._last, self._ask = read["first"], read["last"], read["ask"]
        self._mark, self._form = read["mark"], read["form"]
        self._usual = self._form.get("usual", 0)
        self._no_form = self._read_off(self._usual)

    def of_text(self, seen: Features) -> int:
        known = seen.words & self._known
        total = sum(map(self._word.__getitem__, known))
        for word in seen.words - known:
            total += self._of_affixes(word)
        total += sum(map(self._next.__getitem__, self._nexts & seen.next))
        for table, names in (
            (self._first, seen.first), (self._last, seen.last), (self._ask, seen.asks), (self._mark, seen.marks),
        ):  # fmt: skip
            total += sum([table[name] for name in names if name in table])
        return total

    def of_form(self, names: Iterable[str]) -> int:
        return self._usual + sum([self._form[name] for name in names if name in self._form])

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

    def _read(self, value: str) -> int:
        found = b64decode(value, validate=True)
        if len(found) != len(self.classes):
            raise ValueError(f"{len(found)} weights for {len(self.classes)} classes")
        return _packed(found) - self._zero

    def _of_affixes(self, word: str) -> int:
        """As `features.affixes` names them."""
        total = 0
        if len(word) >= HAS_AFFIXES:
            total = self._begins.get(word[:4], 0) + self._ends.get(word[-3:], 0)
        if word[0] > NO_BLANKS:
            total += sum([self._pairs.get(pair, 0) for pair in pairs(word)])
        return total


def _packed(digits: bytes) -> int:
    spread = bytearray(_DIGIT * len(digits))
    spread[::_DIGIT] = digits
    return int.from_bytes(spread, "little")
