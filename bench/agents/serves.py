"""What the front door stands before: a scripted serve of one dialect, or the real llama.cpp."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from bench.agents.session_paths import MODEL
from bench.engines import EngineSetup
from stoker.domain.dialect import Dialect
from stoker_lab.testing.script.script import Script

SPARK = Path(__file__).resolve().parents[2] / "src" / "stoker" / "models" / "spark.gguf"
ALIASES = ["gpt-5.5", "gpt-5.6-sol"]
"""Names under which a client behaves in another way."""


class ServeKind(NamedTuple):
    name: str
    title: str
    dialect: Dialect
    script: dict[str, Any]
    translation: dict[str, Any]
    path: str


KINDS = {
    kind.name: kind
    for kind in (
        ServeKind(
            "chat", "chat, strict as OpenAI's", Dialect.CHAT, {"strict_chat": True},
            {"cloud": True, "thinking_field": "reasoning_content", "custom_tools": False}, "/v1/chat/completions",
        ),
        ServeKind(
            "messages", "Messages, strict as Anthropic's", Dialect.MESSAGES, {"strict_messages": True},
            {"cloud": True}, "/v1/messages",
        ),
        ServeKind(
            "responses", "Responses", Dialect.RESPONSES, {},
            {"cloud": True, "custom_tools": False}, "/v1/responses",
        ),
        ServeKind("local", "chat, as local engines", Dialect.CHAT, {}, {}, "/v1/chat/completions"),
        ServeKind("llama.cpp", "llama.cpp", Dialect.CHAT, {}, {}, "/v1/chat/completions"),
    )
}  # fmt: skip


def serves(kind: ServeKind, answers: Path, quirks: str = "") -> EngineSetup:
    """The configuration's part. `answers`: a file of rich answers; `quirks`: as `Script` has them."""
    keys: dict[str, object] = {"name": MODEL, "aliases": ALIASES, "slot": "gpu0", "parallel": 4}
    if kind.name == "llama.cpp":
        keys |= {"engine": "llama.cpp", "embedded": True, "model": str(SPARK), "context": 1024, "threads": 1}
    else:
        script = Script(id=MODEL, context=200_000, answers=(), quirks=quirks, **kind.script)
        command = [*script.command("{port}"), "--answers", str(answers)]
        keys |= {"engine": "openai", "cmd": command, "dialects": [kind.dialect.value], "context": 200_000}
        if kind.translation:
            keys["translation"] = kind.translation
    lines = (f"{key} = {_toml(value)}" for key, value in keys.items())
    return EngineSetup(kind.name, kind.title, "\n".join(["", "[[serve]]", *lines, ""]))


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)
