"""Usage of each dialect: the input is the whole prompt, cached or not; tokens that nobody counted are estimated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.request.codec.usage import Usage, excess_of_files, text_size, tokens_of_pieces, tokens_of_text


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


@pytest.mark.parametrize(
    ("pieces", "size", "tokens"),
    [(0, 0, 0), (78, 390, 78), (78, 78 * 16, 78), (10, 400, 100), (3, 0, 3)],
)
def test_a_piece_is_a_token_unless_pieces_are_too_long_for_one(pieces: int, size: int, tokens: int) -> None:
    assert tokens_of_pieces(pieces, size) == tokens


@pytest.mark.parametrize(("size", "tokens"), [(0, 0), (1, 1), (7, 1), (400, 100)])
def test_a_text_in_one_piece_counts_by_its_length(size: int, tokens: int) -> None:
    assert tokens_of_text(size) == tokens


@pytest.mark.parametrize(
    ("frame", "size"),
    [
        ({"choices": [{"delta": {"role": "assistant", "content": "héy"}, "finish_reason": None}]}, 4),
        ({"choices": [{"delta": {"reasoning_content": "abc"}}]}, 3),
        ({"choices": [{"delta": {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"a"'}}]}}]}, 4),
        ({"choices": [{"delta": {}, "finish_reason": "stop"}]}, 0),
        ({"choices": [{"text": "abcd", "index": 0}]}, 4),
        ({"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "abc"}}, 3),
        ({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{"}}, 1),
        ({"type": "response.output_text.delta", "delta": "ab", "obfuscation": "xxxxxxx"}, 2),
        ({"content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"path": "abc", "n": 1}}]}, 3),
        ({"output": [{"type": "message", "content": [{"type": "output_text", "text": "abc"}]}]}, 3),
        (None, 0),
    ],
)
def test_only_what_the_model_wrote_is_text(frame: object, size: int) -> None:
    assert text_size(frame) == size


def test_a_deep_answer_is_measured() -> None:
    value: object = "x"
    for _ in range(100_000):
        value = [value]
    assert text_size({"text": value}) == 1


def test_a_file_in_a_prompt_counts_as_a_thousand_tokens() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}}, {"text": "b" * 400}]
    body = json.dumps({"messages": [{"content": parts}, {"content": parts}]}).encode()
    assert excess_of_files(body) == 2 * 396_000
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}
    assert excess_of_files(json.dumps(source, separators=(",", ":")).encode()) == 396_000
    assert excess_of_files(b'{"data":"unfinished') == excess_of_files(b'{"data":"small"}') == 0
