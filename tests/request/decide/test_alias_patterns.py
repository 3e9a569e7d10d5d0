"""Aliases with wildcards."""

from __future__ import annotations

import fnmatch
import itertools

import pytest
from tests.linear import assert_linear

from stoker.request.decide.alias_patterns import is_pattern, matches


def test_only_star_and_question_mark_are_wildcards() -> None:
    assert is_pattern("claude-*")
    assert is_pattern("gpt-?")
    assert not is_pattern("gpt-[45]")
    assert matches("a[b]*", "a[b]c")
    assert not matches("a[b]*", "abc")


def test_every_short_pattern_matches_what_fnmatch_says() -> None:
    names = ["".join(letters) for length in range(5) for letters in itertools.product("ab", repeat=length)]
    for length in range(1, 6):
        for letters in itertools.product("ab*?", repeat=length):
            pattern = "".join(letters)
            for name in names:
                assert matches(pattern, name) == fnmatch.fnmatchcase(name, pattern), (pattern, name)


@pytest.mark.parametrize("pattern", ["*a" * 90 + "b", "*?a" * 60 + "b", "*" * 199 + "b"])
def test_no_pattern_takes_long(pattern: str) -> None:
    assert not matches(pattern, "a" * 200)
    assert_linear(lambda size: "a" * size, lambda name: matches(pattern, name), 3200)
