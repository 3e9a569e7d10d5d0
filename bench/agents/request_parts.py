"""The parts of a request that reached a serve, in whichever dialect. Pure.

Only what a session is looked at for: thoughts, calls, results, and where they stand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from stoker.domain.dialect import Dialect


class RequestPart(NamedTuple):
    """One part of a request. `kind`: thinking, text, call, result; `role`: whose turn it is in."""

    role: str
    kind: str
    text: str
    id: str = ""
    signature: str = ""


def request_parts(dialect: Dialect, document: dict[str, Any]) -> list[RequestPart]:
    """Everything, in order; without system prompts."""
    read = {Dialect.CHAT: _chat, Dialect.MESSAGES: _messages, Dialect.RESPONSES: _responses}[dialect]
    return [one for one in read(document) if one.role not in ("system", "developer")]


def _chat(document: dict[str, Any]) -> Iterator[RequestPart]:
    for message in document["messages"]:
        role = message["role"]
        if role == "tool":
            yield RequestPart("user", "result", _text(message["content"]), message["tool_call_id"])
            continue
        if thinking := message.get("reasoning_content") or message.get("reasoning"):
            yield RequestPart(role, "thinking", thinking)
        if text := _text(message.get("content")):
            yield RequestPart(role, "text", text)
        for call in message.get("tool_calls") or ():
            yield RequestPart(role, "call", (call.get("function") or call["custom"])["name"], call["id"])


def _messages(document: dict[str, Any]) -> Iterator[RequestPart]:
    for message in document["messages"]:
        role, content = message["role"], message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block["type"]:
                case "thinking":
                    yield RequestPart(role, "thinking", block["thinking"], signature=block["signature"])
                case "tool_use":
                    yield RequestPart(role, "call", block["name"], block["id"])
                case "tool_result":
                    yield RequestPart(role, "result", _text(block.get("content")), block["tool_use_id"])
                case "text":
                    yield RequestPart(role, "text", block["text"])


def _responses(document: dict[str, Any]) -> Iterator[RequestPart]:
    given = document["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        kind = item.get("type", "message")
        if kind == "reasoning":
            text = _text(item.get("content")) or _text(item.get("summary"))
            yield RequestPart("assistant", "thinking", text, signature=item.get("encrypted_content") or "")
        elif kind.endswith("_call"):
            yield RequestPart("assistant", "call", item["name"], item["call_id"])
        elif kind.endswith("_output"):
            yield RequestPart("user", "result", _text(item["output"]), item["call_id"])
        elif kind == "message":
            yield RequestPart(item["role"], "text", _text(item["content"]))


def _text(content: Any) -> str:
    """Of a text, or of the parts that are texts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content or ""


def is_continued(dialect: Dialect, before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a request begins as the one before: what a prefix cache lives on. Cache marks do not count."""
    key = "input" if dialect is Dialect.RESPONSES else "messages"
    old, new = _plain(before[key]), _plain(now[key])
    same = all(_plain(before.get(name)) == _plain(now.get(name)) for name in ("system", "instructions", "tools"))
    return same and bool(new[: len(old)] == old)


def _plain(value: Any) -> Any:
    """Without cache marks, and with a lone text as text."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if key != "cache_control"}
    return value


def size(document: dict[str, Any]) -> int:
    """Bytes of a request."""
    return len(json.dumps(document, ensure_ascii=False).encode())
