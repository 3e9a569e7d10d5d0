"""Sessions with coding agents whose tools can change files, as bodies of four dialects.

Each line of `tests/data/agent_sessions.jsonl` is a session, written for these tests: `turns` are texts of the person (a
list of parts), of the model, and results of tools. The last turn is the one that is asked. `lost`: the beginning of the
conversation is not in the body. `risky`: its work is high-risk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from stoker.domain.dialect import Dialect

NAMES = ("read_file", "edit_file", "bash")
_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
_CHAT_TOOLS = [{"type": "function", "function": {"name": name, "parameters": _SCHEMA}} for name in NAMES]
_MESSAGES_TOOLS = [{"name": name, "input_schema": _SCHEMA} for name in NAMES]
_RESPONSES_TOOLS = [{"type": "function", "name": name, "parameters": _SCHEMA} for name in NAMES]
_SESSIONS = Path(__file__).parents[2] / "data/agent_sessions.jsonl"


class Turn(msgspec.Struct, frozen=True):
    person: tuple[str, ...] | None = None
    model: str | None = None
    result: str | None = None
    path: str = ""


class Session(msgspec.Struct, frozen=True):
    trick: str
    risky: bool
    lang: str
    turns: tuple[Turn, ...]
    lost: bool = False


def sessions(trick: str, risky: bool) -> list[Session]:
    """One session of each line, in the order of the file."""
    read = [msgspec.json.decode(line, type=Session) for line in _SESSIONS.read_bytes().splitlines()]
    return [one for one in read if (one.trick, one.risky) == (trick, risky)]


DIALECTS = (Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES, Dialect.OLLAMA_CHAT)


def request(dialect: Dialect, one: Session) -> tuple[Dialect, bytes]:
    """The request of a session's last turn. In Ollama, lost history is that of `/api/generate`."""
    if dialect is Dialect.OLLAMA_CHAT and one.lost:
        return Dialect.OLLAMA_GENERATE, msgspec.json.encode({"model": "auto", **_generate(one)})
    return dialect, msgspec.json.encode({"model": "auto", **_document(dialect, one)})


def _document(dialect: Dialect, one: Session) -> dict[str, Any]:
    if dialect is Dialect.RESPONSES:
        return _responses(one)
    return _messages(one) if dialect is Dialect.MESSAGES else _chat(one, dialect is Dialect.OLLAMA_CHAT)


def _chat(one: Session, is_ollama: bool) -> dict[str, Any]:
    turns: list[dict[str, Any]] = []
    if one.lost:
        turns.append({"role": "tool", "tool_call_id": "c0", "content": "ok"})
    for at, turn in enumerate(one.turns):
        if turn.person is not None:
            parts = [{"type": "text", "text": text} for text in turn.person]
            turns.append({"role": "user", "content": turn.person[0] if len(parts) == 1 else parts})
            if is_ollama:
                turns[-1]["content"] = "\n".join(turn.person)
        elif turn.model is not None:
            turns.append({"role": "assistant", "content": turn.model})
        else:
            args: Any = {"path": turn.path}
            function = {"name": "read_file", "arguments": args if is_ollama else msgspec.json.encode(args).decode()}
            call = {"id": f"c{at}", "type": "function", "function": function}
            turns.append({"role": "assistant", "content": "", "tool_calls": [call]})
            turns.append({"role": "tool", "tool_call_id": f"c{at}", "content": turn.result})
    return {"messages": turns, "tools": _CHAT_TOOLS}


def _messages(one: Session) -> dict[str, Any]:
    turns: list[dict[str, Any]] = []
    if one.lost:
        turns.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c0", "content": "ok"}]})
    for at, turn in enumerate(one.turns):
        if turn.person is not None:
            turns.append({"role": "user", "content": [{"type": "text", "text": text} for text in turn.person]})
        elif turn.model is not None:
            turns.append({"role": "assistant", "content": [{"type": "text", "text": turn.model}]})
        else:
            call = {"type": "tool_use", "id": f"c{at}", "name": "read_file", "input": {"path": turn.path}}
            turns.append({"role": "assistant", "content": [call]})
            result = {
                "type": "tool_result",
                "tool_use_id": f"c{at}",
                "content": [{"type": "text", "text": turn.result}],
            }
            turns.append({"role": "user", "content": [result]})
    return {"messages": turns, "tools": _MESSAGES_TOOLS, "max_tokens": 100}


def _responses(one: Session) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for at, turn in enumerate(one.turns):
        if turn.person is not None:
            items.append({"role": "user", "content": [{"type": "input_text", "text": text} for text in turn.person]})
        elif turn.model is not None:
            items.append(
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": turn.model}]}
            )
        else:
            call = {"type": "function_call", "call_id": f"c{at}", "name": "read_file"}
            items.append({**call, "arguments": msgspec.json.encode({"path": turn.path}).decode()})
            items.append({"type": "function_call_output", "call_id": f"c{at}", "output": turn.result})
    more = {"previous_response_id": "resp_1"} if one.lost else {}
    return {"input": items, "tools": _RESPONSES_TOOLS, **more}


def _generate(one: Session) -> dict[str, Any]:
    return {"prompt": "\n".join(one.turns[-1].person or ()), "context": [1, 2, 3]}
