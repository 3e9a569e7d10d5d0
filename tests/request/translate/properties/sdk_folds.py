"""What the official SDKs make of our bytes: their own HTTP client, SSE decoder and accumulators over a wire of ours.

A message is compared as plain data. Left out is what only one way of asking gives: `null`, what the SDK itself parsed,
the index of a call within its list, and chat's empty text: the chunk that tells the role has it, before it is known
whether there will be text.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anthropic
import httpx2
import openai
from openai.lib.streaming.chat import ChatCompletionStreamState

from stoker.domain.dialect import Dialect

Plain = dict[str, Any]
_OWN = ("parsed", "parsed_arguments", "parsed_output", "output_parsed")
_ASK: dict[str, Any] = {"model": "some-model"}
_USER: dict[str, Any] = {"messages": [{"role": "user", "content": "u"}]}


class Wire:
    """Answers each request with the bytes that were put on it: streamed in these pieces, or whole."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.is_stream = True

    def _head(self) -> dict[str, str]:
        return {"content-type": "text/event-stream" if self.is_stream else "application/json"}

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=self._head(), content=iter(self.pieces))

    async def answer_async(self, request: httpx2.Request) -> httpx2.Response:
        async def pieces() -> AsyncIterator[bytes]:
            for piece in self.pieces:
                yield piece

        return httpx2.Response(200, headers=self._head(), content=pieces())


class Folds:
    """Both SDKs, synchronous and not, on one wire."""

    def __init__(self) -> None:
        self.exchange = Wire()
        own: dict[str, Any] = {"api_key": "k", "base_url": "http://stoker.test/v1", "max_retries": 0}
        client = httpx2.Client(transport=httpx2.MockTransport(self.exchange.answer))
        aclient = httpx2.AsyncClient(transport=httpx2.MockTransport(self.exchange.answer_async))
        self._openai = openai.OpenAI(**own, http_client=client)
        self._aopenai = openai.AsyncOpenAI(**own, http_client=aclient)
        own["base_url"] = "http://stoker.test"
        self._anthropic = anthropic.Anthropic(**own, http_client=client)
        self._aanthropic = anthropic.AsyncAnthropic(**own, http_client=aclient)
        self._runner = asyncio.Runner()
        self.streamed: dict[Dialect, dict[str, Callable[[], Plain]]] = {
            Dialect.CHAT: {
                "helper": self._chat_helper, "events": self._chat_events,
                "async helper": lambda: self._run(self._chat_ahelper()),
                "async events": lambda: self._run(self._chat_aevents()),
            },
            Dialect.MESSAGES: {
                "helper": self._messages_helper, "events": self._messages_events,
                "async helper": lambda: self._run(self._messages_ahelper()),
                "async events": lambda: self._run(self._messages_aevents()),
            },
            Dialect.RESPONSES: {
                "helper": self._responses_helper, "events": self._responses_events,
                "async helper": lambda: self._run(self._responses_ahelper()),
                "async events": lambda: self._run(self._responses_aevents()),
            },
        }  # fmt: skip
        self._whole: dict[Dialect, Callable[[], Any]] = {
            Dialect.CHAT: lambda: self._openai.chat.completions.create(**_ASK, **_USER),
            Dialect.MESSAGES: lambda: self._anthropic.messages.create(max_tokens=9, **_ASK, **_USER),
            Dialect.RESPONSES: lambda: self._openai.responses.create(input="u", **_ASK),
        }

    def close(self) -> None:
        self._runner.close()

    def fold(self, dialect: Dialect, way: str, pieces: list[bytes]) -> Plain:
        self.exchange.pieces, self.exchange.is_stream = pieces, True
        return self.streamed[dialect][way]()

    def whole(self, dialect: Dialect, body: bytes) -> Plain:
        self.exchange.pieces, self.exchange.is_stream = [body], False
        return plain(self._whole[dialect]())

    def _run(self, work: Any) -> Plain:
        found: Plain = self._runner.run(work)
        return found

    # -- chat ------------------------------------------------------------------------------------------------------

    def _chat_helper(self) -> Plain:
        with self._openai.chat.completions.stream(**_ASK, **_USER) as stream:
            stream.until_done()
            return plain(stream.current_completion_snapshot)

    async def _chat_ahelper(self) -> Plain:
        async with self._aopenai.chat.completions.stream(**_ASK, **_USER) as stream:
            await stream.until_done()
            return plain(stream.current_completion_snapshot)

    def _chat_events(self) -> Plain:
        state = ChatCompletionStreamState()
        for chunk in self._openai.chat.completions.create(stream=True, **_ASK, **_USER):
            state.handle_chunk(chunk)
        return plain(state.current_completion_snapshot)

    async def _chat_aevents(self) -> Plain:
        state = ChatCompletionStreamState()
        async for chunk in await self._aopenai.chat.completions.create(stream=True, **_ASK, **_USER):
            state.handle_chunk(chunk)
        return plain(state.current_completion_snapshot)

    # -- messages --------------------------------------------------------------------------------------------------

    def _messages_helper(self) -> Plain:
        with self._anthropic.messages.stream(max_tokens=9, **_ASK, **_USER) as stream:
            return plain(stream.get_final_message())

    async def _messages_ahelper(self) -> Plain:
        async with self._aanthropic.messages.stream(max_tokens=9, **_ASK, **_USER) as stream:
            return plain(await stream.get_final_message())

    def _messages_events(self) -> Plain:
        found = self._anthropic.messages.create(max_tokens=9, stream=True, **_ASK, **_USER)
        return folded_message([event.model_dump(mode="json", warnings=False) for event in found])

    async def _messages_aevents(self) -> Plain:
        found = await self._aanthropic.messages.create(max_tokens=9, stream=True, **_ASK, **_USER)
        return folded_message([event.model_dump(mode="json", warnings=False) async for event in found])

    # -- responses -------------------------------------------------------------------------------------------------

    def _responses_helper(self) -> Plain:
        with self._openai.responses.stream(input="u", **_ASK) as stream:
            return _final_response([*stream])

    async def _responses_ahelper(self) -> Plain:
        async with self._aopenai.responses.stream(input="u", **_ASK) as stream:
            return _final_response([event async for event in stream])

    def _responses_events(self) -> Plain:
        return _final_response([*self._openai.responses.create(input="u", stream=True, **_ASK)])

    async def _responses_aevents(self) -> Plain:
        found = await self._aopenai.responses.create(input="u", stream=True, **_ASK)
        return _final_response([event async for event in found])


def _final_response(events: list[Any]) -> Plain:
    """The terminal event's response; its items have to be those that were told before, piece by piece."""
    final = plain(events[-1].response)
    told: dict[int, list[str]] = {}
    for event in events:
        if event.type.endswith(".delta"):
            told.setdefault(event.output_index, []).append(event.delta)
    for at, item in enumerate(final["output"]):
        assert "".join(told.get(at, ())) == _text_of(item), "an item's deltas are its text"
    return final


def _text_of(item: Plain) -> str:
    said = item.get("arguments", item.get("input"))
    if isinstance(said, str):
        return said
    return "".join(part.get("text", part.get("refusal", "")) for part in item.get("content") or ())


def folded_message(events: list[Plain]) -> Plain:
    """A Messages stream folded by hand, strictly: each delta has to fit the block that is there."""
    message: Plain = {}
    texts: dict[int, str] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                match (block["type"], delta["type"]):
                    case ("text", "text_delta"):
                        block["text"] += delta["text"]
                    case ("thinking", "thinking_delta"):
                        block["thinking"] += delta["thinking"]
                    case ("thinking", "signature_delta"):
                        block["signature"] = delta["signature"]
                    case ("tool_use", "input_json_delta"):
                        texts[event["index"]] = texts.get(event["index"], "") + delta["partial_json"]
                    case pair:
                        raise AssertionError(f"{pair[1]} in a block of {pair[0]}")
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= {name: count for name, count in event["usage"].items() if count is not None}
    for at, text in texts.items():
        message["content"][at]["input"] = partly(text)
    return _plain(message)


def partly(text: str) -> Any:
    """JSON as far as it came: the parser that both SDKs bring."""
    try:
        return json.loads(text)
    except ValueError:
        from jiter import from_json

        return from_json(text.encode(), partial_mode=True)


def plain(message: Any) -> Plain:
    found: Plain = _plain(message.model_dump(mode="python", warnings=False))
    for choice in found.get("choices", ()):
        if choice["message"].get("content") == "":
            del choice["message"]["content"]
        for call in choice["message"].get("tool_calls", ()):
            call.pop("index", None)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        kept = ((name, inner) for name, inner in value.items() if inner is not None and name not in _OWN)
        return {name: inner if name == "input" else _plain(inner) for name, inner in kept}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value


def sse(data: bytes) -> Iterator[tuple[str, bytes]]:
    """(event's name, data) of frames as we write them; anything else than whole frames fails."""
    assert data.endswith(b"\n\n") or not data, "the last frame is whole"
    for frame in data.split(b"\n\n")[:-1]:
        if frame.startswith(b":"):
            continue
        lines = frame.split(b"\n")
        name = lines.pop(0).removeprefix(b"event: ").decode() if lines[0].startswith(b"event: ") else ""
        assert len(lines) == 1, "one line of data"
        assert lines[0].startswith(b"data: "), "data"
        yield name, lines[0][6:]
