"""A prompt that is too long is recognised in every engine's words, and told in each dialect's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError, ContextExceeded, OutputLimitTooHigh
from stoker.request.codec.own_replies import error_body
from stoker.request.codec.upstream_errors import as_error
from stoker.request.decide.context import check_context
from stoker.request.relay.faults import refusal_of

LLAMA = {
    "code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 2048,
    "message": "request (9000 tokens) exceeds the available context size (2048 tokens), try increasing it",
}  # fmt: skip
OPENAI = {
    "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded",
}  # fmt: skip
KNOWN = {"prompt_tokens": 9000, "context": 2048}
REFUSALS: list[tuple[dict[str, Any], dict[str, int]]] = [
    (LLAMA, KNOWN),
    ({"message": LLAMA["message"]}, KNOWN),
    ({"message": "prompt is too long: 9000 tokens > 2048 maximum", "type": "invalid_request_error"}, KNOWN),
    ({"message": "prompt is too long"}, {}),
    (OPENAI, {}),
    ({"message": OPENAI["message"]}, {}),
    ({"message": "This model's maximum context length is 2048 tokens. However, you requested 9100 tokens (9000 in the "
                 "messages, 100 in the completion). Please reduce the length.", "code": 400}, KNOWN),
    ({"message": "This model's maximum context length is 2048 tokens. However, your request has 9000 input tokens. "
                 "Please reduce the length of the input messages.", "code": 400}, KNOWN),
    ({"message": "The decoder prompt (length 9000) is longer than the maximum model length of 2048."}, KNOWN),
    ({"message": "The input (9000 tokens) is longer than the model's context length (2048 tokens)."}, KNOWN),
    ({"message": "Requested token count exceeds the model's maximum context length of 2048 tokens. You requested a "
                 "total of 9000 tokens: 8900 tokens from the input messages"}, KNOWN),
]  # fmt: skip
OTHER = [
    {"message": "max_tokens must be at least 1", "code": 400},
    {"message": "the context is 2048 tokens long"},
    {"message": "unknown field 'context'", "type": "invalid_request_error"},
]


@pytest.mark.parametrize(("refusal", "counts"), REFUSALS)
def test_an_engine_calls_a_prompt_too_long(refusal: dict[str, Any], counts: dict[str, int]) -> None:
    for error in (refusal_of(400, json.dumps({"error": refusal}).encode()), as_error({"error": refusal})):
        assert (type(error), error.status, error.code) == (ContextExceeded, 400, "context_length_exceeded")
        assert error.details == counts
        assert error.message == refusal["message"]


@pytest.mark.parametrize("refusal", OTHER)
def test_other_refusals_are_not_about_the_context(refusal: dict[str, Any]) -> None:
    assert refusal_of(400, json.dumps({"error": refusal}).encode()).code == "upstream_refused"


def told(error: ClientError, dialect: Dialect) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(error_body(error, dialect, "r1"))["error"]
    return found


@pytest.mark.parametrize(("refusal", "counts"), REFUSALS)
def test_each_dialect_words_it_as_its_clients_recognise_it(refusal: dict[str, Any], counts: dict[str, int]) -> None:
    error = refusal_of(400, json.dumps({"error": refusal}).encode())
    assert isinstance(error, ClientError)
    for dialect in (Dialect.CHAT, Dialect.RESPONSES):
        assert told(error, dialect)["code"] == "context_length_exceeded"
        assert told(error, dialect)["message"].startswith("Your input exceeds the context window of this model.")
        assert "his model's maximum context length is" in told(error, dialect)["message"]
    message = told(error, Dialect.MESSAGES)["message"]
    assert message.startswith("prompt is too long")
    if counts:
        assert message == "prompt is too long: 9000 tokens > 2048 maximum"


def test_stokers_own_refusal_is_worded_the_same_way() -> None:
    with pytest.raises(ClientError) as found:
        check_context("serve 'coder'", 2048, 9000, 100)
    assert told(found.value, Dialect.MESSAGES)["message"] == "prompt is too long: 9000 tokens > 2048 maximum"
    assert told(found.value, Dialect.CHAT)["context"] == 2048


OUTPUT = {"prompt_tokens": 2000, "output_tokens": 100, "context": 2048}
LIMITS: list[tuple[str, dict[str, int]]] = [
    ("This model's maximum context length is 2048 tokens. However, you requested 2100 tokens (2000 in the messages, "
     "100 in the completion). Please reduce the length of the messages or completion.", OUTPUT),
    ("'max_tokens' or 'max_completion_tokens' is too large: 100. This model's maximum context length is 2048 tokens "
     "and your request has 2000 input tokens (100 > 2048 - 2000). (parameter=max_tokens, value=100)", OUTPUT),
    ("This model's maximum context length is 2048 tokens. However, you requested 100 output tokens and your prompt "
     "contains at least 2000 input tokens, for a total of at least 2100 tokens.", OUTPUT),
    ("Requested token count exceeds the model's maximum context length of 2048 tokens. You requested a total of 2100 "
     "tokens: 2000 tokens from the input messages and 100 tokens for the completion.", OUTPUT),
    ("This model's maximum context length is 2048 tokens, however you requested 2100 tokens (2000 in your prompt; 100 "
     "for the completion). Please reduce your prompt; or completion length.", OUTPUT),
    ("input length and `max_tokens` exceed context limit: 2000 + 100 > 2048, decrease input length or `max_tokens` and "
     "try again", OUTPUT),
    ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2000 `inputs` tokens and 100 "
     "`max_new_tokens`", OUTPUT),
    ("This model's maximum context length is 2048 tokens. However, your messages resulted in 2000 input tokens.",
     {"prompt_tokens": 2000, "context": 2048}),
]  # fmt: skip
"""vLLM of several years, SGLang, OpenAI, Anthropic, TGI; and one that does not say what was asked for."""
TOO_LONG = ("prompt is too long", "input exceeds", "context window", "maximum context length",
            "context_length_exceeded", "reduce the length", "available context size", "too many tokens")  # fmt: skip
"""Words by which agents recognise that they have to shorten their conversation."""


@pytest.mark.parametrize(("message", "counts"), LIMITS)
@pytest.mark.parametrize("code", [400, "context_length_exceeded", "invalid_request_error", None])
def test_a_prompt_that_fits_is_not_called_too_long(message: str, counts: dict[str, int], code: object) -> None:
    refusal = {"message": message, "code": code, "type": "BadRequestError"}
    for error in (refusal_of(400, json.dumps({"error": refusal}).encode()), as_error({"error": refusal})):
        assert (type(error), error.status, error.code) == (OutputLimitTooHigh, 400, "output_limit_too_high")
        assert error.details == counts
        for dialect in Dialect:
            wording = error_body(error, dialect, "r1").decode()
            assert not [words for words in TOO_LONG if words in wording], wording
            assert "48" in wording


def test_a_reply_that_is_asked_to_be_too_long_says_so_in_messages() -> None:
    """Claude Code reads the three numbers and asks again for fewer tokens."""
    message = told(OutputLimitTooHigh(2000, 2048, 100), Dialect.MESSAGES)["message"]
    assert message.startswith("input length and `max_tokens` exceed context limit: 2000 + 100 > 2048")
