"""A text is read cheaply, and what was read is what a slow and plain reading would find."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.request.decide import rules, shapes
from stoker.request.decide.asks import Reading, read
from stoker.request.decide.highrisk import high_risk

LABELLED = Path(__file__).parents[2] / "data" / "tasks" / "labelled.jsonl"
TEXTS = [json.loads(line)["text"] for line in LABELLED.read_text().splitlines()]
WORD = re.compile(r"\w[\w'+#-]*|,")
END = re.compile(r"[.!?;:]+(?=\s|$)|\n+")
PIECES = st.sampled_from([*"ab.!?;:,'+#-_ \n\t`/()é’“—…0", "c++", "don't ", "--", "word "])


def plainly(lower: str) -> list[tuple[str, ...]]:
    found = (tuple(WORD.findall(part)) for part in END.split(lower))
    return [words for words in found if words]


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_sentences_and_words_are_those_that_an_expression_finds(text: str) -> None:
    reading = read(text)
    expected = plainly(reading.prose.lower().replace("’", "'"))
    assert reading.words == {word for words in expected for word in words}
    assert list(reading.sentences) == (expected if len(expected) <= 10 else [*expected[:6], *expected[-4:]])


@pytest.mark.parametrize("marks", ["." * 1000 + "x", "!?" * 500 + "x", "-" * 1000, "'+" * 500])
def test_marks_without_an_end_are_no_sentences(marks: str) -> None:
    assert read(marks).sentences == tuple(plainly(marks))


def test_words_that_no_table_holds_make_no_difference_to_any_rule() -> None:
    differing = []
    for text in TEXTS:
        few, all_of_them = read(text), read(text)
        assert few.telling <= few.words
        all_of_them.telling = all_of_them.words
        differing += [text for one, other in zip(_asked(few), _asked(all_of_them), strict=True) if one != other]
    assert not differing


def _asked(reading: Reading) -> list[object]:
    return [high_risk(reading), *(rule(reading) for _, rule in (*rules.CODING, *rules.STRONG, *rules.WEAK))]


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


@pytest.mark.parametrize("name", ["`x`", "snake_case", "camelCase", "call()", "a::b", "a->b", "a/bc/"])
def test_an_identifier_is_seen_by_its_form(name: str) -> None:
    assert shapes.IDENTIFIER.search(f"see {name} there")
    assert not shapes.IDENTIFIER.search("See A and B (both) - at 5:30, and/or later")


def test_paths_are_counted_once_each_and_only_files_and_folders() -> None:
    assert read("Move a.py and src/b.ts, then a.py again.").paths == 2
    assert read("Nothing. Nobody. At 5 p.m. and/or later.").paths == 0
