"""Responses, by the openai SDK's types: every answer and event of every serve, stored ones and compacted ones too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai.types.conversations import (
    Conversation,
    ConversationDeletedResource,
    ConversationItem,
    ConversationItemList,
)
from openai.types.responses import (
    CompactedResponse,
    InputTokenCountResponse,
    Response,
    ResponseItemList,
    ResponseStreamEvent,
)
from tests.scenarios.conformance.stage import CASES, FAULTS, MODELS, TOOL, ask, judge, stage, stream
from tests.scenarios.plane import Plane

PATH = "/v1/responses"
TOOLS = [
    {"type": "function", "name": "get_weather", "parameters": TOOL, "strict": True},
    {"type": "custom", "name": "patch"},
]
IMAGE = "data:image/png;base64,iVBORw0KGgo="
FORMAT = {"type": "json_schema", "name": "city", "schema": TOOL}


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with stage('[responses]\nstore = true\nmax_bytes = "8MiB"') as plane:
        yield plane


def asked(model: str, given: Any, **more: Any) -> dict[str, Any]:
    return {"model": model, "input": given, **more}


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model", MODELS)
def test_an_answer_has_the_sdks_type_whole_and_streamed(plane: Plane, model: str, case: str, stored: bool) -> None:
    body = asked(model, case, store=stored, tools=TOOLS, text={"format": FORMAT})
    whole = judge(Response, ask(plane, PATH, body))
    events = [judge(ResponseStreamEvent, event.data) for event in stream(plane, PATH, body)]
    last = events[-1].response
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[0].response.id == last.id
    assert (last.status, last.output_text) == (whole.status, whole.output_text)
    if stored:
        judge(Response, ask(plane, f"{PATH}/{last.id}", {}, "GET"))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("model", MODELS)
def test_a_failed_answer_has_the_sdks_type(plane: Plane, model: str, fault: str) -> None:
    found = stream(plane, PATH, asked(model, f"go script: {FAULTS[fault]}"))
    events = [judge(ResponseStreamEvent, event.data) for event in found]
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]


@pytest.mark.parametrize("model", MODELS)
def test_a_compacted_conversation_has_the_sdks_type(plane: Plane, model: str) -> None:
    compacted = ask(plane, "/v1/responses/compact", asked(model, "saying"))
    *users, summary = compacted["output"]
    assert [item["role"] for item in users] == ["user"]  # as OpenAI documents it; the type knows the assistant's only
    judge(CompactedResponse, compacted | {"output": [summary]})


def test_what_is_stored_is_listed_with_the_sdks_types(plane: Plane) -> None:
    call = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"}
    custom = {"type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "x"}
    given: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": IMAGE}],
        },
        {"role": "assistant", "content": "I look."},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        call,
        {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
        custom,
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"},
        {"role": "user", "content": "thinking"},
    ]
    response = ask(plane, PATH, asked("chatty", given, tools=TOOLS))
    listed = ask(plane, f"{PATH}/{response['id']}/input_items?order=asc", {}, "GET")
    assert [item.type for item in judge(ResponseItemList, listed).data] == [one.get("type", "message") for one in given]
    counted = ask(plane, f"{PATH}/input_tokens", asked("chatty", given))
    assert judge(InputTokenCountResponse, counted).input_tokens > 0


def test_conversations_have_the_sdks_types(plane: Plane) -> None:
    made = judge(Conversation, ask(plane, "/v1/conversations", {"metadata": {"topic": "x"}}))
    path = f"/v1/conversations/{made.id}"
    assert judge(Conversation, ask(plane, path, {}, "GET")).id == made.id
    response = judge(Response, ask(plane, PATH, asked("chatty", "thinking", conversation=made.id)))
    assert response.conversation.id == made.id
    items = judge(ConversationItemList, ask(plane, f"{path}/items", {}, "GET"))
    assert {item.type for item in items.data} == {"message", "reasoning"}
    for item in items.data:
        judge(ConversationItem, ask(plane, f"{path}/items/{item.id}", {}, "GET"))
    judge(ConversationDeletedResource, ask(plane, path, {}, "DELETE"))
