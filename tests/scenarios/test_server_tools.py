"""Tools in every dialect in front of serves of every dialect, whole and streamed, read by the vendors' SDKs."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from bench.agents.search_site import SearchSite
from tests.scenarios.plane import Plane, poll, running, serve, toml
from tests.tools.tool_stage import mcp_server

from stoker_lab.testing.script.script import Script

SERVES = ("chat", "messages", "responses")
URL = "https://pages.example/tower"
PUBLIC = "https://1.1.1.1/tower"  # the program that fetches it asks nobody
SAID = f"It is 330 m tall, says {URL}."
SUM = "the sum is 3"
HOSTILE = str(Path(__file__).parents[1] / "tools" / "hostile_mcp.py")
ADD, READ = "Add them.", f"Read {PUBLIC}, please."
PAGE = [sys.executable, "-I", "-S", "-c", "print('It is 330 m tall.')"]
PAGES = f"""[tools.pages]
kind = "command"
command = {toml(PAGE)}
provides = "web_fetch"
"""
ANSWERS = (
    {"when": ADD, "blocks": [{"type": "call", "name": "desk__add", "arguments": {"a": 1, "b": 2}}]},
    {"when": READ, "blocks": [{"type": "call", "name": "web_fetch", "arguments": {"url": PUBLIC}}]},
    {"blocks": [{"type": "call", "name": "web_search", "arguments": {"query": "tower"}}]},
    {"blocks": [{"type": "text", "text": SAID}]},
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    serves = (serve(name, Script(answers=ANSWERS), slot=None, dialects=[name]) for name in SERVES)
    with SearchSite() as site, mcp_server() as address:
        desk = f'[tools.desk]\nkind = "mcp"\nurl = "{address}"\nallow = ["add"]\n'
        with running(site.configuration, PAGES, desk, *serves, keeps_engines=True) as plane:
            yield plane
            plane.config.write_text(plane.config.read_text().replace(desk, ""))
            assert plane.admin("reload")[0] == 200, "it ends the session of the MCP server"


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


@pytest.mark.holds("messages-fetch/chat", "messages-fetch/messages", "messages-fetch/responses")
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("model", SERVES)
def test_messages_fetch(plane: Plane, model: str, is_streamed: bool) -> None:
    tools: Any = [{"type": "web_fetch_20250910", "name": "web_fetch"}]
    asked: Any = {"model": model, "max_tokens": 500, "messages": [{"role": "user", "content": READ}]}
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{plane.port}", api_key="none", max_retries=0) as client:
        if is_streamed:
            with client.messages.stream(**asked, tools=tools) as stream:
                answer = stream.get_final_message()
        else:
            answer = client.messages.create(**asked, tools=tools)
    call, result, text = answer.content
    assert call.type == "server_tool_use"
    assert call.input == {"url": PUBLIC}
    assert result.type == "web_fetch_tool_result"
    assert result.content.type == "web_fetch_result"
    assert result.content.content.source.data == "It is 330 m tall."
    assert text.type == "text"
    assert text.text == SAID
    assert answer.usage.server_tool_use is not None
    assert answer.usage.server_tool_use.web_fetch_requests == 1


@pytest.mark.holds("messages-mcp/chat", "messages-mcp/messages", "messages-mcp/responses")
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("model", SERVES)
def test_messages_mcp(plane: Plane, model: str, is_streamed: bool) -> None:
    asked: Any = {
        "model": model, "max_tokens": 500, "messages": [{"role": "user", "content": ADD}],
        "mcp_servers": [{"type": "url", "name": "desk"}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "desk"}], "betas": ["mcp-client-2025-11-20"],
    }  # fmt: skip
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{plane.port}", api_key="none", max_retries=0) as client:
        if is_streamed:
            with client.beta.messages.stream(**asked) as stream:
                answer = stream.get_final_message()
        else:
            answer = client.beta.messages.create(**asked)
    call, result, text = answer.content
    assert call.type == "mcp_tool_use"
    assert (call.server_name, call.name, call.input) == ("desk", "add", {"a": 1, "b": 2})
    assert result.type == "mcp_tool_result"
    assert (result.is_error, result.content[0].text) == (False, SUM)  # type: ignore[union-attr]
    assert text.type == "text"


@pytest.mark.holds("responses-mcp/chat", "responses-mcp/messages", "responses-mcp/responses")
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("model", SERVES)
def test_responses_mcp(plane: Plane, model: str, is_streamed: bool) -> None:
    """With the client's approval."""
    tool = {"type": "mcp", "server_label": "desk"}
    with _openai(plane) as client:

        def ask(given: Any) -> Any:
            asked: Any = {"model": model, "input": given, "tools": [tool]}
            if not is_streamed:
                return client.responses.create(**asked)
            with client.responses.stream(**asked) as stream:
                return stream.get_final_response()

        listing, request = ask(ADD).output
        assert (listing.type, [one.name for one in listing.tools]) == ("mcp_list_tools", ["add"])
        assert (request.type, request.name, json.loads(request.arguments)) == (
            "mcp_approval_request", "add", {"a": 1, "b": 2},
        )  # fmt: skip
        granted = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
        past = [{"role": "user", "content": ADD}, listing.model_dump(), request.model_dump()]
        call, said = ask([*past, granted]).output
    assert (call.type, call.output, call.approval_request_id, said.type) == ("mcp_call", SUM, request.id, "message")


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


@pytest.mark.holds("X")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not end a program with its parent")
def test_the_programs_of_tools_end_with_a_stoker_that_is_killed() -> None:
    """Though they do not care for the end of their input."""
    stays = [sys.executable, "-I", "-S", HOSTILE, "stays"]
    sleeps = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
    tools = f"""[tools.desk]
kind = "mcp"
command = {toml(stays)}
allow = ["*"]
[tools.own]
kind = "command"
command = {toml(sleeps)}
provides = "web_search"
network = true
timeout = "600s"
"""
    with running(tools, started=False) as plane:
        temporary = plane.directory / "tmp"  # what works below the story's directory is found
        temporary.mkdir()
        plane.environment["TMPDIR"] = str(temporary)
        plane.start()
        assert plane.ask("POST", "/admin/tools/desk", {"argument": "t"})[1]["error"] == ""
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(plane.ask, "POST", "/admin/tools/own", {"argument": "tower"})
            programs = [" ".join(stays), " ".join(sleeps)]
            poll(lambda: all(one in plane.processes().values() for one in programs), "both run")
            plane.signal(signal.SIGKILL)
            plane.exit_code()
            poll(lambda: not plane.processes(), lambda: f"no program is left: {plane.processes()}")
            assert asked.exception() is not None
        plane.start()
