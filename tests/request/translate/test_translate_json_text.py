"""What is read strictly says where it is wrong; what is read loosely never fails."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import ClientError
from stoker.request.translate.neutral.json_text import Raw, is_json, is_there, loose, shaped


class Shape(msgspec.Struct):
    count: int
    inner: list[dict[str, int]] = []
    deep: object = None


SHAPE = msgspec.json.Decoder(Shape)


def refusal(text: bytes, where: str) -> ClientError:
    with pytest.raises(ClientError) as caught:
        shaped(SHAPE, text, where)
    return caught.value


def test_what_has_its_shape_is_given() -> None:
    assert shaped(SHAPE, Raw(b'{"count":3}'), "messages[0]") == Shape(3)


def test_what_has_not_is_refused_with_its_place() -> None:
    error = refusal(b'{"count":3,"inner":[{"a":"x"}]}', "messages[2]")
    assert (error.status, error.code, error.param) == (400, "bad_field", "messages[2].inner[0][...]")
    assert error.message == "'messages[2].inner[0][...]' cannot be read: Expected `int`, got `str`"


def test_a_place_at_the_top_has_no_dot_in_front() -> None:
    assert refusal(b'{"count":"x"}', "").param == "count"


def test_a_field_that_is_missing_is_named_in_words() -> None:
    error = refusal(b"{}", "")
    assert error.param is None
    assert error.message == "the request cannot be read: Object missing required field `count`"
    assert refusal(b"{}", "tools[0]").param == "tools[0]"


@pytest.mark.parametrize("text", [b"{", b'{"count":1}x', b'{"count":1,"deep":"\xff"}', b'{"deep":"\\ud800"}'])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    error = refusal(text, "messages[1]")
    assert (error.status, error.code, error.param) == (400, "bad_json", "messages[1]")
    assert error.message.startswith("'messages[1]' is not valid JSON: ")
    assert refusal(text, "").message.startswith("the request is not valid JSON: ")


def test_what_is_too_deep_is_refused() -> None:
    assert refusal(b'{"count":1,"deep":' + b"[" * 5000 + b"]" * 5000 + b"}", "x").code == "bad_json"


@given(st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_any_json_is_read_loosely(value: object) -> None:
    text = json.dumps(value)
    assert loose(text) == loose(text.encode()) == loose(Raw(text.encode())) == value


@pytest.mark.parametrize("text", ["", "{", "nope", "[" * 5000, "1" * 5000, b"\xff", '{"a":"\x01"}'])
def test_what_is_no_json_is_read_as_nothing(text: str | bytes) -> None:
    assert loose(text) is None


def test_half_surrogates_become_whole_characters_wherever_they_stand() -> None:
    text = '{"\\ud800k": ["\\udc00", {"x": "\\ud83d\\ude00", "n": 1}]}'
    assert loose(text) == {"\ufffdk": ["\ufffd", {"x": "😀", "n": 1}]}


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ('{"a":[1,2.5e3,null]}', True),
        (" 7 ", True),
        ('{"a":1e999}', True),
        ('{"a":NaN}', False),
        ('{"a":"\\ud800"}', False),
        ("", False),
        ('{"a":1} x', False),
        ("[" * 5000, False),
    ],
)
def test_only_json_may_stand_in_a_document(text: str, is_so: bool) -> None:
    assert is_json(text) is is_so


@pytest.mark.parametrize(("value", "is_so"), [(b"", False), (b"null", False), (b"0", True), (b"{}", True)])
def test_null_is_as_good_as_nothing(value: bytes, is_so: bool) -> None:
    assert is_there(Raw(value)) is is_so
