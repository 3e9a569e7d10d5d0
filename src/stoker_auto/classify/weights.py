"""Learned weights, one per feature and class. Their sums give the probability of each class. Pure.

The model is multinomial logistic regression without interactions, so the contribution of each feature can be shown. The
weights of one feature are the digits of one integer: a text costs one addition per feature instead of one per feature
and class. An integer is built when its feature first occurs; most never do. The longer a text, the less each counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import count, repeat
from math import exp
from struct import Struct

from stoker_auto.classify.features import (
    AFFIX,
    BEGIN,
    END,
    HAS_AFFIXES,
    NO_BLANKS,
    TABLES,
    Features,
    neighbours,
    pairs,
)
from stoker_auto.classify.packed import Table

SCALE = 24
"""The stored value of the weight 1: one signed byte holds weights up to 5.3."""
USUAL = 100
"""Features of a text of usual length: each counts once."""
LATIN = "\u036f"
"""Letters beyond this character are of another script."""
FEW = 4
"""Of fewer words than this it cannot be told whether they are of a language that was learned."""
_DIGIT = 4
"""Bytes of one digit: large enough for the sum of all weights that a text can have."""
_ZEROS = repeat(0)


def share_of(size: int) -> float:
    """How much each feature of a text with `size` features counts: a long text is not more certain than a short one,
    and nothing is certain about a few words.
    """
    return min((USUAL / size) ** 0.5, 2.0) if size else 1.0


class _Sums(dict[object, int]):
    def __init__(self, table: Table, zero: int, keys: Iterable[object]) -> None:
        super().__init__()
        self.places = dict(zip(keys, count(), strict=False))
        self._names = self.places.keys()
        self._table = table
        self._zero = zero

    def __missing__(self, name: object) -> int:
        """Raises KeyError for a name that has no weights."""
        made = self[name] = _packed(self._table.row(self.places[name])) - self._zero
        return made

    def of(self, names: Iterable[object]) -> int:
        return sum(map(self.__getitem__, self._names & names))


class _Words:
    """The digits of words, those of their affixes included."""

    def __init__(self, words: _Sums, affixes: _Sums) -> None:
        self._known = words
        self._met: dict[str, int] = {}
        """Cached digits of known words. A word without weights is not cached."""
        made = {str(name): affixes[name] for name in affixes.places}
        self._begins = {name[:-1]: digits for name, digits in made.items() if name[-1] == AFFIX}
        self._ends = {name[1:]: digits for name, digits in made.items() if name[0] == AFFIX}
        self.pairs = {name: digits for name, digits in made.items() if AFFIX not in name}
        """Pairs of letters of scripts without blanks."""

    def of(self, words: frozenset[str]) -> int:
        met = self._met
        total = sum(map(met.get, words, _ZEROS))
        known, begins, ends = self._known.places, self._begins.get, self._ends.get
        for word in words.difference(met):
            if word in known:
                met[word] = digits = self._known[word] + self._of_affixes(word)
                total += digits
            elif word[0] > NO_BLANKS:
                total += self._of_affixes(word)
            elif len(word) >= HAS_AFFIXES:
                total += begins(word[:BEGIN], 0) + ends(word[-END:], 0)
        return total

    def _of_affixes(self, word: str) -> int:
        if word[0] > NO_BLANKS:
            return sum(map(self.pairs.__getitem__, self.pairs.keys() & pairs(word)))
        return self._begins.get(word[:BEGIN], 0) + self._ends.get(word[-END:], 0) if len(word) >= HAS_AFFIXES else 0


class Weights:
    """`tables`: the weights of each feature, by table. Raises ValueError for an unknown table, and for a table with
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
        self._form, self._next, self._signs = self._sums["form"], self._sums["next"], self._sums["sign"]
        self._words = _Words(self._sums["word"], self._sums["affix"])
        self._usual = self._form.of(("usual",))
        self._no_form = self._read_form(self._usual)

    def share_known(self, words: frozenset[str]) -> float:
        """The share of these words that have weights, of at least FEW; else 1. Of scripts without blanks, pairs of
        letters count, each known one for two: half of the pairs of a text are of no word.
        """
        total = known = 0
        places, pairs_known = self._sums["word"].places, self._words.pairs
        for word in [word for word in words if word[0] > LATIN] or words:  # names of code are of no language
            if word[0] > NO_BLANKS:
                found = [pair in pairs_known for pair in pairs(word)]
                total, known = total + len(found), known + 2 * sum(found)
            elif word[0].isalpha():
                total, known = total + 1, known + (word in places)
        return min(known / total, 1.0) if total >= FEW else 1.0

    def of_text(self, seen: Features) -> int:
        return self._words.of(seen.words) + self._next.of(neighbours(seen.sentences)) + self._signs.of(seen.signs)

    def likely(self, text: int, size: int, form: Collection[str] = ()) -> list[float]:
        """The probability of each class, from the sum of a text with `size` features and from its form."""
        forms = self._read_form(self._usual + self._form.of(form)) if form else self._no_form
        share = share_of(size) / SCALE
        sums = [share * one + other for one, other in zip(self._read_off(text), forms)]  # noqa: B905
        most = max(sums)
        grown = [exp(one - most) for one in sums]
        whole = sum(grown)
        return [one / whole for one in grown]

    def _read_form(self, form: int) -> tuple[float, ...]:
        return tuple([one / SCALE for one in self._read_off(form)])

    def _read_off(self, total: int) -> tuple[int, ...]:
        """The sum of each class, plus what `_half` adds to each."""
        return self._digits.unpack_from((total + self._half).to_bytes(self._digits.size + 1, "little"))

    def _sums_of(self, name: str, table: Table) -> _Sums:
        if name != "next":
            return _Sums(table, self._zero, table.names)
        words = " ".join(table.names).split(" ") if table.names else []
        return _Sums(table, self._zero, zip(words[::2], words[1::2], strict=True))


def _packed(digits: bytes) -> int:
    spread = bytearray(_DIGIT * len(digits))
    spread[::_DIGIT] = digits
    return int.from_bytes(spread, "little")
