"""The rules for MCP servers: who may use them, what is chosen, what waits for approval, what is loaded."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from stoker.domain.key import Key, Scope
from stoker.domain.prompt import ToolCall
from stoker.domain.serve import Secret
from stoker.domain.server_tools import McpTool, ServerToolKind
from stoker_tools.loop import End, Finish, LoopBounds, OfferedTool, Run, ToolLoop
from stoker_tools.mcp_declared import of_messages, of_responses
from stoker_tools.planner import may_use
from stoker_tools.tables import Tool, ToolService

READ, WRITE = McpTool("read", "", {}, True), McpTool("write", "", {})


def test_the_sdk_is_loaded_by_no_server_without_such_a_tool() -> None:
    code = (
        "import sys, stoker_tools.server, stoker_tools.doctor, stoker_tools.commands;"
        "print([name for name in ('mcp', 'mcp_types', 'pydantic', 'httpx2', 'anyio') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("name", "tools", "may"),
    [("", None, True), ("k", None, False), ("k", ("desk",), True), ("k", ("*",), True), ("k", ("web",), False)],
)
def test_only_a_key_that_names_it_may_use_a_tool_that_acts(name: str, tools: tuple[str, ...] | None, may: bool) -> None:
    key = Key(name, Secret("", ""), Scope.INFERENCE, tools=tools)
    for kind in (ToolService.MCP, ToolService.COMMAND):
        assert may_use(key, Tool(name="desk", kind=kind)) is may


@pytest.mark.parametrize(
    ("approval", "waiting"),
    [
        (None, ["read", "write"]),
        ("always", ["read", "write"]),
        ("never", []),
        ({"never": {"read_only": True}}, ["write"]),
        ({"never": {"tool_names": ["write"]}}, ["read"]),
        ({"always": {"tool_names": ["write"]}, "never": {"tool_names": ["read", "write"]}}, ["write"]),
        ({"always": {"tool_names": ["write"]}}, ["read", "write"]),
    ],
)
def test_what_is_not_plainly_excepted_waits_for_approval(approval: Any, waiting: list[str]) -> None:
    asked, _ = of_responses({"server_label": "desk", "require_approval": approval}, "tools[0]")
    assert [tool.name for tool in (READ, WRITE) if asked.approval.is_needed(tool)] == waiting


@pytest.mark.parametrize(
    ("server", "toolset", "offered"),
    [
        ({}, {"type": "mcp_toolset"}, ["read", "write"]),
        ({}, {"default_config": {"enabled": False}, "configs": {"read": {"enabled": True}}}, ["read"]),
        ({}, {"configs": {"read": {"enabled": False}}}, ["write"]),
        ({"tool_configuration": {"allowed_tools": ["write"]}}, {}, ["write"]),
        ({"tool_configuration": {"enabled": False}}, {}, []),
    ],
)
def test_a_toolset_chooses_among_the_tools(server: dict[str, Any], toolset: dict[str, Any], offered: list[str]) -> None:
    asked, _ = of_messages(server, toolset, "tools[0]")
    assert [tool.name for tool in (READ, WRITE) if asked.offers(tool)] == offered


def test_a_call_that_waits_does_not_run_and_ends_the_answer_once_the_others_have() -> None:
    offered = {
        "desk__read": OfferedTool(ServerToolKind.MCP, 8, "desk", "desk", "read"),
        "desk__write": OfferedTool(ServerToolKind.MCP, 8, "desk", "desk", "write", needs_approval=True),
    }
    loop = ToolLoop(offered, LoopBounds(8, 16, 100.0), iter("abcdef").__next__)
    calls = [
        ToolCall("1", "desk__write", '{"b":1,"a":2}'),
        ToolCall("2", "desk__read", ""),
        ToolCall("3", "desk__read", "[]"),
    ]
    commands = loop.on_round(calls, False)
    assert [(one.call.name, one.call.is_waiting, one.call.error) for one in commands if isinstance(one, End)] == [
        ("write", True, ""), ("read", False, "invalid_tool_input"),
    ]  # fmt: skip
    (run,) = [one for one in commands if isinstance(one, Run)]
    assert run.argument == "{}"
    assert isinstance(loop.on_result(run.call.id, [], "", 1.0)[-1], Finish)
