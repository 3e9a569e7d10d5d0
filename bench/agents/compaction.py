"""Codex with `openai_base_url` and nothing else, through two compactions: its built-in provider asks for them by a
trigger, and speaks over a WebSocket.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench.agents import clients, serves, session, session_paths
from bench.agents.clients import Setup
from bench.agents.serves import ServeKind
from bench.agents.session import Step
from bench.agents.session_paths import MODEL, SessionPaths
from bench.swap.plane import Plane

LIMIT = 120.0
"""Seconds until the session has to have ended."""
FINAL = "Both steps are behind us."
COMPACTIONS = 2
_FULL = {"usage": {"input": 90_000, "output": 100}}
"""Usage above Codex' limit for a compaction."""
_FEW = {"usage": {"input": 900, "output": 10}}
_CONFIG = """\
model = "{model}"
openai_base_url = "{base_url}"
model_context_window = 100000
model_auto_compact_token_limit = 50000
check_for_update_on_startup = false

[analytics]
enabled = false
"""
TRANSPORT_TROUBLE = ("Reconnecting", "Falling back")
"""What Codex prints if its WebSocket does not work."""


class Compaction(NamedTuple):
    """How the session went. `exit_code` is None if Codex had to be ended."""

    exit_code: int | None
    seconds: float
    steps: list[Step]
    summaries: list[bool]
    """Of each request that reached the serve: whether it holds a summary in the place of what was said."""
    said: str
    """What Codex printed."""


def answers() -> list[dict[str, Any]]:
    """A call, a summary, another call, another summary, the end: each found by what came before it. The first that
    matches counts, so the last step stands first.
    """
    return [
        {"when": "the second step is done", "blocks": [_text(FINAL)], **_FEW},
        {"when": "OUTPUT-TWO", "blocks": [_text("Progress: the second step is done.")], **_FEW},
        {"when": "the first step is done", "blocks": [_call("TWO")], **_FULL},
        {"when": "OUTPUT-ONE", "blocks": [_text("Progress: the first step is done.")], **_FEW},
        {"blocks": [_call("ONE")], **_FULL},
    ]


def run(command: Path, path: str, kind: ServeKind, folder: Path) -> Compaction:
    """A session in `folder`, which must not exist. Raises RuntimeError: `stoker up` does not come up."""
    folder.mkdir(parents=True)
    answers_file = folder / "answers.json"
    answers_file.write_text(json.dumps(answers()))
    with Plane(serves.serves(kind, answers_file), folder / "plane", "") as plane:
        paths = session_paths.make(folder, plane.port, plane.key, {})
        setup = _setup(paths)
        clients.write(setup.files)
        began = time.monotonic()
        code = session.run_client(command, paths, setup, path, LIMIT)
        seconds = time.monotonic() - began
        steps = session.decisions(folder / "plane" / "stoker.toml", plane.key)
        documents = session.received(plane, kind)
    said = (folder / "client.log").read_text(errors="replace")
    summaries = ["Summary of the conversation so far" in json.dumps(one) for one in documents]
    return Compaction(code, round(seconds, 1), steps, summaries, paths.redacted(said))


def _setup(paths: SessionPaths) -> Setup:
    files = {paths.home / ".codex" / "config.toml": _CONFIG.format(model=MODEL, base_url=paths.base_url)}
    arguments = ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Take both steps.")
    return Setup(arguments, {"CODEX_API_KEY": paths.key}, files)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _call(step: str) -> dict[str, Any]:
    """The output is not in the command: it is found where the tool's result is."""
    command = f"printf 'OUTPUT-%s\\n' {step}"
    return {"type": "call", "id": f"call_{step}", "name": "exec_command", "arguments": {"cmd": command}}
