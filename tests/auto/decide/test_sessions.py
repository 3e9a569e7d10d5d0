"""Whole sessions of coding agents, request by request: a rename everywhere stays that from first to last.

The sessions have the shapes that these agents send (bench/agents.md), shortened. Between the requests stand results of
tools, reminders, interruptions, "continue", and compaction; files and notes in them speak of poems and plans.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.task import CLASSES, Task
from stoker_auto.routing.classifier import classify
from stoker_content.outline import outline

SESSIONS = sorted((Path(__file__).parent.parent.parent / "data" / "sessions").glob("*.jsonl"))
FIELD = {Dialect.CHAT: "messages", Dialect.MESSAGES: "messages", Dialect.RESPONSES: "input"}


def requests(path: Path) -> Iterator[tuple[Dialect, dict[str, Any]]]:
    """Each body that the agent sends: whenever what comes next is the model's, and at the end."""
    head, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    dialect = Dialect(head["dialect"])
    tools = [{"type": "function", "name": name, "function": {"name": name}} for name in head["tools"]]
    said: list[dict[str, Any]] = []
    for line, after in zip(lines, [*lines[1:], {"reset": True}], strict=True):
        if "reset" in line:
            said = []
            continue
        said.append(line)
        ends = "reset" in after if head.get("sends") == "all" else "reset" in after or is_models(after)
        if ends and not is_models(line):
            yield dialect, {"model": "auto", FIELD[dialect]: list(said), "tools": tools}


def is_models(line: dict[str, Any]) -> bool:
    """Whether the model says it; some clients say things in its name."""
    says = line.get("role") == "assistant" or line.get("type") in ("function_call", "reasoning")
    return says and line.get("by") != "client"


def found(dialect: Dialect, body: dict[str, Any]) -> Task:
    return classify(outline(dialect, json.dumps(body).encode())[0], None, CLASSES)


def test_there_are_sessions_of_six_agents() -> None:
    assert [path.stem for path in SESSIONS] == ["aider", "claude-code", "cline", "codex", "opencode", "qwen-code"]


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_every_request_of_a_session_has_the_class_of_its_task(path: Path) -> None:
    names = [found(dialect, body).name for dialect, body in requests(path)]
    assert len(names) >= 4
    assert names == ["multi-file-refactor"] * len(names)
