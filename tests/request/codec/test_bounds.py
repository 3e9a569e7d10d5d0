"""A body is refused for what it holds before anything is made of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.access import Bounds
from stoker.domain.errors import ClientError
from stoker.request.codec import bounds as module
from stoker.request.codec.body_fields import read_body_fields
from stoker.request.codec.bounds import is_heavy, structure

FEW = Bounds(max_messages=10, max_tools=5, max_values=200)


def refused(**fields: Any) -> tuple[int, str]:
    with pytest.raises(ClientError) as caught:
        read_body_fields(json.dumps({"model": "m", **fields}).encode(), bounds=FEW)
    return caught.value.status, caught.value.code


@pytest.mark.parametrize("name", ["messages", "input", "prompt", "documents", "system", "stop", "images"])
def test_a_list_may_be_as_long_as_is_allowed_and_no_longer(name: str) -> None:
    assert read_body_fields(json.dumps({"model": "m", name: ["x"] * 10}).encode(), bounds=FEW).model == "m"
    assert refused(**{name: ["x"] * 11}) == (413, "too_many_messages")


@pytest.mark.parametrize("name", ["tools", "functions"])
def test_tools_have_a_bound_of_their_own(name: str) -> None:
    assert read_body_fields(json.dumps({"model": "m", name: [{}] * 5}).encode(), bounds=FEW).model == "m"
    assert refused(**{name: [{}] * 6}) == (413, "too_many_tools")


def test_tokens_are_one_prompt() -> None:
    assert read_body_fields(json.dumps({"model": "m", "prompt": list(range(100))}).encode(), bounds=FEW).model == "m"


@pytest.mark.parametrize("value", [[1] * 201, {str(n): n for n in range(201)}, [[["x"] * 10] * 10] * 3])
def test_values_are_counted_at_any_depth(value: Any) -> None:
    assert refused(metadata=value) == (413, "too_many_values")


VALUES = st.recursive(
    st.text('a"\\{}[],:', max_size=9) | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('a"\\{[,', max_size=4), inner, max_size=4),
    max_leaves=25,
)


@given(VALUES, st.integers(1, 40))
def test_what_is_in_strings_is_never_counted_however_the_body_is_cut(value: Any, window: int) -> None:
    def count(of: Any) -> int:
        inner = list(of.values()) if isinstance(of, dict) else of if isinstance(of, list) else []
        return (1 if isinstance(of, dict | list) else 0) + max(len(inner) - 1, 0) + sum(map(count, inner))

    whole = module.WINDOW
    module.WINDOW = window
    try:
        found = structure(json.dumps(value).encode(), 10_000)
    finally:
        module.WINDOW = whole
    assert found.values == 1 + count(value)


def test_what_is_small_and_plain_is_read_at_once() -> None:
    assert not is_heavy(b"{" * 8000)
    assert is_heavy(b"{" * 9000)
    assert is_heavy(b"x" * 300_000)
    assert not is_heavy(b"x" * 200_000)


@pytest.mark.parametrize("first", [{"role": "user"}, 1, None, [], "x"])
@pytest.mark.parametrize("other", ["x", [], {}])
def test_what_stands_first_in_a_long_list_does_not_hide_its_length(first: Any, other: Any) -> None:
    assert refused(messages=[first, *[other] * 11]) == (413, "too_many_messages")


@pytest.mark.parametrize("begins", [b"[" + b" " * 80, b"[1,"])
def test_neither_blanks_nor_a_number_in_front_hide_a_long_list(begins: bytes) -> None:
    body = b'{"model":"m","messages":' + begins + b",".join([b'{"a":1}'] * 20_000) + b"]}"
    with pytest.raises(ClientError) as caught:
        read_body_fields(body)
    assert caught.value.code == "too_many_messages"
