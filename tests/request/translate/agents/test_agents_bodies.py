"""Real requests of coding agents, shortened (`python -m bench.agents`): each is read, and written for every serve.

What a strict API would refuse of the result is refused here: the rules are those of the scripted server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.agents.request_parts import RequestPart, request_parts
from tests.request.translate.capable import capabilities_of

from stoker.domain.dialect import TARGETS, Dialect
from stoker.request.translate.neutral.calls import short_name, spelt_id
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.translate import Written, read_prompt, write_prompt
from stoker_lab.testing.script import ask
from stoker_lab.testing.script.record import RecordedRequest
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.strict.strictness import refusal

BODIES = {path.stem: json.loads(path.read_text()) for path in sorted(Path(__file__).parent.glob("*.json"))}
SIGNER = ThinkingSigner((b"k" * 32,))
STRICT = Script(strict_chat=True, strict_messages=True)
SERVES = [
    pytest.param(capabilities_of(engine, dialect, cloud), id=f"{dialect.value}-{'cloud' if cloud else engine}")
    for dialect in TARGETS
    for engine, cloud in (("openai", True), ("llama.cpp", False), ("vllm", False))
]


def written(name: str, serve: Capabilities) -> Written:
    given = BODIES[name]
    prompt, losses = read_prompt(Dialect(given["dialect"]), json.dumps(given["body"]).encode())
    return write_prompt(prompt, losses, serve, SIGNER)


def told(name: str) -> list[RequestPart]:
    given = BODIES[name]
    return request_parts(Dialect(given["dialect"]), given["body"])


def kinds(found: list[RequestPart], kind: str) -> list[RequestPart]:
    return [one for one in found if one.kind == kind]


@pytest.mark.parametrize("serve", SERVES)
@pytest.mark.parametrize("name", BODIES)
def test_calls_and_results_reach_every_serve_with_their_ids_and_in_their_order(name: str, serve: Capabilities) -> None:
    arrived = request_parts(serve.dialect, json.loads(written(name, serve).body))
    was = told(name)
    assert [one.id for one in kinds(arrived, "call")] == [spelt_id(one.id) for one in kinds(was, "call")]
    assert [one.id for one in kinds(arrived, "result")] == [spelt_id(one.id) for one in kinds(was, "result")]
    assert [one.text.split() for one in kinds(arrived, "result")] == [one.text.split() for one in kinds(was, "result")]


@pytest.mark.parametrize("serve", SERVES)
@pytest.mark.parametrize("name", BODIES)
def test_what_is_written_can_be_read_again_and_loses_nothing_more(name: str, serve: Capabilities) -> None:
    first = written(name, serve)
    prompt, _ = read_prompt(serve.dialect, first.body)
    again = write_prompt(prompt, first.losses, serve, SIGNER)
    assert request_parts(serve.dialect, json.loads(again.body)) == request_parts(serve.dialect, json.loads(first.body))
    assert {tool["name"] for tool in tools(again.body)} == {tool["name"] for tool in tools(first.body)}


@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.MESSAGES])
@pytest.mark.parametrize("name", BODIES)
def test_a_strict_api_refuses_nothing_of_it(name: str, dialect: Dialect) -> None:
    body = written(name, capabilities_of("openai", dialect, cloud=True, given={"custom_tools": False})).body
    request = RecordedRequest("POST", dialect.spec.path, (("anthropic-version", "2023-06-01"),), body)
    assert refusal(STRICT, dialect.spec.path, request, ask.read_request(dialect, body)) is None


@pytest.mark.parametrize("name", [name for name in BODIES if name != "aider"])
def test_the_tools_that_it_calls_are_among_those_that_the_serve_is_given(name: str) -> None:
    for dialect in TARGETS:
        body = written(name, capabilities_of("vllm", dialect, cloud=False)).body
        given = {tool["name"] for tool in tools(body)}
        called = {one.text for one in kinds(request_parts(dialect, json.loads(body)), "call")}
        assert called <= given


def tools(body: bytes) -> list[dict[str, Any]]:
    return [tool.get("function") or tool.get("custom") or tool for tool in json.loads(body).get("tools", [])]


def test_tools_that_come_as_an_item_are_tools() -> None:
    """Codex under the names of OpenAI's newest models."""
    names = {
        tool["name"] for tool in tools(written("codex-code", capabilities_of("vllm", Dialect.CHAT, cloud=False)).body)
    }
    assert short_name("functions.exec", 64) in names


@pytest.mark.parametrize("name", ["claude-code", "opencode-anthropic"])
def test_thinking_that_anthropic_signed_goes_back_to_it_and_to_engines_as_text(name: str) -> None:
    thoughts = [one.text for one in kinds(told(name), "thinking")]
    assert len(thoughts) == 3
    local = json.loads(written(name, capabilities_of("vllm", Dialect.CHAT, cloud=False)).body)
    assert [one.text for one in kinds(request_parts(Dialect.CHAT, local), "thinking")] == thoughts
