"""What was learned is added up as it was learned, and what ships was learned from the prompts that are there."""

from __future__ import annotations

from collections import Counter
from math import exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from training.classifier import digest

from stoker.domain.task import CLASSES, Outline
from stoker_auto.classify.asks import read
from stoker_auto.classify.features import affixes, features, form, named, pairs
from stoker_auto.classify.packed import Table, pack, table, unpack
from stoker_auto.classify.weights import SCALE, Weights, share_of
from stoker_auto.routing.classifier import packed

SHIPPED = packed()
ROWS = {name: {key: one.row(at) for at, key in enumerate(one.names)} for name, one in SHIPPED.tables.items()}
WEIGHTS = Weights(SHIPPED.classes, SHIPPED.tables)
PIECES = st.sampled_from(
    ["plan", "please", "rename", "write", "the", "移行計画", "планы", "xyzzyqua", ".", ",", "\n", "7", "?"]
)


def plainly(text: str, outline: Outline) -> list[float]:
    """Feature by feature and class by class, as the training counts them."""
    sums = [0.0] * len(SHIPPED.classes)
    seen = features(read(text))
    for (kind, name), times in {**Counter(named(seen, form(outline))), ("form", "usual"): 1}.items():
        if value := ROWS[kind].get(name):
            share = times * (1 if kind == "form" else share_of(seen.size))
            sums = [one + share * (byte - 128) / SCALE for one, byte in zip(sums, value, strict=True)]
    return sums


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(PIECES, max_size=60).map(" ".join), st.integers(0, 2))
def test_the_sum_is_that_of_each_feature_and_class(text: str, tools: int) -> None:
    outline = Outline(text=text, tools=tools)
    expected = [exp(one) for one in plainly(text, outline)]
    seen = features(read(text))
    found = WEIGHTS.likely(WEIGHTS.of_text(seen), seen.size, form(outline))
    assert found == pytest.approx([one / sum(expected) for one in expected])


def test_probabilities_of_nothing_are_those_that_are_usual() -> None:
    found = WEIGHTS.likely(0, 0)
    assert sum(found) == pytest.approx(1)
    assert max(found) < 0.5


def test_a_word_that_nobody_has_seen_is_told_by_how_it_begins_and_ends() -> None:
    assert affixes("rename") == ["rena~", "~ame"]
    assert affixes("all") == []
    assert set(affixes("移行計画")) == set(pairs("移行計画")) == {"移行", "行計", "計画"}


def test_weights_for_other_classes_and_unknown_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="table 'word' is not of 3 classes"):
        Weights(("a", "b", "c"), {"word": table({"x": bytes([128, 128])}, 2)})
    with pytest.raises(ValueError, match="no table 'phase'"):
        Weights(("a",), {"phase": table({}, 1)})


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=8)


@given(
    st.dictionaries(
        st.sampled_from(["word", "next", "form"]), st.dictionaries(NAMES, st.binary(min_size=3, max_size=3))
    )
)
def test_what_is_packed_is_unpacked(tables: dict[str, dict[str, bytes]]) -> None:
    made = {name: table(rows, 3) for name, rows in tables.items()}
    found = unpack(pack("abc", ("x", "y", "z"), made))
    assert (found.learned_from, found.classes, found.tables) == ("abc", ("x", "y", "z"), made)
    for name, rows in tables.items():
        assert {key: found.tables[name].row(at) for at, key in enumerate(found.tables[name].names)} == rows


def test_what_cannot_be_packed_or_unpacked_is_refused() -> None:
    with pytest.raises(ValueError, match="2 weights of 'x' for 3 classes"):
        table({"x": b"ab"}, 3)
    with pytest.raises(ValueError, match="line break"):
        table({"a\nb": b"abc"}, 3)
    whole = pack("abc", ("x",), {"word": Table(("a", "b"), b"\x80\x81")})
    for broken in (b"", b"{}", whole[:-8], pack("abc", ("x",), {"word": Table(("a", "b"), b"\x80")})):
        with pytest.raises(ValueError, match="file of weights"):
            unpack(broken)


def test_the_weights_that_ship_stay_small() -> None:
    names = sum(len(one.names) for one in SHIPPED.tables.values())
    assert len(pack(SHIPPED.learned_from, SHIPPED.classes, SHIPPED.tables)) < 1_000_000, names


def test_what_ships_knows_all_classes_and_was_learned_from_the_prompts_that_are_there() -> None:
    """Else: python -m training.classifier."""
    assert tuple(SHIPPED.classes) == CLASSES
    assert SHIPPED.learned_from == digest()
