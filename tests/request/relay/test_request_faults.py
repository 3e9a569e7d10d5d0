"""A request that an engine cannot read is the client's error, whatever status the engine gives it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.domain.errors import ClientError, UpstreamError
from stoker.request.codec.upstream_errors import as_error
from stoker.request.relay import faults

READ = [
    "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error at line 1, column 2",
    "Failed to parse messages: [json.exception.out_of_range.403] key 'arguments' not found",
    'Failed to parse tools: Unsupported tool type: {"type":"web_search"}',
    "Invalid tool_choice: sometimes",
    "\n------------\nWhile executing CallExpression at line 4, column 36 in source:\nError: Jinja Exception: roles",
    "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/...",
    "Conversation roles must alternate user/assistant/user/assistant/...",
    "Can only get item pairs from a mapping.",
    'Error rendering prompt with jinja template: "No user query found in messages."',
]
"""What llama.cpp, vLLM, SGLang and LM Studio say."""
FAILED = ["", "CUDA out of memory", "Failed to parse input at pos 12: <tool_call>", "I said: Invalid tool_choice"]


def reply(message: str) -> bytes:
    return json.dumps({"error": {"code": 500, "message": message, "type": "server_error"}}).encode()


@pytest.mark.parametrize("message", READ)
def test_a_500_about_the_request_is_a_400(message: str) -> None:
    error = faults.from_status(500, [], reply(message))
    assert isinstance(error, ClientError)
    assert (error.status, error.code, error.message) == (400, "upstream_refused", message)


@pytest.mark.parametrize("message", READ)
def test_so_is_such_an_error_within_a_stream(message: str) -> None:
    frame: dict[str, Any] = json.loads(reply(message))
    error = as_error(frame)
    assert isinstance(error, ClientError)
    assert (error.status, error.message) == (400, message)


@pytest.mark.parametrize("message", FAILED)
def test_every_other_500_is_the_engines(message: str) -> None:
    assert isinstance(faults.from_status(500, [], reply(message)), UpstreamError)
    assert isinstance(as_error(json.loads(reply(message))), UpstreamError)


@pytest.mark.parametrize("status", [502, 503, 504, 529])
def test_only_a_500_is_looked_into(status: int) -> None:
    assert not isinstance(faults.from_status(status, [], reply(READ[0])), ClientError)
