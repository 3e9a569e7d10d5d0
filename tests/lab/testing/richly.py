"""What the tests of rich answers share: an answer of everything, and how a stream is read off."""

from __future__ import annotations

from typing import Any

from stoker_lab.testing.client import RawClient, SseEvent, compose_request
from stoker_lab.testing.scripted import Script, ScriptedServer

ARGUMENTS = {"city": "Zürich", "days": 3}
EVERYTHING: dict[str, Any] = {
    "blocks": [
        {"type": "thinking", "text": "First I look, then I tell."},
        {"type": "redacted", "data": "c2VjcmV0"},
        {"type": "text", "text": "Let me look at the weather: ☀"},
        {"type": "call", "id": "look_1", "name": "look", "arguments": ARGUMENTS},
        {"type": "call", "name": "tell", "arguments": {}},
    ],
    "usage": {"input": 100, "cached": 60, "written": 30, "output": 50, "reasoning": 20},
}
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
ASK = [{"role": "user", "content": "hello"}]


async def told(path: str, answer: Any = EVERYTHING, *, script: str = "", stream: bool = True, **more: Any) -> list[Any]:
    """The events of one answer, or the only document of a reply that is not streamed."""
    fields = {"answers": [answer], "quirks": script} if answer is not None else {"quirks": script}
    async with ScriptedServer(Script(id="m", **fields)) as server, RawClient(server.port) as client:
        name = "input" if path == PATHS["responses"] else "messages"
        body = {"model": "m", "max_tokens": 99, "stream": stream, name: ASK, **more}
        await client.send(compose_request("POST", path, body))
        if not stream:
            reply = await client.reply()
            assert reply.status == 200
            return [reply.json()]
        events = [event async for event in client.events(await client.head())]
    return [_read(event) for event in events]


def _read(event: SseEvent) -> Any:
    return event.data if event.data == "[DONE]" else event.json()


def deltas(chunks: list[Any]) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk != "[DONE]" and chunk["choices"]]


def calls(chunks: list[Any]) -> list[dict[str, Any]]:
    return [call for delta in deltas(chunks) for call in delta.get("tool_calls") or []]
