"""Text completions and embeddings, by the openai SDK's types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai.pagination import SyncPage
from openai.types import Completion, CreateEmbeddingResponse, Model
from tests.scenarios.conformance.stage import CASES, FAULTS, MODELS, StreamedEvent, ask, judge, stage, stream
from tests.scenarios.plane import Plane

PATH = "/v1/completions"
SAID = [case for case in CASES if case not in ("calling", "explaining", "twice")]
"""A completion has no calls."""


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with stage() as plane:
        yield plane


def chunk(event: StreamedEvent) -> Any:
    """The type has no place for a chunk that is not the last: its reason is null there, as with OpenAI itself."""
    choices = event.data["choices"]
    assert all(choice["finish_reason"] is None or choice is choices[-1] for choice in choices)
    given = [choice | {"finish_reason": choice["finish_reason"] or "stop"} for choice in choices]
    return judge(Completion, event.data | {"choices": given})


@pytest.mark.parametrize("case", SAID)
@pytest.mark.parametrize("model", MODELS)
def test_a_completion_has_the_sdks_type_whole_and_streamed(plane: Plane, model: str, case: str) -> None:
    body = {"model": model, "prompt": case, "max_tokens": 64}
    whole = judge(Completion, ask(plane, PATH, body))
    *events, end = stream(plane, PATH, body | {"stream_options": {"include_usage": True}})
    assert end.data == "[DONE]"
    chunks = [chunk(event) for event in events]
    reasons = [choice["finish_reason"] for event in events for choice in event.data["choices"]]
    assert [reason for reason in reasons if reason] == [whole.choices[0].finish_reason]
    assert "".join(choice.text for one in chunks for choice in one.choices) == whole.choices[0].text
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("model", MODELS)
def test_what_came_before_a_failure_has_the_sdks_type(plane: Plane, model: str, fault: str) -> None:
    *events, last = stream(plane, PATH, {"model": model, "prompt": f"go script: {FAULTS[fault]}"})
    assert events
    for event in events:
        chunk(event)
    assert last.data["error"]["message"]


@pytest.mark.parametrize("given", ["one text", ["one", "two"]])
def test_embeddings_have_the_sdks_type(plane: Plane, given: str | list[str]) -> None:
    found = judge(CreateEmbeddingResponse, ask(plane, "/v1/embeddings", {"model": "vectors", "input": given}))
    assert [one.index for one in found.data] == list(range(1 if isinstance(given, str) else len(given)))


def test_models_have_the_sdks_type(plane: Plane) -> None:
    found = judge(SyncPage[Model], ask(plane, "/v1/models", {}, "GET"))
    assert {one.id for one in found.data} >= set(MODELS)
    for one in found.data:
        judge(Model, ask(plane, f"/v1/models/{one.id}", {}, "GET"))
