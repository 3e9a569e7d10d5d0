"""Whether the tools of a request can change files is told by their names, else by what they say of themselves."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from stoker.domain.dialect import Dialect
from stoker_content.outline import Toolbox, outline, toolbox


def changes(*tools: Any) -> bool:
    return toolbox(msgspec.Raw(json.dumps(tools).encode())).changes_files


@pytest.mark.parametrize(
    "name",
    [
        "edit", "Edit", "MultiEdit", "write_file", "Write", "apply_patch", "str_replace", "str_replace_based_edit_tool",
        "bash", "Bash", "shell", "exec_command", "run_command", "run_shell_command", "execute_command", "create_file",
        "delete", "mv", "NotebookEdit", "mcp__files__write_file", "mcp__desktop-commander__edit_block", "computer",
        "replace_in_file", "write_to_file", "editor", "run_terminal_cmd", "insert_edit_into_file", "writeFile",
        "runCommands", "local_shell", "terminal", "python", "read_write_file", "rename_symbol", "Task",
    ],
)  # fmt: skip
def test_a_name_tells_that_a_tool_changes_files(name: str) -> None:
    assert changes({"type": "function", "function": {"name": name}})
    assert changes({"name": name, "input_schema": {}})
    assert changes({"type": "function", "name": name})
    assert changes({"name": "get_time"}, {"type": "namespace", "name": "a", "tools": [{"name": name}]})


@pytest.mark.parametrize(
    "name",
    ["get_weather", "read_file", "search", "web_search", "list_commits", "get_task", "calendar", "credit_score",
     "dispatch", "Read", "Glob", "Grep", "view_image", "look"],
)  # fmt: skip
def test_tools_that_only_read_do_not(name: str) -> None:
    assert not changes({"type": "function", "function": {"name": name, "description": "Tells something."}})


@pytest.mark.parametrize(
    "kind", ["bash_20250124", "text_editor_20250728", "apply_patch", "shell", "computer_20250124", "mcp"]
)
def test_the_type_of_a_tool_tells_it_too(kind: str) -> None:
    assert changes({"type": kind})


def test_where_no_name_tells_the_description_does() -> None:
    assert changes({"name": "tool_7", "description": "Makes edits: it can modify any file of the project."})
    assert changes({"name": "tool_7", "description": "Runs a shell command and returns its output."})
    assert not changes({"name": "tool_7", "description": "Tells the time of day in a city."})


def test_what_cannot_be_read_may_change_files_and_nothing_does_not() -> None:
    assert changes(5, {"name": "look"})
    assert toolbox(msgspec.Raw(b"[]")) == toolbox(msgspec.Raw(b"{}")) == toolbox(msgspec.Raw(b"")) == Toolbox()


@pytest.mark.parametrize(
    "body",
    [
        {"functions": [{"name": "write_file"}]},
        {"mcp_servers": [{"url": "https://example.com"}]},
        {"input": [{"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "exec"}]}]},
        {"messages": [{"role": "system", "content": "Use these.\n## write_to_file\n" + "More of it. " * 300}]},
        {"instructions": "Answer with a *SEARCH/REPLACE block*. " + "More of it. " * 300},
    ],
)
def test_tools_are_seen_wherever_a_request_offers_them(body: dict[str, Any]) -> None:
    assert outline(Dialect.CHAT, json.dumps(body).encode())[0].changes_files
