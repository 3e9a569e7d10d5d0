"""The chat template twice: its text for the GGUF, and the same rendering for training.

`parity.py` compares the two on a real llama.cpp.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from training.tasks import Message, Tool

TEMPLATE = (Path(__file__).parent / "chat_template.jinja").read_text(encoding="utf-8").rstrip("\n")
CALL_HINT = 'Call as <tool_call>\n{"name": NAME, "arguments": ARGS}\n</tool_call>'


@dataclass(frozen=True)
class Span:
    """A stretch of rendered text; `learned` stretches carry loss."""

    text: str
    learned: bool


def system_block(system: str, tools: list[Tool]) -> str:
    if not tools and not system:
        return ""
    lines = [system] if system else []
    if tools:
        shown = [f"{tool.name}({', '.join(name for name, _ in tool.params)})" for tool in tools]
        lines += ["Tools:", *shown, CALL_HINT]
    return "<|im_start|>system\n" + "\n".join(lines) + "<|im_end|>\n"


def message_text(message: Message) -> str:
    parts = [message["content"]] if message.get("content") else []
    for entry in message.get("tool_calls") or []:
        function = entry["function"]
        name, arguments = (json.dumps(function[key], ensure_ascii=False) for key in ("name", "arguments"))
        parts.append(f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>')
    return "\n".join(parts)


def spans(messages: list[Message], tools: list[Tool]) -> list[Span]:
    """The rendered conversation, cut where learned text begins and ends; the end mark is learned too."""
    rest, system = messages, ""
    if messages and messages[0]["role"] in ("system", "developer"):
        system, rest = messages[0]["content"], messages[1:]
    found = [Span(system_block(system, tools), False)]
    for message in rest:
        learned = message["role"] == "assistant"
        found.append(Span(f"<|im_start|>{message['role']}\n", False))
        found.append(Span(message_text(message) + "<|im_end|>", learned))
        found.append(Span("\n", False))
    return [span for span in found if span.text]


def prompt(messages: list[Message], tools: list[Tool]) -> str:
    return "".join(span.text for span in spans(messages, tools)) + "<|im_start|>assistant\n"
