"""What was learned is added up as it was learned, and what ships was learned from the prompts that are there."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import Counter
from math import exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training.classifier import digest

from stoker.domain.task import CLASSES, Outline
from stoker.learned import document
from stoker.request.decide.asks import read
from stoker.request.decide.features import affixes, features, form, named, pairs
from stoker.request.decide.weights import SCALE, Weights, share_of

SHIPPED = document()
WEIGHTS = Weights(SHIPPED.classes, SHIPPED.tables)
PIECES = st.sampled_from(
    ["plan", "please", "rename", "write", "the", "移行計画", "планы", "xyzzyqua", ".", ",", "\n", "7", "?"]
)


def plainly(text: str, outline: Outline) -> list[float]:
    """Feature by feature and class by class, as the training counts them."""
    sums = [0.0] * len(SHIPPED.classes)
    seen = features(read(text))
    for (table, name), times in {**Counter(named(seen, form(outline))), ("form", "usual"): 1}.items():
        if value := SHIPPED.tables[table].get(name):
            share = times * (1 if table == "form" else share_of(seen.size))
            sums = [one + share * (byte - 128) / SCALE for one, byte in zip(sums, b64decode(value), strict=True)]
    return sums


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=60).map(" ".join), st.integers(0, 2))
def test_the_sum_is_that_of_each_feature_and_class(text: str, tools: int) -> None:
    outline = Outline(text=text, tools=tools)
    expected = [exp(one) for one in plainly(text, outline)]
    seen = features(read(text))
    found = WEIGHTS.likely(WEIGHTS.of_text(seen), seen.size, WEIGHTS.of_form(form(outline)))
    assert found == pytest.approx([one / sum(expected) for one in expected])


def test_probabilities_of_nothing_are_those_that_are_usual() -> None:
    found = WEIGHTS.likely(0, 0, WEIGHTS.of_form(()))
    assert sum(found) == pytest.approx(1)
    assert max(found) < 0.5


def test_a_word_that_nobody_has_seen_is_told_by_how_it_begins_and_ends() -> None:
    assert affixes("rename") == ["rena~", "~ame"]
    assert affixes("all") == []
    assert set(affixes("移行計画")) == pairs("移行計画") == {"移行", "行計", "計画"}


def test_weights_for_other_classes_and_unknown_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="2 weights for 3 classes"):
        Weights(("a", "b", "c"), {"word": {"x": b64encode(bytes([128, 128])).decode()}})
    with pytest.raises(ValueError, match="no table 'phase'"):
        Weights(("a",), {"phase": {}})


def test_what_ships_knows_all_classes_and_was_learned_from_the_prompts_that_are_there() -> None:
    """Else: python -m training.classifier."""
    assert tuple(SHIPPED.classes) == CLASSES
    assert SHIPPED.learned_from == digest()
