"""Answers as upstreams give them: one Answer, as the bytes of a stream with an engine's habits, and as a whole.

Written from the dialects' own documentation, and never with the writers of the package. What an answer says is drawn
by Hypothesis; how it is cut, framed and spelt comes from a generator of random numbers with a drawn seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st

from stoker.domain.answer import Answer, AnswerBlock, StopReason, Tokens
from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Redacted, Refusal, Text, Thinking, ToolCall

UPSTREAMS = (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES)
SHORT, OWN = "weather_in_a_pl_0123abcd", "weather in a plâce"
"""A tool by the name that the serve was given, and by its own."""
_NASTY = ("\u2028", "\x85", "\r\n", "\n\n", "data: [DONE]", "😀", "é", "\x00", '"', "\\", "<tool_call>", "{", "\ufeff")
_LETTERS = st.characters(exclude_categories=["Cs"])
_SAYING = st.lists(st.sampled_from(_NASTY) | st.text(_LETTERS, max_size=12), min_size=1, max_size=6).map("".join)
SAYINGS = _SAYING.filter(str.strip)
"""Text with a letter: Messages refuses blanks, and a translation leaves them out."""
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(_LETTERS, max_size=10) | st.sampled_from(_NASTY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(_LETTERS, max_size=6), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
OBJECTS = st.dictionaries(st.text(_LETTERS, max_size=8), _JSON, max_size=4)
NAMES = st.sampled_from(("f", "get_weather", "mcp__files__read", "ünïcode tool", SHORT))
IDS = st.sampled_from(("call_{}", "toolu_0{}", "functions.f:{}", "{}", "chatcmpl-tool-{}"))
SEEDS = st.uuids().map(str)
"""Integers would do, were they not so often 0."""
_COUNTS = st.integers(0, 3) | st.integers(0, 2**40)


class World(NamedTuple):
    """`frames` joined are the stream; `whole` is the same answer, not streamed."""

    answer: Answer
    frames: list[bytes]
    whole: bytes


# -- what is said -------------------------------------------------------------------------------------------------


@st.composite
def arguments(draw: st.DrawFn) -> str:
    given = draw(OBJECTS)
    spaced = draw(st.booleans())
    return json.dumps(given, ensure_ascii=draw(st.booleans()), separators=(", ", ": ") if spaced else (",", ":"))


@st.composite
def tokens(draw: st.DrawFn, upstream: Dialect) -> Tokens:
    """As far as this upstream can leave them unknown."""
    if upstream is not Dialect.MESSAGES and draw(st.booleans()):
        return Tokens()
    some = st.none() | _COUNTS
    cached, written, reasoning = draw(some), draw(some), draw(some)
    fresh, said = draw(_COUNTS), draw(_COUNTS)
    return Tokens(fresh + (cached or 0) + (written or 0), cached, written, said + (reasoning or 0), reasoning)


@st.composite
def answers(draw: st.DrawFn, upstream: Dialect) -> Answer:
    """Chat has one text, and one order; the others have blocks."""
    calls = [
        ToolCall(draw(IDS).format(at), draw(NAMES), draw(arguments())) for at in range(draw(st.integers(0, 3)))
    ]  # fmt: skip
    signed = st.sampled_from(("", "EqQBCgIYAhIkmF8=")) if upstream is Dialect.MESSAGES else st.just("")
    thinking = st.builds(Thinking, SAYINGS, signed)
    text = st.builds(Text, SAYINGS)
    refusal = st.builds(Refusal, SAYINGS)
    blocks: list[AnswerBlock] = []
    if upstream is Dialect.CHAT:
        blocks = [block for kind in (thinking, text, refusal) if (block := draw(st.none() | kind)) is not None]
        blocks += calls
    else:
        kinds = thinking | text
        kinds |= st.builds(Redacted, SAYINGS) if upstream is Dialect.MESSAGES else refusal
        blocks = draw(st.lists(kinds, max_size=4))
        for call in calls:
            blocks.insert(draw(st.integers(0, len(blocks))), call)
        calls = [block for block in blocks if isinstance(block, ToolCall)]
    stops = [StopReason.LENGTH, StopReason.FILTERED, StopReason.CALLS if calls else StopReason.END]
    if upstream is Dialect.MESSAGES:
        stops += [StopReason.PAUSED, StopReason.CONTEXT, StopReason.SEQUENCE]
    elif upstream is Dialect.CHAT and not calls:
        stops.append(StopReason.SEQUENCE)
    stop = draw(st.sampled_from(stops))
    last = blocks[-1] if blocks else None
    if stop is StopReason.LENGTH and isinstance(last, ToolCall) and upstream is not Dialect.MESSAGES:
        last.arguments = last.arguments[: draw(st.integers(1, len(last.arguments)))]
    sequence = draw(SAYINGS) if stop is StopReason.SEQUENCE else None
    id = {Dialect.CHAT: "chatcmpl-1", Dialect.MESSAGES: "msg_1", Dialect.RESPONSES: "resp_1"}[upstream]
    return Answer(id, "some-model", blocks, stop, sequence, draw(tokens(upstream)))


@st.composite
def worlds(draw: st.DrawFn, upstream: Dialect) -> World:
    answer = draw(answers(upstream))
    rng = Random(draw(SEEDS))
    streamed, whole = RENDERERS[upstream]
    frames, body = streamed(answer, rng), whole(answer, rng)
    return World(answer, frames, json.dumps(body, ensure_ascii=rng.random() < 0.5).encode())


# -- how it is cut and framed -------------------------------------------------------------------------------------


def cut(data: bytes, rng: Random) -> list[bytes]:
    """The bytes as some network might bring them: cut anywhere, and somewhere into single bytes."""
    size = len(data)
    if size < 2:
        return [data]
    points = {rng.randrange(1, size) for _ in range(rng.choice((1, 5, 40, 200)))}
    single = rng.randrange(1, size)
    points.update(range(single, min(single + rng.choice((0, 20, 200)), size)))
    edges = [0, *sorted(points), size]
    return [data[start:end] for start, end in pairwise(edges)]


def pieces(text: str, rng: Random) -> list[str]:
    """Deltas of any sizes; none of none."""
    most = rng.choice((1, 4, 20, len(text) + 1))
    found, at = [], 0
    while at < len(text):
        size = rng.randint(1, most)
        found.append(text[at : at + size])
        at += size
    return found


class Framing:
    """One engine's way to write SSE."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._end = rng.choice((b"\n", b"\n", b"\r\n"))
        self._space = rng.choice((b" ", b" ", b""))
        self._ascii = rng.random() < 0.5
        self._is_chatty = rng.random() < 0.3
        self._is_pretty = rng.random() < 0.1

    def frame(self, payload: dict[str, Any], event: str = "") -> bytes:
        rng, end = self._rng, self._end
        lines: list[bytes] = []
        if self._is_chatty and rng.random() < 0.2:
            lines += [b": still here", b""] if rng.random() < 0.5 else [b"id: 7", b"retry: 1000"]
        if event:
            lines.append(b"event:" + self._space + event.encode())
        text = json.dumps(payload, ensure_ascii=self._ascii, indent=1 if self._is_pretty else None)
        lines += (b"data:" + self._space + line.encode() for line in text.split("\n"))
        return end.join(lines) + end * 2

    def done(self) -> bytes:
        return b"data:" + self._space + b"[DONE]" + self._end * 2


# -- chat ---------------------------------------------------------------------------------------------------------

_CHAT_STOPS = {
    StopReason.END: "stop", StopReason.SEQUENCE: "stop", StopReason.LENGTH: "length", StopReason.CALLS: "tool_calls",
    StopReason.FILTERED: "content_filter",
}  # fmt: skip


def chat_stream(answer: Answer, rng: Random) -> list[bytes]:
    framing = Framing(rng)
    deltas = _chat_saying(answer, rng)
    counts = _chat_usage(answer.tokens) if answer.tokens.input is not None else None
    way = rng.choice(("last", "last", "finish", "each")) if counts is not None else "never"
    head = {"id": answer.id, "object": "chat.completion.chunk", "created": 17, "model": answer.model}
    head |= rng.choice(({}, {"system_fingerprint": None}, {"service_tier": "default"}))
    stop = _CHAT_STOPS[answer.stop]
    if stop == "tool_calls" and rng.random() < 0.3:
        stop = "stop"
    match rng.choice(("alone", "with", "none")):
        case "alone":
            deltas.insert(0, {"role": "assistant", "content": rng.choice(("", None))})
        case "with" if deltas:
            deltas[0] = {"role": "assistant", **deltas[0]}
    if not deltas or rng.random() < 0.7:
        deltas.append({})
    out: list[bytes] = []
    for at, delta in enumerate(deltas):
        is_last = at == len(deltas) - 1
        if rng.random() < 0.1:
            delta = {"obfuscation": "aZ", **delta}
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": stop if is_last else None}
        if is_last and answer.sequence is not None:
            choice["stop_reason"] = answer.sequence
        chunk: dict[str, Any] = {**head, "choices": [choice]}
        if counts is not None and (way == "each" or (way == "finish" and is_last)):
            running = {**counts, "completion_tokens": min(at, counts["completion_tokens"])}
            chunk["usage"] = counts if is_last else running
        elif way == "last":
            chunk["usage"] = None
        out.append(framing.frame(chunk))
    if way in ("last", "each"):
        out.append(framing.frame({**head, "choices": [], "usage": counts}))
    if rng.random() < 0.95:
        out.append(framing.done())
    return out


def _chat_saying(answer: Answer, rng: Random) -> list[dict[str, Any]]:
    names = rng.choice((("reasoning_content",), ("reasoning",), ("reasoning", "reasoning_content")))
    out: list[dict[str, Any]] = []
    calls: list[ToolCall] = []
    for block in answer.blocks:
        match block:
            case Thinking(text=text):
                out += (dict.fromkeys(names, piece) for piece in pieces(text, rng))
            case Text(text=text):
                told: list[dict[str, Any]] = [{"content": piece} for piece in pieces(text, rng)]
                if out and rng.random() < 0.5:
                    out[-1] |= told.pop(0)  # the tail of thinking and the first text in one chunk
                out += told
            case Refusal(text=text):
                out += ({"refusal": piece} for piece in pieces(text, rng))
            case ToolCall():
                calls.append(block)
    for delta in out:
        if rng.random() < 0.1:
            delta["tool_calls"] = None
    return out + _chat_calls(calls, rng)


def _chat_calls(calls: list[ToolCall], rng: Random) -> list[dict[str, Any]]:
    if len(calls) > 1 and rng.random() < 0.1:  # all of them in one chunk
        return [{"tool_calls": [_chat_call(at, call, call.arguments) for at, call in enumerate(calls)]}]
    queues = [_chat_call_pieces(at, call, len(calls) == 1, rng) for at, call in enumerate(calls)]
    out: list[dict[str, Any]] = []
    interleaved = rng.random() < 0.3
    if interleaved:
        out += ({"tool_calls": [queue.pop(0)]} for queue in queues)
    while any(queues):
        queue = rng.choice([queue for queue in queues if queue]) if interleaved else next(q for q in queues if q)
        out.append({"tool_calls": [queue.pop(0)]})
    return out


def _chat_call(at: int, call: ToolCall, text: str) -> dict[str, Any]:
    return {"index": at, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _chat_call_pieces(at: int, call: ToolCall, is_alone: bool, rng: Random) -> list[dict[str, Any]]:
    texts = pieces(call.arguments, rng)
    habit = rng.choice(("plain", "plain", "whole", "id again", "all again", "nulls", "eager"))
    if habit == "whole":
        out = [_chat_call(at, call, call.arguments)]
    elif habit == "all again":
        out = [_chat_call(at, call, text) for text in ["", *texts]]
    else:
        first = texts.pop(0) if habit == "eager" else rng.choice(("", None))
        out = [_chat_call(at, call, first)]
        more = {"id again": {"id": call.id}, "nulls": {"id": None, "type": None}}.get(habit, {})
        name = {"name": None} if habit == "nulls" else {}
        out += ({"index": at, **more, "function": {**name, "arguments": text}} for text in texts)
    if is_alone and rng.random() < 0.2:
        out = [{name: value for name, value in piece.items() if name != "index"} for piece in out]
    return out


def _chat_usage(tokens: Tokens) -> dict[str, Any]:
    assert tokens.input is not None
    assert tokens.output is not None
    out: dict[str, Any] = {"prompt_tokens": tokens.input, "completion_tokens": tokens.output}
    out["total_tokens"] = tokens.input + tokens.output
    details = {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.written}
    out["prompt_tokens_details"] = {k: v for k, v in details.items() if v is not None} or None
    if tokens.reasoning is not None:
        out["completion_tokens_details"] = {"reasoning_tokens": tokens.reasoning}
    return out


def chat_whole(answer: Answer, rng: Random) -> dict[str, Any]:
    name = rng.choice(("reasoning_content", "reasoning"))
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for block in answer.blocks:
        match block:
            case Thinking(text=text):
                message[name] = text
            case Text(text=text):
                message["content"] = text
            case Refusal(text=text):
                message["refusal"] = text
    calls = [block for block in answer.blocks if isinstance(block, ToolCall)]
    if calls:
        message["tool_calls"] = [_chat_call(at, call, call.arguments) for at, call in enumerate(calls)]
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": _CHAT_STOPS[answer.stop]}
    if answer.sequence is not None:
        choice["stop_reason"] = answer.sequence
    out = {"id": answer.id, "object": "chat.completion", "created": 17, "model": answer.model, "choices": [choice]}
    return out if answer.tokens.input is None else out | {"usage": _chat_usage(answer.tokens)}


# -- messages -----------------------------------------------------------------------------------------------------

_MESSAGES_STOPS = {
    StopReason.END: "end_turn",
    StopReason.LENGTH: "max_tokens",
    StopReason.SEQUENCE: "stop_sequence",
    StopReason.CALLS: "tool_use",
    StopReason.PAUSED: "pause_turn",
    StopReason.FILTERED: "refusal",
    StopReason.CONTEXT: "model_context_window_exceeded",
}


def messages_stream(answer: Answer, rng: Random) -> list[bytes]:
    framing = Framing(rng)
    usage = _messages_usage(answer.tokens)
    early = {**usage, "output_tokens": rng.choice((0, 1))}
    early.pop("output_tokens_details", None)
    message = {
        "id": answer.id, "type": "message", "role": "assistant", "model": answer.model, "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": early,
    }  # fmt: skip
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(answer.blocks):
        events += _messages_block(index, block, rng)
    late = {"output_tokens": usage["output_tokens"]}
    if "output_tokens_details" in usage:
        late["output_tokens_details"] = usage["output_tokens_details"]
    if rng.random() < 0.5:
        late = usage
    if rng.random() < 0.1:
        events.append({"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 1}})
    delta = {"stop_reason": _MESSAGES_STOPS[answer.stop], "stop_sequence": answer.sequence}
    events += ({"type": "message_delta", "delta": delta, "usage": late}, {"type": "message_stop"})
    for _ in range(rng.choice((0, 0, 1, 3))):
        events.insert(rng.randint(1, len(events)), rng.choice(({"type": "ping"}, {"type": "vendor_note", "x": 1})))
    return [framing.frame(event, event["type"]) for event in events]


def _messages_block(index: int, block: AnswerBlock, rng: Random) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = []
    match block:
        case Thinking(text=text, signature=signature):
            start: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(text, rng)]
            if signature:
                deltas.append({"type": "signature_delta", "signature": signature})
        case Redacted(data=data):
            start = {"type": "redacted_thinking", "data": data}
        case Text(text=text):
            told = pieces(text, rng)
            start = {"type": "text", "text": told.pop(0) if rng.random() < 0.1 else ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in told]
        case ToolCall(id=id, name=name, arguments=text):
            start = {"type": "tool_use", "id": id, "name": name, "input": {}}
            given = json.loads(text)
            if given and rng.random() < 0.1:
                start["input"] = given  # some engines know them at once, and send no delta
            elif given or rng.random() < 0.5:
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(text, rng)]]
        case _:
            raise AssertionError("Messages has no such block")
    out: list[dict[str, Any]] = [{"type": "content_block_start", "index": index, "content_block": start}]
    out += ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
    return [*out, {"type": "content_block_stop", "index": index}]


def _messages_usage(tokens: Tokens) -> dict[str, Any]:
    assert tokens.input is not None
    out: dict[str, Any] = {
        "input_tokens": tokens.input - (tokens.cached or 0) - (tokens.written or 0),
        "cache_creation_input_tokens": tokens.written,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.output,
    }
    if tokens.reasoning is not None:
        out["output_tokens_details"] = {"thinking_tokens": tokens.reasoning}
    return out


def messages_whole(answer: Answer, rng: Random) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    for block in answer.blocks:
        match block:
            case Thinking(text=text, signature=signature):
                content.append({"type": "thinking", "thinking": text, "signature": signature})
            case Redacted(data=data):
                content.append({"type": "redacted_thinking", "data": data})
            case Text(text=text):
                content.append({"type": "text", "text": text, "citations": None})
            case ToolCall(id=id, name=name, arguments=text):
                content.append({"type": "tool_use", "id": id, "name": name, "input": json.loads(text)})
    return {
        "id": answer.id, "type": "message", "role": "assistant", "model": answer.model, "content": content,
        "stop_reason": _MESSAGES_STOPS[answer.stop], "stop_sequence": answer.sequence,
        "usage": _messages_usage(answer.tokens),
    }  # fmt: skip


# -- responses ----------------------------------------------------------------------------------------------------

_CUT = {StopReason.LENGTH: "max_output_tokens", StopReason.FILTERED: "content_filter"}


def responses_stream(answer: Answer, rng: Random) -> list[bytes]:
    framing = Framing(rng)
    events: list[dict[str, Any]] = []
    empty = {"id": answer.id, "object": "response", "model": answer.model, "status": "in_progress", "output": []}
    events.append({"type": "response.created", "response": empty})
    if rng.random() < 0.8:
        events.append({"type": "response.in_progress", "response": empty})
    items = _items(answer)
    for index, item in enumerate(items):
        events += _responses_item(index, item, rng)
    last = _response(answer, items)
    if rng.random() < 0.1:
        last["output"] = []  # llama.cpp-like servers tell each item once
    events.append({"type": f"response.{last['status']}", "response": last})
    out = [
        framing.frame(event | {"sequence_number": number}, event["type"]) for number, event in enumerate(events)
    ]  # fmt: skip
    return [*out, framing.done()] if rng.random() < 0.2 else out


def _items(answer: Answer) -> list[dict[str, Any]]:
    """The same for the stream and the whole. Texts in a row may be parts of one message."""
    rng = Random(repr(answer))
    out: list[dict[str, Any]] = []
    for at, block in enumerate(answer.blocks):
        match block:
            case Thinking(text=text):
                item: dict[str, Any] = {"id": f"rs_{at}", "type": "reasoning", "summary": []}
                if rng.random() < 0.5:
                    item["summary"] = [{"type": "summary_text", "text": text}]
                else:
                    item["content"] = [{"type": "reasoning_text", "text": text}]
                out.append(item | rng.choice(({}, {"encrypted_content": f"gAAAA{at}"})))
            case Text() | Refusal():
                if isinstance(block, Text):
                    part: dict[str, Any] = {"type": "output_text", "text": block.text, "annotations": []}
                else:
                    part = {"type": "refusal", "refusal": block.text}
                if out and out[-1]["type"] == "message" and rng.random() < 0.5:
                    out[-1]["content"].append(part)
                else:
                    out.append({"id": f"msg_{at}", "type": "message", "role": "assistant", "content": [part]})
            case ToolCall(id=id, name=name, arguments=text):
                out.append({"id": f"fc_{at}", "type": "function_call", "call_id": id, "name": name, "arguments": text})
    return [item | {"status": "completed"} for item in out]


def _responses_item(index: int, item: dict[str, Any], rng: Random) -> list[dict[str, Any]]:
    begun = {**item, "status": "in_progress"}
    begun |= {name: empty for name, empty in (("content", []), ("summary", []), ("arguments", "")) if name in item}
    begun.pop("encrypted_content", None)
    out: list[dict[str, Any]] = [{"type": "response.output_item.added", "output_index": index, "item": begun}]
    place = {"item_id": item["id"], "output_index": index}
    match item["type"]:
        case "function_call":
            out += _told("function_call_arguments", item["arguments"], place, "arguments", rng)
        case "message":
            for at, part in enumerate(item["content"]):
                there = {**place, "content_index": at}
                kind, field = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
                is_told = rng.random() < 0.8
                if is_told:
                    out.append({"type": "response.content_part.added", **there, "part": {**part, field: ""}})
                out += _told(kind, part[field], there, field, rng)
                if is_told:
                    out.append({"type": "response.content_part.done", **there, "part": part})
        case _:
            for at, part in enumerate(item["summary"]):
                there = {**place, "summary_index": at}
                out.append({"type": "response.reasoning_summary_part.added", **there, "part": {**part, "text": ""}})
                out += _told("reasoning_summary_text", part["text"], there, "text", rng)
                out.append({"type": "response.reasoning_summary_part.done", **there, "part": part})
            for at, part in enumerate(item.get("content", ())):
                out += _told("reasoning_text", part["text"], {**place, "content_index": at}, "text", rng)
    return [*out, {"type": "response.output_item.done", "output_index": index, "item": item}]


def _told(kind: str, text: str, place: dict[str, Any], field: str, rng: Random) -> list[dict[str, Any]]:
    """Deltas and their `.done`; some engines send no delta, some no `.done`."""
    habit = rng.choice(("both", "both", "both", "deltas", "done"))
    out: list[dict[str, Any]] = []
    if habit != "done":
        out += ({"type": f"response.{kind}.delta", **place, "delta": piece} for piece in pieces(text, rng))
    if habit != "deltas":
        out.append({"type": f"response.{kind}.done", **place, field: text})
    return out


def _response(answer: Answer, items: list[dict[str, Any]]) -> dict[str, Any]:
    reason = _CUT.get(answer.stop)
    tokens = answer.tokens
    usage: dict[str, Any] | None = None
    if tokens.input is not None and tokens.output is not None:
        usage = {"input_tokens": tokens.input, "output_tokens": tokens.output}
        usage["total_tokens"] = tokens.input + tokens.output
        cached = {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.written}
        usage["input_tokens_details"] = {name: count for name, count in cached.items() if count is not None}
        usage["output_tokens_details"] = {} if tokens.reasoning is None else {"reasoning_tokens": tokens.reasoning}
    return {
        "id": answer.id, "object": "response", "created_at": 17, "model": answer.model, "output": items, "error": None,
        "status": "incomplete" if reason else "completed", "usage": usage,
        "incomplete_details": {"reason": reason} if reason else None,
    }  # fmt: skip


def responses_whole(answer: Answer, rng: Random) -> dict[str, Any]:
    return _response(answer, _items(answer))


Streamed = Callable[[Answer, Random], list[bytes]]
Whole = Callable[[Answer, Random], dict[str, Any]]
RENDERERS: dict[Dialect, tuple[Streamed, Whole]] = {
    Dialect.CHAT: (chat_stream, chat_whole),
    Dialect.MESSAGES: (messages_stream, messages_whole),
    Dialect.RESPONSES: (responses_stream, responses_whole),
}
