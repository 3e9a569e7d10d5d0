"""Responses, by the openai SDK's types: every answer and event of every serve, stored ones and compacted ones too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai.types.responses import CompactedResponse, Response, ResponseStreamEvent
from tests.scenarios.conformance.stage import CASES, FAULTS, MODELS, TOOL, ask, judge, stage, stream
from tests.scenarios.plane import Plane

PATH = "/v1/responses"
TOOLS = [
    {"type": "function", "name": "get_weather", "parameters": TOOL, "strict": True},
    {"type": "custom", "name": "patch"},
]
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
    judge(CompactedResponse, ask(plane, "/v1/responses/compact", asked(model, "saying")))
