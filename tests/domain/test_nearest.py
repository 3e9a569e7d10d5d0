"""One suggestion for a mistyped name, in the spelling that is known."""

from __future__ import annotations

import pytest

from stoker.domain.nearest import did_you_mean, nearest


@pytest.mark.parametrize(
    ("word", "found"),
    [("qwen-smal", "qwen-small"), ("FASTT", "Fast"), ("fast" + "x" * 10_000, None), ("", None), ("nothing", None)],
)
def test_the_nearest_name_is_found_whatever_its_case(word: str, found: str | None) -> None:
    assert nearest(word, ["Fast", "qwen-small"]) == found


def test_a_word_stands_for_the_only_name_that_begins_with_it() -> None:
    names = ["big-model-copy", "qwen3-0.6b-instruct", "llama-8b", "llama-70b"]
    assert nearest("Qwen3", names) == "qwen3-0.6b-instruct"
    assert nearest("lla", names) is None, "two begin with it"
    assert nearest("qw", names) is None, "too short to mean one"


def test_a_higher_cutoff_wants_a_closer_name() -> None:
    assert nearest("planing", ["planning"], cutoff=0.85) == "planning"
    assert nearest("plain", ["planning"], cutoff=0.85) is None


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    assert did_you_mean("prot", ["port", "host"]) == "; did you mean 'port'?"
    assert did_you_mean("x", []) == ""
