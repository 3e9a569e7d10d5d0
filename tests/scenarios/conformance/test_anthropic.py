"""Messages, token counts and models, by the anthropic SDK's types: every answer of every serve, whole and streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from anthropic.pagination import SyncPage
from anthropic.types import ErrorResponse, Message, MessageTokensCount, ModelInfo, RawMessageStreamEvent
from tests.scenarios.conformance.stage import CASES, FAULTS, MODELS, TOOL, ask, judge, stage, stream
from tests.scenarios.plane import Plane

PATH = "/v1/messages"
TOOLS = [{"name": "get_weather", "input_schema": TOOL}]


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with stage() as plane:
        yield plane


def asked(model: str, text: str) -> dict[str, Any]:
    return {"model": model, "max_tokens": 64, "messages": [{"role": "user", "content": text}], "tools": TOOLS}


def judged(events: Any) -> list[Any]:
    return [judge(RawMessageStreamEvent, event.data) for event in events if event.data["type"] != "ping"]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model", MODELS)
def test_an_answer_has_the_sdks_type_whole_and_streamed(plane: Plane, model: str, case: str) -> None:
    whole = judge(Message, ask(plane, PATH, asked(model, case)))
    events = judged(stream(plane, PATH, asked(model, case)))
    assert (events[0].type, events[-1].type) == ("message_start", "message_stop")
    started = [event.content_block for event in events if event.type == "content_block_start"]
    assert [block.type for block in started] == [block.type for block in whole.content]
    [ended] = [event for event in events if event.type == "message_delta"]
    assert ended.delta.stop_reason == whole.stop_reason
    assert ended.usage.output_tokens == whole.usage.output_tokens


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("model", MODELS)
def test_what_came_before_a_failure_has_the_sdks_type_and_so_has_the_error(
    plane: Plane, model: str, fault: str
) -> None:
    *events, last = stream(plane, PATH, asked(model, f"go script: {FAULTS[fault]}"))
    assert judged(events)
    judge(ErrorResponse, last.data)


@pytest.mark.parametrize("model", MODELS)
def test_a_count_has_the_sdks_type(plane: Plane, model: str) -> None:
    body = asked(model, "saying")
    del body["max_tokens"]
    assert judge(MessageTokensCount, ask(plane, f"{PATH}/count_tokens", body)).input_tokens > 0


def test_models_have_the_sdks_type(plane: Plane) -> None:
    headers = {"anthropic-version": "2023-06-01", "x-api-key": "none"}
    url = f"http://127.0.0.1:{plane.port}/v1/models"
    found = judge(SyncPage[ModelInfo], httpx.get(url, headers=headers).json())
    assert {one.id for one in found.data} >= set(MODELS)
    judge(ModelInfo, httpx.get(f"{url}/chatty", headers=headers).json())
