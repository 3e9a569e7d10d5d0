"""What the tests of the strict servers share."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, get_type_hints

from stoker_lab.testing.client import RawClient
from stoker_lab.testing.scripted import Script, ScriptedServer

MESSAGES, COUNT, CHAT = "/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions"
VERSION = {"anthropic_version": "2023-06-01"}
HELLO = {"role": "user", "content": "hello"}
TEXT = {"type": "text", "text": "so"}
ODD: tuple[Any, ...] = (
    None, True, -1, 1.5, "", "x", [], ["x"], [None], {}, {"type": "text"}, {"type": []}, [{"type": "tool_use"}],
)  # fmt: skip
"""Values of the wrong kind."""


@asynccontextmanager
async def strict(**script: Any) -> AsyncIterator[RawClient]:
    script = {"strict_messages": True, "strict_chat": True} | script
    async with ScriptedServer(Script(**script)) as server, RawClient(server.port) as client:
        yield client


async def refusal(path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> str | None:
    """What the server says to it; None: it answers."""
    async with strict() as client:
        reply = await client.ask("POST", path, body, **(VERSION if headers is None else headers))
    if reply.status == 200:
        return None
    assert reply.status == 400
    document = reply.json()
    assert document["error"]["type"] == "invalid_request_error"
    assert (document.get("type") == "error") is (path != CHAT)
    return str(document["error"]["message"])


def hints(*shapes: Any) -> set[str]:
    return {name for shape in shapes for name in get_type_hints(shape)}


def changed(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The body with each odd value in place of each of its values."""
    for place in _places(body):
        for odd in ODD:
            copy = json.loads(json.dumps(body))
            node = copy
            for key in place[:-1]:
                node = node[key]
            node[place[-1]] = odd
            yield copy


def _places(node: Any) -> Iterator[tuple[Any, ...]]:
    for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield (key,)
        yield from ((key, *rest) for rest in _places(node[key]))
