"""Names and ids come back as they were; arguments are an object, whatever an engine wrote."""

from __future__ import annotations

import itertools
import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from stoker.request.translate.neutral import calls
from stoker.request.translate.neutral.calls import (
    Balance,
    as_object,
    is_plain_start,
    read_id,
    short_id,
    short_name,
    spelt_id,
)
from stoker.request.translate.neutral.gaps import Losses

ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), JSON, max_size=4)
QUOTING = st.text(alphabet='"\\{}[]a', max_size=6)


def as_text(arguments: str, whole: bool = True) -> tuple[str, list[str]]:
    losses = Losses()
    found = bytes(as_object(arguments, losses, whole)).decode()
    assert isinstance(msgspec.json.decode(found, type=dict[str, msgspec.Raw]), dict)
    return found, list(losses.codes)


# -- names and ids ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["get_weather", "mcp__a-b__C9", "x" * 64])
def test_a_name_that_fits_is_itself(name: str) -> None:
    assert short_name(name, 64) == name


@pytest.mark.parametrize("name", ["x" * 65, "a.b", "wetter für ulm", "", "f\n", "x" * 63 + "ü"])
def test_a_name_that_does_not_fit_becomes_its_beginning_and_a_hash(name: str) -> None:
    short = short_name(name, 64)
    assert re.fullmatch(r"[A-Za-z0-9_-]{0,55}_[0-9a-f]{8}", short)
    assert short == short_name(name, 64)
    assert short[:-9] == re.sub(r"[^A-Za-z0-9_-]", "_", name)[:55]


def test_long_names_with_one_beginning_stay_apart() -> None:
    names = [f"{'mcp__server__' * 6}{number}" for number in range(100)]
    assert len({short_name(name, 64) for name in names}) == 100


def test_a_target_that_takes_long_names_gets_them() -> None:
    assert short_name("x" * 100, 128) == "x" * 100
    assert len(short_name("x" * 129, 128)) == 64


@given(st.text(max_size=200))
def test_every_id_is_spelt_in_letters_that_anthropic_takes(id: str) -> None:
    assert ANTHROPIC_ID.fullmatch(spelt_id(id))


@given(st.text(max_size=22))
def test_a_spelt_id_is_read_as_the_one_that_it_was(id: str) -> None:
    assert read_id(spelt_id(id)) == id


@pytest.mark.parametrize("id", ["call_1", "toolu_01A-b", "functions.weather:0", "€" * 30, ""])
def test_an_id_comes_back_whatever_its_form(id: str) -> None:
    assert read_id(spelt_id(id)) == id


def test_an_id_too_long_to_be_spelt_becomes_a_hash_that_stays_the_same() -> None:
    long = "functions.weather:" + "€" * 40
    assert spelt_id(long) == spelt_id(long) == read_id(spelt_id(long))
    assert spelt_id(long) != spelt_id(long + "€")


@pytest.mark.parametrize("id", ["stk-", "stk-A", "stk-????", "stk-_w", "stk-Y2FsbF8x", "stk-YS5i\n"])
def test_an_id_that_only_looks_spelt_is_itself(id: str) -> None:
    assert read_id(id) == ("" if id == "stk-" else id)


def test_a_short_id_is_nine_letters_and_the_same_each_time() -> None:
    assert re.fullmatch(r"[0-9a-zA-Z]{9}", short_id("call_abc"))
    assert short_id("call_abc") == short_id("call_abc") != short_id("call_abd")


@pytest.mark.parametrize(("id", "fits"), [("abcDEF123", True), ("abcdef12_", False), ("äbcdef123", False)])
def test_an_id_of_nine_plain_letters_is_short_already(id: str, fits: bool) -> None:
    assert (short_id(id) == id) is fits


# -- arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ["", "null", " \n\t", '""', '"null"', '" "'])
def test_nothing_is_an_empty_object(arguments: str) -> None:
    assert as_text(arguments) == ("{}", [])


@pytest.mark.parametrize(
    "written", ['{"b": 1.0, "a": 12345678901234567890123, "ü": "é"}', '{"a":1e999}', '{"a":1,"a":2}']
)
def test_an_object_stays_as_it_was_written(written: str) -> None:
    assert as_text(f"  {written}\n") == (written, [])
    assert as_text(json.dumps(written)) == (written, [])


def test_only_one_string_is_unwrapped() -> None:
    twice = json.dumps(json.dumps("{}"))
    assert as_text(twice) == (json.dumps({"_raw": twice}, separators=(",", ":")), ["arguments"])


@pytest.mark.parametrize("written", ['{"a":NaN}', '{"a":-Infinity}', '"{\\"a\\":NaN}"'])
def test_what_is_no_json_does_not_get_into_the_document(written: str) -> None:
    """Python's json writes such, and its reader takes it: no other does."""
    assert as_text(written) == ('{"a":null}', [])


def test_half_a_surrogate_becomes_a_whole_character() -> None:
    assert as_text('{"a":"\\ud800!"}') == ('{"a":"\ufffd!"}', [])


@pytest.mark.parametrize("arguments", ["[1]", "7", "true", '"text"', "{bad", '{"a":1} {"b":2}'])
def test_what_is_no_object_is_kept_and_told(arguments: str) -> None:
    found, codes = as_text(arguments)
    assert json.loads(found) == {"_raw": arguments}
    assert codes == ["arguments"]


def test_cut_off_arguments_are_given_as_far_as_they_came() -> None:
    found, codes = as_text('{"path": "/tmp/x", "text": "to be', whole=False)
    assert json.loads(found) == {"path": "/tmp/x"}
    assert codes == ["truncated_call"]


def test_cut_off_anywhere_they_are_what_the_official_sdks_make_of_them() -> None:
    whole = '{"a": [1, -2.5, {"b": null}], "c\\"d": "x \\u00fc\\\\", "e": {"f": [true, []], "g": 1e3}, "h": "{[,:"}'
    for end in range(1, len(whole)):
        expected = from_json(whole[:end], allow_partial=True)
        found, _ = as_text(whole[:end], whole=False)
        assert json.loads(found) == (expected or {"_raw": whole[:end]}), whole[:end]


@pytest.mark.parametrize("arguments", ['{"pa', "[1, 2", "[" * 5000, "{bad", '"{\\"a'])
def test_cut_off_arguments_that_hold_nothing_yet_are_never_an_empty_object(arguments: str) -> None:
    found, codes = as_text(arguments, whole=False)
    assert json.loads(found) == {"_raw": arguments}
    assert codes == ["truncated_call", "arguments"]


def test_an_answer_cut_off_behind_a_whole_call_loses_nothing() -> None:
    assert as_text('{"a":1}', whole=False) == ('{"a":1}', [])
    assert as_text("7", whole=False) == ('{"_raw":"7"}', ["arguments"])


@given(st.text(max_size=40) | JSON.map(json.dumps) | QUOTING, st.booleans())
def test_whatever_comes_an_object_goes_out(arguments: str, whole: bool) -> None:
    as_text(arguments, whole)


@pytest.mark.parametrize(
    ("arguments", "is_plain"),
    [("", None), (" \r\n\t", None), ("{", True), ('  {"a"', True), ("null", False), ('"{', False), ("[", False)],
)
def test_the_first_letter_tells_an_object(arguments: str, is_plain: bool | None) -> None:
    assert is_plain_start(arguments) is is_plain


# -- whether arguments are complete -------------------------------------------------------------------------------


@given(OBJECTS | st.dictionaries(QUOTING, QUOTING, max_size=3), st.data())
def test_balance_is_what_a_parser_says_however_the_text_is_cut(value: dict[str, object], data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text)), max_size=12)) | {len(text)})
    balance = Balance()
    for start, end in itertools.pairwise([0, *cuts]):
        balance.feed(text[start:end])
        for _ in range(data.draw(st.integers(0, 2))):  # asked twice it says the same, and remembers where it was
            assert balance.is_complete() is is_json(text[:end])
    assert balance.is_complete()


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_a_question_between_an_escape_and_its_letter_changes_nothing() -> None:
    balance = Balance()
    balance.feed('{"a":"\\')
    assert [balance.is_complete(), balance.is_complete()] == [False, False]
    balance.feed('"}')
    assert not balance.is_complete()
    balance.feed('"}')
    assert balance.is_complete()


@pytest.mark.parametrize("text", ["", "7", '"{}"', "null", "{", "}{", '{"a'])
def test_no_object_is_not_complete(text: str) -> None:
    balance = Balance()
    balance.feed(text)
    assert balance.is_complete() is (text == "}{")  # more closed than opened: nothing can complete it any more


def test_each_character_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Counting(calls.OUTSIDE_STRING), Counting(calls.INSIDE_STRING)
    monkeypatch.setattr(calls, "OUTSIDE_STRING", looked[0])
    monkeypatch.setattr(calls, "INSIDE_STRING", looked[1])
    balance = Balance()
    text = json.dumps({"a": ['x"\\'] * 200})
    for letter in text:
        balance.feed(letter)
        balance.is_complete()
    assert balance.is_complete()
    assert sum(one.characters for one in looked) <= 2 * len(text)


class Counting:
    """A pattern that counts the characters which its searches pass over."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self.characters = 0

    def search(self, text: str, at: int) -> re.Match[str] | None:
        found = self._pattern.search(text, at)
        self.characters += (len(text) if found is None else found.end()) - at
        return found
