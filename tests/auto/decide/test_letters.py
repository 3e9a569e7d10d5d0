"""Characters that are taken one at a time become what they become in a text that is normalised as a whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_auto.classify.letters import comparable
from stoker_auto.classify.verbs import plain


@pytest.mark.parametrize(
    ("written", "compared"),
    [
        ("plain ascii", "plain ascii"),
        ("café — “naïve”", "cafe    naive "),
        ("straße, İstanbul’da", "strasse, İstanbul'da"),
        ("\u304b\u3099", "\u304c"),  # a letter and its mark, written as two characters
        ("\u1112\u1161\u11ab", "\ud55c"),  # a syllable of three letters
        ("\ud55c\uae00", "\ud55c\uae00"),
        ("\uff76\uff9e", "\u30ac"),
        ("计划。好", "计划. 好"),
    ],
)
def test_what_is_compared(written: str, compared: str) -> None:
    assert comparable(written) == plain(compared)


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=12))
def test_letters_are_those_of_the_whole_text_normalised(text: str) -> None:
    lower = text.lower()
    letters = [char for char in plain(lower) if char.isalpha()]
    assert [char for char in comparable(lower) if char.isalpha()] == letters


def test_half_of_a_pair_does_not_raise() -> None:
    assert comparable("é \ud800")[0] == "e"
