"""What the official SDKs fold of a stream is the message that they get of the same answer not streamed.

Nine pairs through openai-python and anthropic-sdk-python, over their own HTTP client and SSE decoder, synchronous and
not, with their helpers and event by event; the older clients, which have no accumulator, are folded by hand. A stream
cut anywhere gives the same bytes, so each answer's bytes are folded once for all of its chunkings: the 10,000 chunkings
of a pair are 200 answers in 50 chunkings each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.request.translate.properties.going_through import CLIENTS, through, translator
from tests.request.translate.properties.sdk_folds import Folds, Plain, partly, sse
from tests.request.translate.properties.stream_grammars import GRAMMARS
from tests.request.translate.properties.translation_worlds import OWN, SEEDS, SHORT, UPSTREAMS, World, cut, worlds

from stoker.domain.answer import Answer, StopReason
from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Refusal, Text, Thinking, ToolCall
from stoker.request.translate.neutral.calls import read_id

SDK = (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES)
PAIRS = [(upstream, client) for upstream in UPSTREAMS for client in SDK]
OLDER = [client for client in CLIENTS if client not in SDK]
BY_HAND = [(upstream, client) for upstream in UPSTREAMS for client in OLDER]
FEW = settings(
    max_examples=examples(30), derandomize=True, deadline=None, database=None, phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
MANY = settings(FEW, max_examples=200)


@pytest.fixture(scope="module")
def folds() -> Iterator[Folds]:
    found = Folds()
    yield found
    found.close()


@pytest.mark.timeout(180)  # on a busy machine
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_any_cut_of_a_stream_folds_to_the_whole_answer(upstream: Dialect, folds: Folds) -> None:
    @FEW
    @given(world=worlds(upstream), seed=SEEDS, counts=st.booleans())
    def holds(world: World, seed: str, counts: bool) -> None:
        for client in SDK:
            rng = Random(seed)
            ways = ["helper", rng.choice(list(folds.streamed[client])[1:])]
            _same(folds, upstream, client, world, rng, counts, chunkings=5, ways=ways)

    holds()


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("upstream", "client"), PAIRS)
def test_ten_thousand_cuts_fold_to_the_whole_answer(upstream: Dialect, client: Dialect, folds: Folds) -> None:
    cuts = 0

    @MANY
    @given(world=worlds(upstream), seed=SEEDS, counts=st.booleans())
    def holds(world: World, seed: str, counts: bool) -> None:
        nonlocal cuts
        _same(folds, upstream, client, world, Random(seed), counts, chunkings=50, ways=list(folds.streamed[client]))
        cuts += 50

    holds()
    assert cuts >= 10_000


def _same(
    folds: Folds, upstream: Dialect, client: Dialect, world: World, rng: Random, counts: bool, chunkings: int,
    ways: list[str],
) -> None:  # fmt: skip
    more: dict[str, Any] = {"stream_options": {"include_usage": counts}} if client is Dialect.CHAT else {}
    raw = b"".join(world.frames)
    first = _stream(upstream, client, world, world.frames, more)
    for _ in range(chunkings - 1):
        assert _stream(upstream, client, world, cut(raw, rng), more) == first, "the same bytes, however they came"
    assert GRAMMARS[client](first).end == "end"
    body = translator(upstream, client, **more).translate_whole(world.whole)
    whole = folds.whole(client, body)
    if more and not counts:
        whole.pop("usage", None)
    _says(whole, client, world.answer)
    expected = _with_values(whole, client, upstream)
    for way in ways:
        folded = folds.fold(client, way, cut(first, rng))
        assert _with_values(folded, client, upstream) == expected, f"{way} folds to the whole answer"


def _stream(upstream: Dialect, client: Dialect, world: World, pieces: list[bytes], more: dict[str, Any]) -> bytes:
    one = translator(upstream, client, **more)
    out = through(client, one, pieces)
    tokens = world.answer.tokens
    assert (one.usage.input, one.usage.output, one.usage.cached) == (tokens.input, tokens.output, tokens.cached)
    assert one.error is None
    return out


def _with_values(message: Plain, client: Dialect, upstream: Dialect) -> Plain:
    """A Messages upstream gives arguments as an object where the answer is whole: then the values are compared."""
    if client is Dialect.MESSAGES:
        for block in message["content"]:
            if set(block.get("input", ())) == {"_raw"}:  # cut off before anything of it could be read
                block["input"] = partly(block["input"]["_raw"]) or {}
    elif upstream is Dialect.MESSAGES and client is Dialect.RESPONSES:
        for item in message["output"]:
            if "arguments" in item:
                item["arguments"] = json.loads(item["arguments"])
    elif upstream is Dialect.MESSAGES:
        for call in message["choices"][0]["message"].get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return message


# -- what is said -------------------------------------------------------------------------------------------------


def _says(message: Plain, client: Dialect, answer: Answer) -> None:
    """The whole answer says what the upstream's says: text, thinking, calls, the end, usage."""
    text, thinking, refusal, calls, stop, usage = _HEARD[client](message)
    texts = Text if client is not Dialect.MESSAGES else (Text, Refusal)
    assert text == "".join(block.text for block in answer.blocks if isinstance(block, texts))
    assert thinking == "".join(block.text for block in answer.blocks if isinstance(block, Thinking))
    if client is not Dialect.MESSAGES:
        assert refusal == "".join(block.text for block in answer.blocks if isinstance(block, Refusal))
    made = [block for block in answer.blocks if isinstance(block, ToolCall)]
    assert [(read_id(id), name) for id, name, _ in calls] == [(call.id, _own(call.name)) for call in made]
    for (_, _, told), call in zip(calls, made, strict=True):
        assert told == partly(call.arguments) or told == {"_raw": call.arguments}
    assert stop == _stop_of(answer, client)
    known = answer.tokens.input is not None and answer.tokens.output is not None
    if usage is not None:
        assert known or client is Dialect.MESSAGES
        assert usage == (answer.tokens.input or 0, answer.tokens.cached or 0, answer.tokens.output or 0)


def _own(name: str) -> str:
    return OWN if name == SHORT else name


def _stop_of(answer: Answer, client: Dialect) -> str:
    """As each dialect says it; a refusal in words ends a Messages answer as a refusal."""
    stop = answer.stop
    refused = any(isinstance(block, Refusal) for block in answer.blocks)
    match client:
        case Dialect.CHAT:
            names = {StopReason.LENGTH: "length", StopReason.CONTEXT: "length", StopReason.CALLS: "tool_calls",
                     StopReason.FILTERED: "content_filter"}  # fmt: skip
            return names.get(stop, "stop")
        case Dialect.MESSAGES:
            names = {
                StopReason.LENGTH: "max_tokens",
                StopReason.CONTEXT: "model_context_window_exceeded",
                StopReason.CALLS: "tool_use",
                StopReason.FILTERED: "refusal",
                StopReason.PAUSED: "pause_turn",
                StopReason.SEQUENCE: "stop_sequence",
                StopReason.END: "refusal" if refused else "end_turn",
            }
            return names[stop]
    if stop in (StopReason.LENGTH, StopReason.CONTEXT):
        return "max_output_tokens"
    return "content_filter" if stop is StopReason.FILTERED and not refused else ""


Heard = tuple[str, str, str, list[tuple[str, str, Any]], str, tuple[int, int, int] | None]


def _heard_chat(message: Plain) -> Heard:
    [choice] = message["choices"]
    said = choice["message"]
    calls = [
        (call["id"], call["function"]["name"], partly(call["function"]["arguments"]))
        for call in said.get("tool_calls", ())
    ]
    usage = message.get("usage")
    counts = None
    if usage is not None:
        cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
        counts = (usage["prompt_tokens"], cached, usage["completion_tokens"])
    text, refusal = said.get("content") or "", said.get("refusal") or ""
    return text, said.get("reasoning_content", ""), refusal, calls, choice["finish_reason"], counts


def _heard_messages(message: Plain) -> Heard:
    content, usage = message["content"], message["usage"]
    text = "".join(block["text"] for block in content if block["type"] == "text")
    thinking = "".join(block["thinking"] for block in content if block["type"] == "thinking")
    assert all(block["signature"] for block in content if block["type"] == "thinking"), "all thinking is signed"
    calls = [(block["id"], block["name"], block["input"]) for block in content if block["type"] == "tool_use"]
    cached = usage.get("cache_read_input_tokens", 0)
    total = usage["input_tokens"] + cached + usage.get("cache_creation_input_tokens", 0)
    return text, thinking, "", calls, message["stop_reason"], (total, cached, usage["output_tokens"])


def _heard_responses(message: Plain) -> Heard:
    parts = [part for item in message["output"] for part in item.get("content") or ()]
    text = "".join(part["text"] for part in parts if part["type"] == "output_text")
    thinking = "".join(part["text"] for part in parts if part["type"] == "reasoning_text")
    refusal = "".join(part["refusal"] for part in parts if part["type"] == "refusal")
    calls = [
        (item["call_id"], item["name"], partly(item["arguments"]))
        for item in message["output"]
        if item["type"] == "function_call"
    ]
    usage = message.get("usage")
    counts = None
    if usage is not None:
        cached = usage["input_tokens_details"]["cached_tokens"]
        counts = (usage["input_tokens"], cached, usage["output_tokens"])
    return text, thinking, refusal, calls, message.get("incomplete_details", {}).get("reason", ""), counts


_HEARD = {Dialect.CHAT: _heard_chat, Dialect.MESSAGES: _heard_messages, Dialect.RESPONSES: _heard_responses}


# -- clients without an SDK that folds ------------------------------------------------------------------------------


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_older_clients_hear_the_whole_answer_too(upstream: Dialect) -> None:
    @FEW
    @given(world=worlds(upstream), seed=SEEDS)
    def holds(world: World, seed: str) -> None:
        for client in OLDER:
            _same_by_hand(upstream, client, world, Random(seed), chunkings=5)

    holds()


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("upstream", "client"), BY_HAND)
def test_older_clients_hear_it_in_ten_thousand_cuts(upstream: Dialect, client: Dialect) -> None:
    @MANY
    @given(world=worlds(upstream), seed=SEEDS)
    def holds(world: World, seed: str) -> None:
        _same_by_hand(upstream, client, world, Random(seed), chunkings=50)

    holds()


def _same_by_hand(upstream: Dialect, client: Dialect, world: World, rng: Random, chunkings: int) -> None:
    raw = b"".join(world.frames)
    first = _stream(upstream, client, world, world.frames, {})
    for _ in range(chunkings - 1):
        assert _stream(upstream, client, world, cut(raw, rng), {}) == first
    assert GRAMMARS[client](first).end == "end"
    whole = json.loads(translator(upstream, client).translate_whole(world.whole))
    said = _folded_completion(first) if client is Dialect.COMPLETIONS else _folded_ollama(first)
    assert said == whole
    texts = "".join(block.text for block in world.answer.blocks if isinstance(block, Text | Refusal))
    assert texts == _text_by_hand(whole)


def _text_by_hand(whole: Plain) -> str:
    if "choices" in whole:
        return str(whole["choices"][0]["text"])
    return str(whole["message"]["content"] if "message" in whole else whole["response"])


def _folded_completion(data: bytes) -> Plain:
    out: Plain = {}
    for _, body in sse(data):
        if body == b"[DONE]":
            continue
        chunk = json.loads(body)
        if not chunk["choices"]:
            out["usage"] = chunk["usage"]
            continue
        chunk.pop("usage")
        if not out:
            out = chunk
            continue
        choice = out["choices"][0]
        choice["text"] += chunk["choices"][0]["text"]
        choice["finish_reason"] = chunk["choices"][0]["finish_reason"]
    return out


def _folded_ollama(data: bytes) -> Plain:
    out: Plain = {}
    for line in data.splitlines():
        told = json.loads(line)
        if not out:
            out = told
            continue
        if "response" in told:
            _join(out, told, ("response", "thinking"))
        else:
            _join(out["message"], told["message"], ("content", "thinking", "tool_calls"))
        out |= {name: value for name, value in told.items() if name not in ("message", "response", "thinking")}
    return out


def _join(said: Plain, more: Plain, names: tuple[str, ...]) -> None:
    for name in names:
        if name in more:
            said[name] = said[name] + more[name] if name in said else more[name]
