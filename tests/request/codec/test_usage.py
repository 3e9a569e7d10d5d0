"""Usage of each dialect: the input is the whole prompt, cached or not, and no count is ever below nothing."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.request.codec.usage import Usage


def read(*given: Any) -> Usage:
    usage = Usage()
    for one in given:
        usage.update_from(one)
    return usage


@pytest.mark.parametrize(
    ("given", "input", "cached", "written"),
    [
        ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}}, 100, 60, 30),
        ({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}}, 100, 60, 30),
        ({"input_tokens": 10, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}, 100, 60, 30),
        ({"input_tokens": 10, "cache_read_input_tokens": None, "cache_creation_input_tokens": 30}, 40, None, 30),
        ({"prompt_tokens": 100, "prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40}, 100, 60, None),
        ({"prompt_tokens": 100, "cache_read_input_tokens": 60, "prompt_tokens_details": {"cached_tokens": 60}}, 100, 60,
         None),
        ({"prompt_tokens": 100, "prompt_tokens_details": None}, 100, None, None),
    ],
)  # fmt: skip
def test_cached_tokens_are_a_part_of_the_input(
    given: dict[str, Any], input: int, cached: int | None, written: int | None
) -> None:
    usage = read(given)
    assert (usage.input, usage.cached, usage.cache_written) == (input, cached, written)


def test_messages_count_what_was_cached_once() -> None:
    start = {"input_tokens": 10, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30, "output_tokens": 1}
    usage = read(start, {"output_tokens": 9}, {"input_tokens": 12, "output_tokens": 10})
    assert (usage.input, usage.cached, usage.cache_written, usage.output) == (102, 60, 30, 10)


@pytest.mark.parametrize("wrong", [-1, True, "7", 7.0, None, [7], {"n": 7}])
def test_what_is_no_count_credits_nobody(wrong: object) -> None:
    usage = read(
        {"prompt_tokens": wrong, "completion_tokens": wrong, "prompt_tokens_details": {"cached_tokens": wrong}}
    )
    assert not usage.input
    assert not usage.output
    assert not usage.cached


def test_estimates_fill_only_what_was_not_counted() -> None:
    counted, partly, silent = read({"prompt_tokens": 5, "completion_tokens": 2}), read({"prompt_tokens": 5}), read({})
    for usage in (counted, partly, silent):
        usage.fill(100, 50)
    assert [(one.input, one.output, one.is_estimated) for one in (counted, partly, silent)] == [
        (5, 2, False), (5, 50, True), (100, 50, True),
    ]  # fmt: skip
