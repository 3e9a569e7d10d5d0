"""A Stoker with a scripted serve of each dialect. The last words of a request choose the answer, or the fault."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
from pydantic import TypeAdapter
from tests.scenarios.plane import Plane, running, serve

from stoker_lab.testing.scripted import Script

SERVES = {
    "chatty": ["chat", "completions"],
    "claudish": ["messages"],
    "responsive": ["responses"],
}
"""Each scripted serve, and what it speaks."""
MODELS = tuple(SERVES)
THINKING = {"type": "thinking", "text": "Let me see."}
TEXT = {"type": "text", "text": "The answer is four."}
CALL = {"type": "call", "name": "get_weather", "arguments": {"city": "Paris"}}
ANSWERS: dict[str, dict[str, Any]] = {
    "saying": {"blocks": [TEXT]},
    "thinking": {"blocks": [THINKING, TEXT]},
    "calling": {"blocks": [CALL]},
    "explaining": {"blocks": [TEXT, CALL]},
    "twice": {"blocks": [CALL, CALL | {"arguments": {}}]},
    "refusing": {"blocks": [{"type": "refusal", "text": "I will not."}]},
    "cutting": {"blocks": [TEXT], "stop": "length"},
    "filtering": {"blocks": [TEXT], "stop": "filtered"},
    "counting": {"blocks": [TEXT], "usage": {"input": 100, "cached": 80, "output": 20, "reasoning": 5}},
}
"""By the word of the request that chooses it."""
CASES = tuple(ANSWERS)
FAULTS = {"broken": "gap=0.05 die_after=2 die_how=close", "failing": "gap=0.05 error_event_after=2"}
"""Streams that end badly, by what the request says to the script."""
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": []}


class StreamedEvent(NamedTuple):
    name: str
    data: Any
    """Its JSON; text that is none, as it is."""


@contextmanager
def stage(*more: str) -> Iterator[Plane]:
    """`more`: further tables of the configuration."""
    answers = [answer | {"when": word} for word, answer in ANSWERS.items()]
    tables = [
        serve(name, Script(answers=answers, api_key=None), dialects=dialects, slot=f"s{at}")
        for at, (name, dialects) in enumerate(SERVES.items())
    ]
    vectors = serve("vectors", Script(), dialects=["embeddings"], slot=None)
    slots = "\n".join(f"[slots.s{at}]" for at in range(len(SERVES)))
    with running(*tables, vectors, *more, slots=slots) as plane:
        yield plane


def ask(plane: Plane, path: str, body: dict[str, Any], method: str = "POST") -> Any:
    """The JSON of a whole answer."""
    url = f"http://127.0.0.1:{plane.port}{path}"
    reply = httpx.request(method, url, json=body if method == "POST" else None, timeout=60, verify=False)
    assert reply.status_code == 200, reply.text
    return reply.json()


def stream(plane: Plane, path: str, body: dict[str, Any]) -> list[StreamedEvent]:
    """Every event of a streamed answer, whatever its end."""
    found: list[StreamedEvent] = []
    url = f"http://127.0.0.1:{plane.port}{path}"
    with httpx.stream("POST", url, json=body | {"stream": True}, timeout=60, verify=False) as reply:
        assert reply.status_code == 200, reply.read()
        name = ""
        for line in reply.iter_lines():
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                text = line[5:].strip()
                found.append(StreamedEvent(name, text if text == "[DONE]" else json.loads(text)))
                name = ""
    return found


def judge(kind: Any, value: Any) -> Any:
    """The value as the model has it. Raises ValidationError for every type that is not exactly right."""
    return _adapter(kind).validate_json(json.dumps(value), strict=True)


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Made once for each kind: a union of many types takes a quarter of a second."""
    return TypeAdapter(kind)
