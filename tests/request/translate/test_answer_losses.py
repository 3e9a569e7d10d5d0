"""What an answer holds beside its text is carried where the client has a place for it, and named elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.request.translate.capable import capabilities_of

from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Prompt
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.translate import AnswerTranslator, read_prompt, write_prompt

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
OLLAMA, GENERATE = Dialect.OLLAMA_CHAT, Dialect.OLLAMA_GENERATE
SIGNER = ThinkingSigner((b"key",))
LOGPROBS = [{"token": "hi", "logprob": -0.5, "bytes": [104, 105], "top_logprobs": [{"token": "hi", "logprob": -0.5}]}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CITED = {"type": "url_citation", "url_citation": {"url": "https://a.b", "title": "t", "start_index": 0, "end_index": 1}}
LOST = [
    ({"audio": {"id": "a", "data": "AAAA"}}, "lossy:audio"),
    ({"images": [IMAGE]}, "lossy:answer_image"),
    ({"annotations": [CITED]}, "lossy:annotations"),
]


def translator(client: Dialect, upstream: Dialect = CHAT) -> AnswerTranslator:
    prompt = Prompt(client, "m", [])
    losses = read_prompt(CHAT, b'{"model":"m","messages":[]}')[1]
    written = write_prompt(prompt, losses, capabilities_of("vllm", upstream, cloud=False), SIGNER)
    return AnswerTranslator(upstream, written, AnswerContext(prompt, "id", 1, SIGNER, "m"))


def whole(client: Dialect, more: dict[str, Any], choice: dict[str, Any] | None = None) -> tuple[Any, str]:
    one = translator(client)
    message = {"role": "assistant", "content": "hi", **more}
    answer = {"id": "c", "choices": [{"message": message, "finish_reason": "stop", **(choice or {})}]}
    return json.loads(one.translate_whole(json.dumps(answer).encode())), one.describe_changes().decode()


def streamed(client: Dialect, more: dict[str, Any], choice: dict[str, Any] | None = None) -> tuple[bytes, str]:
    one = translator(client)
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "hi", **more}, **(choice or {})}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    data = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    out = one.feed(data + b"data: [DONE]\n\n")
    return out, one.describe_changes().decode()


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES, OLLAMA])
@pytest.mark.parametrize(("more", "code"), LOST)
def test_what_has_no_place_is_named(client: Dialect, more: dict[str, Any], code: str) -> None:
    assert whole(client, more)[1] == code
    assert streamed(client, more)[1] == code
    assert whole(client, dict.fromkeys(more))[1] == ""


def test_an_image_among_the_parts_of_a_message_is_named_too() -> None:
    parts = {"content": [{"type": "text", "text": "hi"}, IMAGE]}
    answer, words = whole(MESSAGES, parts)
    assert (answer["content"], words) == ([{"type": "text", "text": "hi"}], "lossy:answer_image")
    assert streamed(MESSAGES, parts)[1] == "lossy:answer_image"


def test_so_is_an_image_that_the_responses_api_made() -> None:
    one = translator(CHAT, RESPONSES)
    items = [{"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"}]
    one.translate_whole(json.dumps({"status": "completed", "output": items}).encode())
    assert one.describe_changes() == b"lossy:answer_image"


# -- log probabilities --------------------------------------------------------------------------------------------

SCORED = {"logprobs": {"content": LOGPROBS, "refusal": None}}


def test_ollama_gets_the_log_probabilities_that_it_asked_for() -> None:
    for client in (OLLAMA, GENERATE):
        answer, words = whole(client, {}, SCORED)
        assert (answer["logprobs"], words) == (LOGPROBS, "")
        lines, words = streamed(client, {}, SCORED)
        assert (json.loads(lines.split(b"\n")[0])["logprobs"], words) == (LOGPROBS, "")
        assert b"logprobs" not in streamed(client, {}, {"logprobs": None})[0]


def test_chat_gets_them_if_its_answer_is_read_on_the_way() -> None:
    answer, words = whole(CHAT, {}, SCORED)
    assert (answer["choices"][0]["logprobs"], words) == (SCORED["logprobs"], "")
    data, _ = streamed(CHAT, {}, SCORED)
    chunks = [json.loads(frame[6:]) for frame in data.split(b"\n\n") if frame.startswith(b"data: {")]
    assert [chunk["choices"][0]["logprobs"] for chunk in chunks] == [None, SCORED["logprobs"], None]


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES, Dialect.COMPLETIONS])
def test_elsewhere_they_are_named(client: Dialect) -> None:
    assert (whole(client, {}, SCORED)[1], streamed(client, {}, SCORED)[1]) == ("lossy:logprobs", "lossy:logprobs")


def test_ollamas_wish_for_them_gets_to_the_engine() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "logprobs": True, "top_logprobs": 3}
    prompt, losses = read_prompt(OLLAMA, json.dumps(body).encode())
    written = write_prompt(prompt, losses, capabilities_of("llama.cpp", CHAT, cloud=False), SIGNER)
    sent = json.loads(written.body)
    assert (sent["logprobs"], sent["top_logprobs"], written.losses.words()) == (True, 3, ())
