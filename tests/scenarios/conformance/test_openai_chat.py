"""Chat completions, by the openai SDK's types: every answer of every serve, whole and streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from tests.scenarios.conformance.stage import CASES, FAULTS, MODELS, TOOL, ask, judge, stage, stream
from tests.scenarios.plane import Plane

PATH = "/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": TOOL}}]


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with stage() as plane:
        yield plane


def asked(model: str, text: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model", MODELS)
def test_an_answer_has_the_sdks_type_whole_and_streamed(plane: Plane, model: str, case: str) -> None:
    body = asked(model, case, tools=TOOLS)
    whole = judge(ChatCompletion, ask(plane, PATH, body))
    *events, end = stream(plane, PATH, body | {"stream_options": {"include_usage": True}})
    assert end.data == "[DONE]"
    chunks = [judge(ChatCompletionChunk, event.data) for event in events]
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert reasons == [whole.choices[0].finish_reason]
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == (whole.choices[0].message.content or "")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("model", MODELS)
def test_what_came_before_a_failure_has_the_sdks_type(plane: Plane, model: str, fault: str) -> None:
    *events, last = stream(plane, PATH, asked(model, f"go script: {FAULTS[fault]}"))
    assert events
    for event in events:
        judge(ChatCompletionChunk, event.data)
    assert last.data["error"]["message"]
