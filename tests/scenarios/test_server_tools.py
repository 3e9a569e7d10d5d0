"""Web search in every dialect in front of serves of every dialect, whole and streamed, read by the vendors' SDKs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from bench.agents.search_site import SearchSite
from tests.scenarios.plane import Plane, running, serve

from stoker_lab.testing.script.script import Script

SERVES = ("chat", "messages", "responses")
URL = "https://pages.example/tower"
SAID = f"It is 330 m tall, says {URL}."
ANSWERS = (
    {"blocks": [{"type": "call", "name": "web_search", "arguments": {"query": "tower"}}]},
    {"blocks": [{"type": "text", "text": SAID}]},
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    serves = (serve(name, Script(answers=ANSWERS), slot=None, dialects=[name]) for name in SERVES)
    with SearchSite() as site, running(site.configuration, *serves, keeps_engines=True) as plane:
        yield plane


def _openai(plane: Plane) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{plane.port}/v1", api_key="none", max_retries=0, timeout=20)


@pytest.mark.holds("messages-search/chat", "messages-search/messages", "messages-search/responses")
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("model", SERVES)
def test_messages(plane: Plane, model: str, is_streamed: bool) -> None:
    tools: Any = [{"type": "web_search_20250305", "name": "web_search"}]
    asked: Any = {"model": model, "max_tokens": 500, "messages": [{"role": "user", "content": "How tall?"}]}
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{plane.port}", api_key="none", max_retries=0) as client:
        if is_streamed:
            with client.messages.stream(**asked, tools=tools) as stream:
                answer = stream.get_final_message()
        else:
            answer = client.messages.create(**asked, tools=tools)
    call, result, text = answer.content
    assert call.type == "server_tool_use"
    assert call.input == {"query": "tower"}
    assert result.type == "web_search_tool_result"
    assert isinstance(result.content, list)
    assert URL in [page.url for page in result.content]
    assert text.type == "text"
    assert text.text == SAID
    assert answer.stop_reason == "end_turn"
    assert answer.usage.server_tool_use is not None
    assert answer.usage.server_tool_use.web_search_requests == 1


@pytest.mark.holds("responses-search/chat", "responses-search/messages", "responses-search/responses")
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("model", SERVES)
def test_responses(plane: Plane, model: str, is_streamed: bool) -> None:
    asked: Any = {"model": model, "input": "How tall?", "tools": [{"type": "web_search"}]}
    with _openai(plane) as client:
        if is_streamed:
            with client.responses.stream(**asked) as stream:
                answer: Any = stream.get_final_response()
        else:
            answer = client.responses.create(**asked)
    assert [item.type for item in answer.output] == ["web_search_call", "reasoning", "message"]
    assert (answer.output[0].status, answer.output[0].action.query) == ("completed", "tower")
    (cited,) = answer.output[2].content[0].annotations
    assert (answer.output_text, cited.url) == (SAID, URL)


@pytest.mark.holds("chat-search/chat", "chat-search/messages", "chat-search/responses")
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("model", SERVES)
def test_chat(plane: Plane, model: str, is_streamed: bool) -> None:
    asked: Any = {"model": model, "messages": [{"role": "user", "content": "How tall?"}], "web_search_options": {}}
    with _openai(plane) as client:
        if is_streamed:
            with client.chat.completions.stream(**asked) as stream:
                message = stream.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(**asked).choices[0].message
    assert (message.content, message.tool_calls or None) == (SAID, None)
    if not is_streamed:  # the SDK's helper does not gather annotations
        assert [one.url_citation.url for one in message.annotations or ()] == [URL]
