"""A tool that the vendor runs reaches only a serve that can run it; everywhere else it is left out and named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.domain.dialect import ENDPOINTS, Dialect
from stoker.domain.serve import Serve, Translation
from stoker.exchange.formatter import Formatter, UpstreamRequest
from stoker.request.codec.body_fields import read_body_fields
from stoker.request.translate.neutral.thinking import ThinkingSigner

CHAT, MESSAGES, RESPONSES, OLLAMA = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES, Dialect.OLLAMA_CHAT
NAMED = "lossy:server_tools"
WEB = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
FUNCTIONS: dict[Dialect, dict[str, Any]] = {
    CHAT: {"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}},
    MESSAGES: {"name": "get", "input_schema": {"type": "object"}},
    RESPONSES: {"type": "function", "name": "get", "parameters": {"type": "object"}},
    OLLAMA: {"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}},
}
TOOLS: dict[Dialect, list[dict[str, Any]]] = {
    CHAT: [{"type": "web_search"}, {"type": "builtin_function", "function": {"name": "$web_search"}}],
    MESSAGES: [
        WEB,
        {"type": "web_fetch_20250910", "name": "web_fetch"},
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"type": "computer_20250124", "name": "computer", "display_width_px": 1, "display_height_px": 1},
        {"type": "mcp_toolset", "mcp_server_name": "docs"},
    ],
    RESPONSES: [
        {"type": "web_search"},
        {"type": "web_search_preview"},
        {"type": "file_search", "vector_store_ids": ["vs_1"]},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "image_generation"},
        {"type": "mcp", "server_label": "docs", "server_url": "https://example.com"},
        {"type": "local_shell"},
    ],
    OLLAMA: [{"type": "web_search"}],
}
FIELDS: dict[Dialect, dict[str, Any]] = {
    CHAT: {"web_search_options": {}},
    MESSAGES: {"mcp_servers": [{"type": "url", "name": "docs", "url": "https://example.com"}], "container": "c_1"},
}
"""Fields that ask for such tools without naming one."""
TURNS: dict[Dialect, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "x"}]},
    MESSAGES: {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9},
    RESPONSES: {"input": "x"},
    OLLAMA: {"messages": [{"role": "user", "content": "x"}]},
}
CASES = [(dialect, tool) for dialect, tools in TOOLS.items() for tool in tools]
WAYS = [CHAT, MESSAGES, RESPONSES]


def formatted(
    client: Dialect,
    serve: Dialect,
    fields: dict[str, Any],
    is_cloud: bool = False,
    traits: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The body that a serve gets, and the words that name the changes."""
    one = Serve("s", "openai", dialects=frozenset((serve,)), translation=Translation(cloud=is_cloud, **(traits or {})))
    formatter = Formatter(ThinkingSigner((b"key",)), lambda: 0.0)
    ask(formatter, one, client, {})
    request = ask(formatter, one, client, fields)
    return json.loads(request.edited("m").whole()), request.notes


def ask(formatter: Formatter, serve: Serve, client: Dialect, fields: dict[str, Any]) -> UpstreamRequest:
    path = client.spec.path
    body = json.dumps({"model": "m", **TURNS[client], **fields}).encode()
    return formatter.format(serve, None, ENDPOINTS[path], read_body_fields(body), body)


def names_in(body: dict[str, Any]) -> list[str]:
    return [tool.get("function", tool)["name"] for tool in body.get("tools", [])]


@pytest.mark.parametrize("serve", WAYS)
@pytest.mark.parametrize(("client", "tool"), CASES)
def test_a_local_serve_gets_the_clients_own_tools_alone(client: Dialect, tool: dict[str, Any], serve: Dialect) -> None:
    body, words = formatted(client, serve, {"tools": [FUNCTIONS[client], tool]})
    assert (names_in(body), NAMED in words) == (["get"], True)


@pytest.mark.parametrize("serve", WAYS)
@pytest.mark.parametrize(("client", "tool"), CASES)
def test_without_any_other_tool_nothing_speaks_of_tools(client: Dialect, tool: dict[str, Any], serve: Dialect) -> None:
    body, words = formatted(client, serve, {"tools": [tool]})
    assert NAMED in words
    assert body.keys().isdisjoint(("tools", "tool_choice", "parallel_tool_calls"))


@pytest.mark.parametrize("serve", WAYS)
@pytest.mark.parametrize(("client", "fields"), FIELDS.items())
def test_fields_that_ask_for_such_tools_are_left_out(client: Dialect, fields: dict[str, Any], serve: Dialect) -> None:
    body, words = formatted(client, serve, fields)
    assert NAMED in words
    assert body.keys().isdisjoint(fields)


@pytest.mark.parametrize(("client", "tool"), [case for case in CASES if case[0] is not OLLAMA])
def test_a_cloud_of_the_clients_dialect_gets_all_of_them(client: Dialect, tool: dict[str, Any]) -> None:
    given = {"tools": [FUNCTIONS[client], tool], "tool_choice": {"type": "auto"}}
    body, words = formatted(client, client, given, is_cloud=True)
    assert (body["tools"], words) == ([FUNCTIONS[client], tool], ())


def test_a_serve_of_ones_own_that_runs_them_gets_them() -> None:
    tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
    assert formatted(RESPONSES, RESPONSES, {"tools": tools}, traits={"server_tools": True}) == (
        {"model": "m", "input": "x", "tools": tools},
        (),
    )


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
def test_functions_pass_byte_for_byte(client: Dialect) -> None:
    body = json.dumps({"model": "m", **TURNS[client], "tools": [FUNCTIONS[client]]}, indent=1).encode()
    serve = Serve("s", "openai", dialects=frozenset((client,)))
    request = Formatter(ThinkingSigner((b"key",)), lambda: 0.0).format(
        serve, None, ENDPOINTS[client.spec.path], read_body_fields(body), body
    )
    assert (request.body, request.notes) == (body, ())


# -- choices ------------------------------------------------------------------------------------------------------

FORCED: list[tuple[Dialect, dict[str, Any], Any]] = [
    (CHAT, {"type": "web_search"}, {"type": "web_search"}),
    (MESSAGES, WEB, {"type": "tool", "name": "web_search"}),
    (RESPONSES, {"type": "web_search"}, {"type": "web_search"}),
    (RESPONSES, {"type": "mcp", "server_label": "docs"}, {"type": "mcp", "server_label": "docs"}),
]
AUTO = (None, "auto", {"type": "auto"})


@pytest.mark.parametrize("serve", WAYS)
@pytest.mark.parametrize(("client", "tool", "choice"), FORCED)
def test_a_choice_of_a_dropped_tool_becomes_auto(
    client: Dialect, tool: dict[str, Any], choice: Any, serve: Dialect
) -> None:
    body, words = formatted(client, serve, {"tools": [FUNCTIONS[client], tool], "tool_choice": choice})
    assert (body.get("tool_choice") in AUTO, NAMED in words) == (True, True)


@pytest.mark.parametrize("serve", WAYS)
def test_so_it_does_at_another_vendors_cloud(serve: Dialect) -> None:
    fields = {"tools": [FUNCTIONS[MESSAGES], WEB], "tool_choice": {"type": "tool", "name": "web_search"}}
    if serve is not MESSAGES:
        assert formatted(MESSAGES, serve, fields, is_cloud=True)[0]["tool_choice"] in AUTO


def test_one_call_at_a_time_stays_asked_for() -> None:
    choice = {"type": "tool", "name": "web_search", "disable_parallel_tool_use": True}
    body, _ = formatted(MESSAGES, MESSAGES, {"tools": [FUNCTIONS[MESSAGES], WEB], "tool_choice": choice})
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


def allowed(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": "required", "tools": list(tools)}


@pytest.mark.parametrize("is_cloud", [False, True])
@pytest.mark.parametrize("serve", WAYS)
def test_of_allowed_tools_those_of_the_client_stay(serve: Dialect, is_cloud: bool) -> None:
    tools = [FUNCTIONS[RESPONSES], {**FUNCTIONS[RESPONSES], "name": "put"}, {"type": "web_search"}]
    choice = allowed({"type": "function", "name": "get"}, {"type": "web_search"})
    body, words = formatted(RESPONSES, serve, {"tools": tools, "tool_choice": choice}, is_cloud)
    if serve is RESPONSES and is_cloud:
        assert (body["tool_choice"], words) == (choice, ())
        return
    told = json.dumps(body["tool_choice"])
    assert (NAMED in words, "web_search" in told, "put" in told) == (True, False, False)
    assert names_in(body)[0] == "get"


@pytest.mark.parametrize("serve", WAYS)
@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_if_nothing_else_was_allowed_no_tool_may_be_called(client: Dialect, serve: Dialect) -> None:
    choice = allowed({"type": "web_search"})
    if client is CHAT:
        choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "web_search"}]}}
    tools = [FUNCTIONS[client], {"type": "web_search"}]
    body, _ = formatted(client, serve, {"tools": tools, "tool_choice": choice})
    assert body["tool_choice"] in ("none", {"type": "none"})


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize(
    "odd", [7, [], {"type": []}, {"type": {}, "name": []}, {"type": "allowed_tools", "tools": [7]}]
)
def test_odd_tools_and_choices_are_left_to_the_engine(client: Dialect, odd: Any) -> None:
    body = json.dumps({"model": "m", **TURNS[client], "tools": [odd, TOOLS[client][0]], "tool_choice": odd}).encode()
    serve = Serve("s", "openai", dialects=frozenset((client,)))
    sent = Formatter(ThinkingSigner((b"key",)), lambda: 0.0).format(
        serve, None, ENDPOINTS[client.spec.path], read_body_fields(body), body
    )
    assert sent.notes == ("lossy:server_tools",)


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
def test_a_choice_of_the_clients_own_tool_stays(client: Dialect) -> None:
    choice = {
        CHAT: {"type": "function", "function": {"name": "get"}},
        MESSAGES: {"type": "tool", "name": "get"},
        RESPONSES: {"type": "function", "name": "get"},
    }[client]
    tools = [FUNCTIONS[client], TOOLS[client][0]]
    assert formatted(client, client, {"tools": tools, "tool_choice": choice})[0]["tool_choice"] == choice


# -- history ------------------------------------------------------------------------------------------------------


def test_what_such_tools_left_in_the_history_is_left_out_and_named() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    said = {"type": "text", "text": "found", "n": 1.0}
    turns = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [search, found, said]},
        {"role": "user", "content": "server_tool_use"},
        {"role": "assistant", "content": [search, found]},
    ]
    body, words = formatted(MESSAGES, MESSAGES, {"messages": turns})
    assert [turn["content"] for turn in body["messages"]] == ["x", [said], "server_tool_use", "(no content)"]
    assert words == ("lossy:foreign_block",)
    assert formatted(MESSAGES, MESSAGES, {"messages": turns}, is_cloud=True)[0]["messages"] == turns


def test_so_are_such_items() -> None:
    items = [
        {"role": "user", "content": "write web_search_call"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "docs", "tools": []},
        {"type": "function_call", "call_id": "c", "name": "get", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "r"},
    ]
    body, words = formatted(RESPONSES, RESPONSES, {"input": items})
    assert (body["input"], words) == ([items[0], *items[3:]], ("lossy:foreign_block",))
