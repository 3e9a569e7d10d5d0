"""A text is read cheaply, and what was read is what a slow and plain reading would find."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from stoker_auto.classify import shapes
from stoker_auto.classify.asks import FIRST, LAST, read
from stoker_auto.classify.verbs import plain

WORD = re.compile(r"\w[\w'+#-]*|,")
END = re.compile(r"[.!?;:]+(?=\s|$)|\n+")
PIECES = st.sampled_from([*"ab.!?;:,'+#-_ \n\t`/()é’“—…0", "c++", "don't ", "--", "word "])


def plainly(lower: str) -> list[tuple[str, ...]]:
    found = (tuple(WORD.findall(part)) for part in END.split(lower))
    return [words for words in found if words]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_sentences_and_words_are_those_that_an_expression_finds(text: str) -> None:
    reading = read(text)
    expected = plainly(re.sub(r"[^\x00-\x7f\w]", " ", plain(reading.prose.lower().replace("’", "'"))))
    assert reading.words == {word for words in expected for word in words}
    assert list(reading.sentences) == (
        expected if len(expected) <= FIRST + LAST else [*expected[:FIRST], *expected[-LAST:]]
    )


@pytest.mark.parametrize("marks", ["." * 1000 + "x", "!?" * 500 + "x", "-" * 1000, "'+" * 500])
def test_marks_without_an_end_are_no_sentences(marks: str) -> None:
    assert read(marks).sentences == tuple(plainly(marks))


@pytest.mark.parametrize(
    "code",
    ["f();", "f()\n", "x = []", "a => b", "f(x);", "</div>", "<br/>", "a == b", "a != b", "a && b", "a.b(", "f(x) {",
     "a := b", "x](", "SELECT a FROM b", "ALTER TABLE a", "DELETE FROM a", "{\n"],
)  # fmt: skip
def test_what_only_code_holds_is_found_where_it_begins(code: str) -> None:
    found = shapes.MARK.search(f"so {code}")
    assert found is not None
    assert found.start() >= 3


@pytest.mark.parametrize(
    "prose", ["Alas. So it is (as they say) done; and more.", "S. A. Dee, at 5:30", "a = b", "Select From"]
)
def test_prose_holds_none_of_it(prose: str) -> None:
    assert shapes.MARK.search(prose) is None


def test_paths_are_counted_once_each_and_only_files_and_folders() -> None:
    assert read("Move a.py and src/b.ts, then a.py again.").paths == 2
    assert read("Nothing. Nobody. At 5 p.m. and/or later.").paths == 0
