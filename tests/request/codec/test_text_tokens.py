"""Tokens that nobody counted: pieces are tokens, unless they are too long for that."""

from __future__ import annotations

import json

import pytest

from stoker.request.codec.usage import excess_of_files, text_size, tokens_of_pieces, tokens_of_text


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
