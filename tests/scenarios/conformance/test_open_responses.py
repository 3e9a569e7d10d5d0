"""Open Responses (2026-04-24): every answer and event, by the models that are made from the specification.

The cases of its acceptance tests are rebuilt from their description: basic, streaming, system prompt, tool calling,
image input, multi-turn, assistant phase, compaction, WebSocket.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openresponses_types as schema
import openresponses_types.types as types
import pytest
from tests.scenarios.conformance.stage import (
    CASES,
    FAULTS,
    MODELS,
    TOOL,
    StreamedEvent,
    ask,
    judge,
    stage,
    stream,
)
from tests.scenarios.plane import Plane
from websockets.sync.client import connect

PATH = "/v1/responses"
IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TOOLS = [{"type": "function", "name": "get_weather", "parameters": TOOL}]
OTHER_NAMES = {
    "response.reasoning_text.delta": "response.reasoning.delta",
    "response.reasoning_text.done": "response.reasoning.done",
}
"""What the specification calls otherwise than OpenAI's API and SDKs, whose names Stoker uses."""


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with stage('[responses]\nstore = true\nmax_bytes = "8MiB"') as plane:
        yield plane


EVENTS: dict[str, Any] = {
    str(next(iter(value.model_fields["type"].annotation)).value): value
    for name, value in vars(types).items()
    if name.endswith("StreamingEvent")
}
"""Each event's model, by its type."""


def judge_response(response: dict[str, Any]) -> None:
    judge(schema.ResponseResource, response)
    assert "user" in response, "OpenAI's own schema requires it"


def judge_events(events: list[StreamedEvent]) -> list[dict[str, Any]]:
    """Every event by its model; its payloads."""
    number = -1
    for event in events:
        data = dict(event.data)
        assert event.name == data["type"]
        assert data["sequence_number"] > number
        number = data["sequence_number"]
        data["type"] = OTHER_NAMES.get(data["type"], data["type"])
        judge(EVENTS[data["type"]], data)
        if "response" in data:
            judge_response(data["response"])
    return [event.data for event in events]


def asked(model: str, given: Any, **more: Any) -> dict[str, Any]:
    return {"model": model, "input": given, **more}


# -- every answer of every serve ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model", MODELS)
def test_an_answer_matches_the_schema_whole_and_streamed(plane: Plane, model: str, case: str, stored: bool) -> None:
    body = asked(model, case, store=stored, tools=TOOLS)
    whole = ask(plane, PATH, body)
    judge_response(whole)
    last = judge_events(stream(plane, PATH, body))[-1]["response"]
    assert last["status"] == whole["status"]
    assert [item["type"] for item in last["output"]] == [item["type"] for item in whole["output"]]
    assert last["store"] is whole["store"] is stored
    if stored:
        judge_response(ask(plane, f"{PATH}/{last['id']}", {}, "GET"))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("model", MODELS)
def test_a_failed_answer_matches_the_schema(plane: Plane, model: str, fault: str) -> None:
    events = judge_events(stream(plane, PATH, asked(model, f"go script: {FAULTS[fault]}")))
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert events[-1]["response"]["status"] == "failed"


@pytest.mark.parametrize("model", MODELS)
def test_a_compacted_conversation_matches_the_schema(plane: Plane, model: str) -> None:
    compacted = ask(plane, "/v1/responses/compact", asked(model, [{"role": "user", "content": "saying"}]))
    judge(schema.CompactResource, compacted)
    judge_response(ask(plane, PATH, asked(model, [*compacted["output"], {"role": "user", "content": "saying"}])))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_a_triggered_compaction_matches_the_schema(plane: Plane, model: str, stored: bool) -> None:
    given = [message("user", "saying"), {"type": "compaction_trigger"}]
    body = asked(model, given, store=stored)
    whole = ask(plane, PATH, body)
    judge_response(whole)
    last = judge_events(stream(plane, PATH, body))[-1]["response"]
    for response in (whole, last):
        assert [item["type"] for item in response["output"]] == ["compaction"]
        assert response["store"] is stored


# -- over a WebSocket ----------------------------------------------------------------------------------------------


def over_a_websocket(plane: Plane, *bodies: dict[str, Any]) -> Iterator[list[StreamedEvent]]:
    """The events of each response, on one connection."""
    with connect(f"ws://127.0.0.1:{plane.port}{PATH}", max_size=None) as connection:
        for body in bodies:
            connection.send(json.dumps({"type": "response.create", **body}))
            events: list[StreamedEvent] = []
            while not events or not events[-1].name.endswith((".completed", ".incomplete", ".failed")):
                data = json.loads(connection.recv(timeout=30))
                events.append(StreamedEvent(data["type"], data))
            yield events


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model", MODELS)
def test_a_websocket_says_what_a_stream_says(plane: Plane, model: str, case: str, stored: bool) -> None:
    body = asked(model, case, store=stored, tools=TOOLS)
    streamed = judge_events(stream(plane, PATH, body))
    (events,) = over_a_websocket(plane, body)
    said = judge_events(events)
    assert [event["type"] for event in said] == [event["type"] for event in streamed]
    assert said[-1]["response"]["store"] is stored


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("model", MODELS)
def test_a_failure_over_a_websocket_matches_the_schema(plane: Plane, model: str, fault: str) -> None:
    (events,) = over_a_websocket(plane, asked(model, f"go script: {FAULTS[fault]}"))
    assert [event["type"] for event in judge_events(events)[-2:]] == ["error", "response.failed"]


@pytest.mark.parametrize("model", MODELS)
def test_a_warm_up_and_what_goes_on_from_it_match_the_schema(plane: Plane, model: str) -> None:
    warm = asked(model, [message("user", "I am Ann.")], generate=False, store=False)
    (events,) = over_a_websocket(plane, warm)
    assert judge_events(events)[-1]["response"]["output"] == []
    talk = over_a_websocket(plane, warm, more := asked(model, "saying", store=False))
    more["previous_response_id"] = next(talk)[-1].data["response"]["id"]
    response = judge_events(next(talk))[-1]["response"]
    assert response["previous_response_id"] == more["previous_response_id"]


def test_a_response_repeats_what_was_asked(plane: Plane) -> None:
    given: dict[str, Any] = {
        "temperature": 0.5, "top_p": 0.9, "presence_penalty": 0.1, "frequency_penalty": 0.2, "top_logprobs": 2,
        "truncation": "auto", "parallel_tool_calls": False, "service_tier": "default", "safety_identifier": "someone",
        "prompt_cache_key": "session", "metadata": {"a": "b"}, "max_output_tokens": 99, "max_tool_calls": 3,
        "reasoning": {"effort": "low", "summary": None}, "instructions": "Be brief.", "tool_choice": "auto",
        "text": {"format": {"type": "json_object"}, "verbosity": "low"}, "user": "u",
    }  # fmt: skip
    response = ask(plane, PATH, asked("chatty", "saying", **given))
    judge_response(response)
    assert {name: response[name] for name in given} == given


# -- the acceptance tests ----------------------------------------------------------------------------------------


def message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **more}


PICTURE = [{"type": "input_text", "text": "What is it? saying"}, {"type": "input_image", "image_url": IMAGE}]
ACCEPTANCE: dict[str, list[dict[str, Any]]] = {
    "basic": [message("user", "saying")],
    "system prompt": [message("system", "You are a pirate."), message("user", "saying")],
    "image input": [message("user", PICTURE)],
    "multi-turn": [message("user", "I am Ann."), message("assistant", "Hello Ann!"), message("user", "saying")],
    "assistant phase": [
        message("assistant", "I should answer.", phase="commentary"),
        message("assistant", "Four.", phase="final_answer"),
        message("user", "saying"),
    ],
}


@pytest.mark.parametrize("case", ACCEPTANCE)
@pytest.mark.parametrize("model", MODELS)
def test_the_acceptance_cases(plane: Plane, model: str, case: str) -> None:
    body = asked(model, ACCEPTANCE[case])
    for response in (ask(plane, PATH, body), judge_events(stream(plane, PATH, body))[-1]["response"]):
        judge_response(response)
        assert response["status"] == "completed"
        assert [item["type"] for item in response["output"]] == ["message"]


@pytest.mark.parametrize("model", MODELS)
def test_the_acceptance_case_of_tool_calling(plane: Plane, model: str) -> None:
    body = asked(model, [message("user", "calling")], tools=TOOLS)
    judge_response(ask(plane, PATH, body))
    events = judge_events(stream(plane, PATH, body))
    added, done = (
        next(one["item"] for one in events if one["type"] == f"response.output_item.{step}")
        for step in ("added", "done")
    )
    assert added["type"] == done["type"] == "function_call"
    kinds = [event["type"] for event in events]
    assert "response.function_call_arguments.delta" in kinds
    assert "response.function_call_arguments.done" in kinds
    [call] = events[-1]["response"]["output"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
    judge_response(ask(plane, PATH, asked(model, [message("user", "saying"), call, result], tools=TOOLS)))
