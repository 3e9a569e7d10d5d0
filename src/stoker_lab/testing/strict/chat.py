"""What OpenAI's API refuses at `/v1/chat/completions`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from stoker_lab.testing.strict import fields
from stoker_lab.testing.strict.rules import Rule, StrictRequest

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_STOPS = 4
_LONGEST_ID = 64


def top_level(asked: StrictRequest) -> Iterator[str]:
    yield from (f"Unrecognized request argument supplied: {name}" for name in asked.document if name not in fields.CHAT)
    if {"max_tokens", "max_completion_tokens"} <= asked.document.keys():
        yield "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
    for name in ("user", "safety_identifier"):
        if len(str(asked.document.get(name) or "")) > _LONGEST_ID:
            yield f"Invalid '{name}': string too long. Expected a string with maximum length {_LONGEST_ID}."
    stop = asked.document.get("stop")
    if isinstance(stop, list) and len(stop) > _MAX_STOPS:
        yield f"Invalid 'stop': array too long. Expected an array with maximum length {_MAX_STOPS}."


def form(asked: StrictRequest) -> Iterator[str]:
    """After this messages and tools are lists of objects."""
    for name in ("messages", "tools"):
        given = asked.document.get(name, [] if name == "tools" else None)
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            yield f"Invalid type for '{name}': expected an array of objects."


def names(asked: StrictRequest) -> Iterator[str]:
    places = [("tools", at, one) for at, one in enumerate(asked.document.get("tools", []))]
    for number, message in enumerate(asked.document["messages"]):
        places += [(f"messages[{number}].tool_calls", at, one) for at, one in enumerate(_calls(message))]
    for place, at, one in places:
        function = one.get("function")
        if isinstance(function, dict) and not _NAME.fullmatch(str(function.get("name"))):
            pattern = "^[a-zA-Z0-9_-]{1,64}$"
            yield f"Invalid '{place}[{at}].function.name': string does not match pattern '{pattern}'."


def results(asked: StrictRequest) -> Iterator[str]:
    """1. a result follows the calls that it answers  2. its content is text  3. no call is left without one"""
    waiting: set[str] = set()
    called: set[str] = set()
    for at, message in enumerate(asked.document["messages"]):
        if message.get("role") == "tool":
            name = str(message.get("tool_call_id"))
            if not called:  # 1
                yield (
                    f"Invalid parameter: messages[{at}] with role 'tool' must be a response to a preceding message with"
                    " 'tool_calls'."
                )
            elif name not in called:  # 1
                yield f"Invalid parameter: 'tool_call_id' of '{name}' not found in 'tool_calls' of previous message."
            if not _is_text(message.get("content")):  # 2
                yield f"Invalid 'messages[{at}].content': a message with role 'tool' holds text only."
            waiting.discard(name)
        else:
            yield from _unanswered(waiting)  # 3
            waiting = {str(one.get("id")) for one in _calls(message)}
            called = set(waiting)
    yield from _unanswered(waiting)  # 3


RULES: tuple[Rule, ...] = (top_level, form, names, results)


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    found = message.get("tool_calls") if message.get("role") == "assistant" else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _is_text(content: object) -> bool:
    if isinstance(content, list):
        return all(isinstance(part, dict) and part.get("type") == "text" for part in content)
    return isinstance(content, str)


def _unanswered(waiting: set[str]) -> Iterator[str]:
    if waiting:
        yield (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            f" 'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(sorted(waiting))}"
        )
