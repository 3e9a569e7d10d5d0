"""Web search of Claude Code and Codex, run by Stoker: the search engine and the model are scripted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.agents import clients, serves, session, session_paths
from bench.agents.clients import Setup
from bench.agents.search_site import BLOCKED, BROKEN, HANGING, SearchSite, excerpt
from bench.agents.serves import ServeKind
from bench.agents.session import Step
from bench.agents.session_paths import SessionPaths
from bench.agents.table import CLIENTS
from bench.swap.plane import Plane
from stoker.domain.dialect import Dialect

LIMIT = 120.0
"""Seconds until a session has to have ended."""
ASKED, ASKED_AGAIN, ASKED_HANGING = "Compare the towers.", "And which one was it?", "Look for it at length."
FINAL, FINAL_AGAIN = "All three are compared.", "It was the first one."
FIRST, SECOND = "aaatower", "bbbtower"


class Search(NamedTuple):
    """How a session went. `exit_code` is None if the client had to be ended."""

    exit_code: int | None
    steps: list[Step]
    queries: list[str]
    """What the search engine was asked."""
    documents: list[dict[str, Any]]
    """What the serve got."""
    said: str
    was_left: bool
    """A search that got no answer was given up by Stoker."""


def run_claude_code(command: Path, path: str, kind: ServeKind, folder: Path) -> Search:
    """Three searches: a plain one, one with a blocked host, one that fails."""
    return _run(_claude_code, [ASKED], _claude_answers(), command, path, kind, folder)


def run_codex(command: Path, path: str, kind: ServeKind, folder: Path) -> Search:
    """Two searches, one of which fails; then another question in the same session."""
    return _run(_codex, [ASKED, ASKED_AGAIN], _codex_answers(), command, path, kind, folder)


def run_cancelled(name: str, command: Path, path: str, kind: ServeKind, folder: Path) -> Search:
    """The client is interrupted while the search engine does not answer."""
    made = _claude_code if name == "claude-code" else _codex
    searches = _call("WebSearch", query=HANGING) if name == "claude-code" else _call("web_search", query=HANGING)
    answers = [
        {"when": f"web search for the query: {HANGING}", "blocks": [_call("web_search", query=HANGING)]},
        {"when": ASKED_HANGING, "blocks": [searches]},
        {"blocks": [_text("not asked for")]},
    ]
    return _run(made, [ASKED_HANGING], answers, command, path, kind, folder)


def _run(
    make_setup: Any, prompts: Sequence[str], answers: list[dict[str, Any]], command: Path, path: str, kind: ServeKind,
    folder: Path,
) -> Search:  # fmt: skip
    """In `folder`, which must not exist. Raises RuntimeError: `stoker up` does not come up."""
    folder.mkdir(parents=True)
    answers_file = folder / "answers.json"
    answers_file.write_text(json.dumps(answers))
    local = kind._replace(translation={}, script={})
    with SearchSite() as site, Plane(
        serves.serves(local, answers_file), folder / "plane", site.configuration
    ) as plane:  # fmt: skip
        paths = session_paths.make(folder, plane.port, plane.key, {})
        said: list[str] = []
        code: int | None = None
        for at, prompt in enumerate(prompts):
            setup: Setup = make_setup(paths, prompt, at > 0)
            clients.write(setup.files)
            code = session.run_client(command, paths, setup, path, LIMIT, site.hangs.is_set)
            said.append((folder / "client.log").read_text(errors="replace"))
        was_left = site.hangs.is_set() and site.was_left.wait(10)
        steps = session.decisions(folder / "plane" / "stoker.toml", plane.key)
        documents = session.received(plane, local)
    return Search(code, steps, site.queries, documents, paths.redacted("\n".join(said)), was_left)


def _claude_code(paths: SessionPaths, prompt: str, goes_on: bool) -> Setup:
    (client,) = clients.named(CLIENTS, ["claude-code"])
    setup = client.setup(paths)
    return setup._replace(arguments=("-p", prompt, "--allowedTools", "WebSearch"))


def _codex(paths: SessionPaths, prompt: str, goes_on: bool) -> Setup:
    (client,) = clients.named(CLIENTS, ["codex"])
    setup = client.setup(paths)
    files = {file: f'web_search = "live"\n{text}' for file, text in setup.files.items()}
    common = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    return Setup(("exec", *(("resume", "--last") if goes_on else ()), *common, prompt), setup.variables, files)


def _claude_answers() -> list[dict[str, Any]]:
    """Claude Code offers WebSearch once ToolSearch was called, and asks for each search in a request of its own."""
    return [
        {"when": f"web search for the query: {FIRST}", "blocks": [_call("web_search", query=FIRST)]},
        {"when": f"web search for the query: {SECOND}", "blocks": [_call("web_search", query=SECOND)]},
        {"when": f"web search for the query: {BROKEN}", "blocks": [_call("web_search", query=BROKEN)]},
        {"when": excerpt(FIRST), "blocks": [_text("The first is 330 m tall.")]},
        {"when": excerpt(SECOND), "blocks": [_text("The second is 634 m tall.")]},
        {"when": "Error unavailable", "blocks": [_text("Nothing could be found.")]},
        {"when": "330 m", "blocks": [_call("WebSearch", query=SECOND, blocked_domains=[BLOCKED])]},
        {"when": "634 m", "blocks": [_call("WebSearch", query=BROKEN)]},
        {"when": "Nothing could be found", "blocks": [_text(FINAL)]},
        {"when": ASKED, "blocks": [_call("ToolSearch", query="select:WebSearch", max_results=1)]},
        {"blocks": [_call("WebSearch", query=FIRST)]},
    ]


def _codex_answers() -> list[dict[str, Any]]:
    return [
        {"when": ASKED_AGAIN, "blocks": [_text(FINAL_AGAIN)]},
        {"when": excerpt(FIRST), "blocks": [_text("One more."), _call("web_search", query=BROKEN)]},
        {"when": "Error unavailable", "blocks": [_text(FINAL)]},
        {"when": ASKED, "blocks": [_call("web_search", query=FIRST)]},
        {"blocks": [_text("not asked for")]},
    ]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _call(name: str, **arguments: object) -> dict[str, Any]:
    return {"type": "call", "name": name, "arguments": arguments}


def results_shown(document: dict[str, Any], dialect: Dialect) -> list[str]:
    """The results of tools in a request, in order, as the model reads them."""
    if dialect is Dialect.CHAT:
        return [str(turn["content"]) for turn in document["messages"] if turn["role"] == "tool"]
    if dialect is Dialect.RESPONSES:
        return [str(item["output"]) for item in document["input"] if item.get("type") == "function_call_output"]
    blocks = [one for turn in document["messages"] if isinstance(turn["content"], list) for one in turn["content"]]
    return [json.dumps(one["content"]) for one in blocks if one["type"] == "tool_result"]
