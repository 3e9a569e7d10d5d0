"""What every translated stream keeps to, wherever the upstream's breaks off and whatever it sends (dialects.md, 4)."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.examples import examples
from tests.request.translate.properties.going_through import CLIENTS, through, translator
from tests.request.translate.properties.sdk_folds import partly
from tests.request.translate.properties.stream_grammars import GRAMMARS
from tests.request.translate.properties.translation_worlds import (
    RENDERERS,
    SAYINGS,
    SEEDS,
    UPSTREAMS,
    World,
    cut,
    worlds,
)

from stoker.domain.answer import Answer, StopReason, Tokens
from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Text, ToolCall

TEXTS = (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES)
"""Clients that get arguments as text, piece by piece."""
FEW = settings(
    max_examples=examples(25), derandomize=True, deadline=None, database=None, phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
_ERRORS: dict[Dialect, tuple[dict[str, Any], ...]] = {
    Dialect.CHAT: (
        {"error": {"message": "no", "type": "server_error", "code": 500}},
        {"error": {"message": "too long", "code": 400}},
        {"error": "CUDA out of memory"},
    ),
    Dialect.MESSAGES: (
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"type": "error"},
    ),
    Dialect.RESPONSES: (
        {"type": "error", "code": "server_error", "message": "no", "param": None, "sequence_number": 3},
        {"type": "response.failed", "response": {"status": "failed", "error": {"code": "x", "message": "no"}}},
        {"type": "response.failed", "response": {}},
    ),
}
_ENDS = {
    Dialect.CHAT: (b'"finish_reason": "',),
    Dialect.MESSAGES: (b"message_stop", b'"stop_reason": "'),
    Dialect.RESPONSES: (b"response.completed", b"response.incomplete"),
}
"""What stands in a frame that ends an answer, or tells why it ended."""


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_stream_cut_at_any_byte_ends_in_order_or_with_one_error(upstream: Dialect) -> None:
    @FEW
    @given(world=worlds(upstream), seed=SEEDS)
    def holds(world: World, seed: str) -> None:
        for client in CLIENTS:
            rng = Random(seed)
            raw = b"".join(world.frames)
            kept = raw[: rng.randrange(len(raw) + 1)]
            told = GRAMMARS[client](through(client, translator(upstream, client), cut(kept, rng)))
            assert told.end in ("end", "error"), client
            if not any(end in kept for end in _ENDS[upstream]):
                assert told.end == "error", "what never said why it ends did not end"
            if client in TEXTS:
                made = [block for block in world.answer.blocks if isinstance(block, ToolCall)]
                assert len(told.calls) <= len(made)
                for given_, call in zip(told.calls, made, strict=False):
                    _begins(call.arguments, given_, upstream)

    holds()


def _begins(arguments: str, given: str, upstream: Dialect) -> None:
    """What came of a call is the beginning of its arguments; a Messages serve may give them as an object."""
    if upstream is Dialect.MESSAGES and not arguments.startswith(given):
        assert partly(given) == json.loads(arguments)
    else:
        assert arguments.startswith(given) or given == "{}"


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_an_error_in_the_middle_is_the_one_end(upstream: Dialect) -> None:
    @FEW
    @given(world=worlds(upstream), seed=SEEDS)
    def holds(world: World, seed: str) -> None:
        for client in CLIENTS:
            rng = Random(seed)
            error = rng.choice(_ERRORS[upstream])
            name = f"event: {error['type']}\n" if "type" in error else ""
            frame = f"{name}data: {json.dumps(error)}\n\n".encode()
            at = rng.randrange(len(world.frames))
            frames = [*world.frames[:at], frame, *world.frames[at:]]
            before = any(end in kept for kept in world.frames[:at] for end in _ENDS[upstream])
            one = translator(upstream, client)
            told = GRAMMARS[client](through(client, one, cut(b"".join(frames), rng)))
            assert told.end == "error" or before
            assert one.error is not None or told.end == "end"

    holds()


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_arguments_are_the_upstreams_own(upstream: Dialect) -> None:
    """Per call, its pieces joined: the same text; where a dialect gives objects, the same values."""

    @FEW
    @given(world=worlds(upstream), seed=SEEDS)
    def holds(world: World, seed: str) -> None:
        for client in CLIENTS:
            pieces = cut(b"".join(world.frames), Random(seed))
            told = GRAMMARS[client](through(client, translator(upstream, client), pieces))
            assert told.end == "end", client
            made = [block.arguments for block in world.answer.blocks if isinstance(block, ToolCall)]
            if client in TEXTS and upstream is not Dialect.MESSAGES:
                assert told.calls == made
            elif client in TEXTS:
                assert [json.loads(text or "{}") for text in told.calls] == [json.loads(text) for text in made]
            elif client is Dialect.OLLAMA_CHAT:
                for text, own in zip(told.calls, made, strict=True):
                    found = json.loads(text)
                    assert found in (partly(own), {"_raw": own})
            else:
                assert told.calls == [], "a dialect without calls has none"

    holds()


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_garbled_upstream_still_gives_a_stream_in_order(upstream: Dialect) -> None:
    """Frames lost, told twice, and in any order."""

    @FEW
    @given(world=worlds(upstream), seed=SEEDS)
    def holds(world: World, seed: str) -> None:
        for client in CLIENTS:
            rng = Random(seed)
            frames = world.frames[:]
            for _ in range(rng.choice((1, 3, 10))):
                at, to = rng.randrange(len(frames)), rng.randrange(len(frames))
                match rng.choice(("lose", "again", "move", "swap")):
                    case "lose" if len(frames) > 1:
                        del frames[at]
                    case "again":
                        frames.insert(to, frames[at])
                    case "move":
                        frames.insert(to, frames.pop(at))
                    case _:
                        frames[at], frames[to] = frames[to], frames[at]
            told = GRAMMARS[client](through(client, translator(upstream, client), cut(b"".join(frames), rng)))
            assert told.end in ("end", "error"), client

    holds()


_CUSTOM: dict[Dialect, dict[str, Any]] = {
    Dialect.CHAT: {"tools": [{"type": "custom", "custom": {"name": "g"}}]},
    Dialect.RESPONSES: {"tools": [{"type": "custom", "name": "g"}]},
}
"""Clients that have tools which take any text."""


@pytest.mark.parametrize("client", _CUSTOM)
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_what_a_custom_tool_is_given_is_the_text_itself(upstream: Dialect, client: Dialect) -> None:
    """The serve was told of a function with one argument: `{"input": text}`, in any pieces, is the text."""

    @FEW
    @given(text=SAYINGS, before=SAYINGS, seed=SEEDS)
    def holds(text: str, before: str, seed: str) -> None:
        rng = Random(seed)
        calls = [ToolCall("a", "g", json.dumps({"input": text})), ToolCall("b", "f", '{"x":1}')]
        answer = Answer("i", "m", [Text(before), *calls], StopReason.CALLS, tokens=Tokens(1, None, None, 2, None))
        streamed, whole = RENDERERS[upstream]
        frames, body = streamed(answer, rng), json.dumps(whole(answer, rng)).encode()
        more = _CUSTOM[client]
        told = GRAMMARS[client](through(client, translator(upstream, client, **more), cut(b"".join(frames), rng)))
        assert told.calls[0] == text
        assert json.loads(told.calls[1]) == {"x": 1}
        found = json.loads(translator(upstream, client, **more).translate_whole(body))
        if client is Dialect.CHAT:
            made, other = found["choices"][0]["message"]["tool_calls"]
            assert (made["type"], made["custom"]) == ("custom", {"name": "g", "input": text})
        else:
            made, other = (item for item in found["output"] if "call" in item["type"])
            assert (made["type"], made["name"], made["input"]) == ("custom_tool_call", "g", text)
        assert other["type"] in ("function", "function_call")

    holds()
