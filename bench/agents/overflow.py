"""What a client makes of a prompt that is too long: the serve refuses each request in its own engine's words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from bench.agents import clients, serves, session, session_paths, task
from bench.agents.clients import Client
from bench.agents.serves import ServeKind
from bench.swap.plane import Plane

LIMIT = 120.0
"""Seconds until a client has to have given up."""
_TOKENS, _CONTEXT = 9000, 2048
_LLAMA = {
    "code": 400,
    "message": f"request ({_TOKENS} tokens) exceeds the available context size ({_CONTEXT} tokens), try increasing it",
    "type": "exceed_context_size_error",
    "n_prompt_tokens": _TOKENS,
    "n_ctx": _CONTEXT,
}
_MESSAGES = {"type": "invalid_request_error", "message": f"prompt is too long: {_TOKENS} tokens > {_CONTEXT} maximum"}
_OPENAI = {
    "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "type": "invalid_request_error",
    "param": "input",
    "code": "context_length_exceeded",
}
REFUSALS: dict[str, dict[str, Any]] = {
    "local": {"error": _LLAMA},
    "messages": {"type": "error", "error": _MESSAGES},
    "responses": {"error": _OPENAI},
}
"""By the kind of serve: the body with which its engine refuses a prompt that is too long."""


class Overflow(NamedTuple):
    """How a session ended. `exit_code` is None if the client had to be ended."""

    exit_code: int | None
    requests: int
    said: str
    """What the client printed."""


def run(client: Client, command: Path, path: str, kind: ServeKind, folder: Path) -> Overflow:
    """A session in `folder`, which must not exist. Raises RuntimeError: `stoker up` does not come up."""
    folder.mkdir(parents=True)
    answers_file = folder / "answers.json"
    answers_file.write_text("[]")
    refusing = kind._replace(
        script={**kind.script, "error_status": 400, "error_body": json.dumps(REFUSALS[kind.name])},
    )
    with Plane(serves.serves(refusing, answers_file), folder / "plane", "") as plane:
        paths = session_paths.make(folder, plane.port, plane.key, task.FILES)
        setup = client.setup(paths)
        clients.write(setup.files)
        code = session.run_client(command, paths, setup, path, LIMIT)
        steps = session.decisions(folder / "plane" / "stoker.toml", plane.key)
    said = (folder / "client.log").read_text(errors="replace")
    return Overflow(code, len(steps), paths.redacted(said))
