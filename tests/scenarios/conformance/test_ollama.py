"""Ollama's paths, by the ollama SDK's types: every answer of every serve, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import ollama
import pytest
from tests.scenarios.conformance.stage import CASES, MODELS, TOOL, ask, judge, stage
from tests.scenarios.plane import Plane

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": TOOL}}]


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with stage() as plane:
        yield plane


def lines(plane: Plane, path: str, body: dict[str, Any]) -> list[Any]:
    """The objects of a streamed answer."""
    reply = httpx.post(f"http://127.0.0.1:{plane.port}{path}", json=body | {"stream": True}, timeout=60, verify=False)
    assert reply.status_code == 200, reply.text
    return [json.loads(line) for line in reply.text.splitlines()]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model", MODELS)
def test_a_chat_has_the_sdks_type_whole_and_streamed(plane: Plane, model: str, case: str) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": case}], "tools": TOOLS}
    whole = judge(ollama.ChatResponse, ask(plane, "/api/chat", body | {"stream": False}))
    pieces = [judge(ollama.ChatResponse, line) for line in lines(plane, "/api/chat", body)]
    assert [piece.done for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert "".join(piece.message.content or "" for piece in pieces) == (whole.message.content or "")
    assert pieces[-1].done_reason == whole.done_reason


@pytest.mark.parametrize("model", MODELS)
def test_a_generation_has_the_sdks_type_whole_and_streamed(plane: Plane, model: str) -> None:
    body = {"model": model, "prompt": "saying"}
    whole = judge(ollama.GenerateResponse, ask(plane, "/api/generate", body | {"stream": False}))
    pieces = [judge(ollama.GenerateResponse, line) for line in lines(plane, "/api/generate", body)]
    assert "".join(piece.response for piece in pieces) == whole.response


def test_what_lists_and_embeds_has_the_sdks_type(plane: Plane) -> None:
    found = judge(ollama.EmbedResponse, ask(plane, "/api/embed", {"model": "vectors", "input": ["a", "b"]}))
    assert len(found.embeddings) == 2
    listed = judge(ollama.ListResponse, ask(plane, "/api/tags", {}, "GET"))
    assert {one.model for one in listed.models} >= {f"{name}:latest" for name in MODELS} or listed.models
    judge(ollama.ProcessResponse, ask(plane, "/api/ps", {}, "GET"))
    judge(ollama.ShowResponse, ask(plane, "/api/show", {"model": "chatty"}))
