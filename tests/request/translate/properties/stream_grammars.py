"""What a stream has to be in each client's dialect, whatever came from upstream: strict readers of our own bytes.

Each gives what was told: the arguments of every call, and how the stream ended (`end`, `error`, or nothing yet).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.request.translate.properties.sdk_folds import sse

from stoker.domain.dialect import Dialect

_DELTAS = {
    "text": {"text_delta": "text"}, "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
    "tool_use": {"input_json_delta": "partial_json"}, "redacted_thinking": {},
}  # fmt: skip


class Told(NamedTuple):
    calls: list[str]
    """Each call's arguments, its pieces joined."""
    end: str
    """`end`, `error`, or empty: it goes on."""
    said: bool
    """Anything at all came."""


def messages(data: bytes) -> Told:
    """message_start, blocks one by one, message_delta, message_stop; or an error, anywhere, and nothing behind it."""
    state, open_at, open_kind, next_index = "new", -1, "", 0
    calls: list[str] = []
    for name, body in sse(data):
        event = json.loads(body)
        kind = event["type"]
        assert name == kind, "the event's name is its type"
        assert state not in ("stopped", "failed"), f"{kind} after the end"
        if kind == "error":
            assert set(event["error"]) >= {"type", "message"}
            state = "failed"
        elif kind == "message_start":
            assert state == "new", "one message_start"
            message = event["message"]
            assert (message["content"], message["stop_reason"], message["role"]) == ([], None, "assistant")
            state = "begun"
        elif kind == "content_block_start":
            assert (state, open_at) == ("begun", -1), "one block at a time, before any message_delta"
            assert event["index"] == next_index, "indexes are contiguous"
            open_at, open_kind, next_index = next_index, event["content_block"]["type"], next_index + 1
            if open_kind == "tool_use":
                assert event["content_block"]["input"] == {}
                calls.append("")
        elif kind == "content_block_delta":
            assert event["index"] == open_at, "a delta belongs to the open block"
            delta = event["delta"]
            field = _DELTAS[open_kind].get(delta["type"])
            assert field is not None, f"{delta['type']} in a block of {open_kind}"
            assert delta[field], "no empty delta"
            if open_kind == "tool_use":
                calls[-1] += delta[field]
        elif kind == "content_block_stop":
            assert event["index"] == open_at, "the open block stops"
            open_at = -1
        elif kind == "message_delta":
            assert state in ("begun", "ending"), "message_delta after message_start"
            assert open_at == -1, "message_delta after the last block"
            assert all(type(event["usage"][part]) is int for part in ("input_tokens", "output_tokens"))
            state = "ending"
        elif kind == "message_stop":
            assert state == "ending", "message_stop after message_delta"
            state = "stopped"
        else:
            raise AssertionError(f"no event of this dialect: {kind}")
    return Told(calls, {"stopped": "end", "failed": "error"}.get(state, ""), state != "new")


def chat(data: bytes) -> Told:
    """Chunks of one head; one finish; usage alone behind it; [DONE] last. An error is the last that comes."""
    head: dict[str, Any] | None = None
    state = "new"
    calls: list[str] = []
    for name, body in sse(data):
        assert name == "", "chat has no names of events"
        assert state not in ("done", "failed"), "nothing behind the end"
        if body == b"[DONE]":
            assert state in ("finished", "counted"), "[DONE] after the finish"
            state = "done"
            continue
        chunk = json.loads(body)
        if "error" in chunk:
            assert chunk["error"]["message"]
            state = "failed"
            continue
        assert chunk["object"] == "chat.completion.chunk"
        found = {field: chunk[field] for field in ("id", "created", "model")}
        assert head in (None, found), "every chunk has the same head"
        head = found
        if not chunk["choices"]:
            assert state == "finished", "usage comes once, behind the finish"
            assert chunk["usage"]["total_tokens"] >= 0
            state = "counted"
            continue
        assert chunk.get("usage") is None
        [choice] = chunk["choices"]
        assert choice["index"] == 0
        delta = choice["delta"]
        assert state in ("new", "begun"), "one finish, and no delta behind it"
        assert (delta.get("role") == "assistant") == (state == "new"), "the role comes first, and once"
        state = "begun"
        for piece in delta.get("tool_calls", ()):
            _chat_call(piece, calls)
        if choice["finish_reason"] is not None:
            assert choice["finish_reason"] in ("stop", "length", "tool_calls", "content_filter")
            assert not delta
            state = "finished"
    return Told(calls, {"done": "end", "failed": "error"}.get(state, ""), state != "new")


def _chat_call(piece: dict[str, Any], calls: list[str]) -> None:
    inner = piece.get("function")
    text = inner["arguments"] if inner is not None else piece["custom"]["input"]
    assert piece["index"] in (len(calls) - 1, len(calls)), "calls come one after the other"
    if piece["index"] == len(calls):
        assert "id" in piece, "the first piece has its id"
        assert piece["type"] in ("function", "custom")
        assert "name" in (inner if inner is not None else piece["custom"])
        calls.append(text)
    else:
        assert "id" not in piece, "only the first piece has an id"
        assert text, "no empty piece"
        calls[-1] += text


def responses(data: bytes) -> Told:
    """The order of section 2 of dialects.md; rising numbers; then one terminal event, or error and failure."""
    state, at, item, part = "new", 0, None, None
    items: list[dict[str, Any]] = []
    text = ""
    calls: list[str] = []
    for number, (name, body) in enumerate(sse(data)):
        event = json.loads(body)
        kind = event["type"]
        assert name == kind, "the event's name is its type"
        assert event["sequence_number"] == number, "numbers rise by one from 0"
        assert state not in ("over", "failed"), f"{kind} after the end"
        if kind == "error":
            assert set(event) - {"source"} == {"type", "code", "message", "param", "sequence_number", "error"}
            state = "failing"
            continue
        _, _, rest = kind.partition(".")
        assert (state == "failing") == (rest == "failed"), "a failed response comes right behind the error"
        if rest == "failed":
            assert event["response"]["status"] == "failed"
            assert set(event["response"]["error"]) >= {"code", "message"}
            state = "failed"
            continue
        if rest in ("created", "in_progress"):
            assert state == {"created": "new", "in_progress": "created"}[rest]
            assert (event["response"]["status"], event["response"]["output"]) == ("in_progress", [])
            state = "created" if rest == "created" else "begun"
        elif rest == "output_item.added":
            assert (state, item) == ("begun", None), "one item at a time"
            assert event["output_index"] == at, "items are numbered from 0"
            item, text = event["item"], ""
            assert item["status"] == "in_progress"
        elif rest == "output_item.done":
            assert item is not None
            assert part is None, "parts are done before their item"
            _same(item, event["item"], text)
            assert event["output_index"] == at
            if "call" in item["type"]:
                calls.append(text)
            items.append(event["item"])
            item, at = None, at + 1
        elif rest in ("completed", "incomplete"):
            assert (state, item) == ("begun", None), "every item is done before the end"
            response = event["response"]
            assert response["status"] == rest
            assert response["output"] == items, "the response holds the items that were told"
            assert (response["incomplete_details"] is not None) == (rest == "incomplete")
            state = "over"
        else:
            assert item is not None, f"{kind} outside of an item"
            assert (event["item_id"], event["output_index"]) == (item["id"], at), "pieces belong to the open item"
            part, text = _piece(rest, event, part, text)
    assert state != "failing"
    return Told(calls, {"over": "end", "failed": "error"}.get(state, ""), state != "new")


def _piece(rest: str, event: dict[str, Any], part: str | None, text: str) -> tuple[str | None, str]:
    kind, _, stage = rest.rpartition(".")
    if kind == "content_part":
        assert (stage == "added") == (part is None), "a part is added, then done"
        return (event["part"]["type"] if stage == "added" else None), text
    fields = {
        "output_text": ("output_text", "text"), "refusal": ("refusal", "refusal"),
        "reasoning_text": ("reasoning_text", "text"), "function_call_arguments": (None, "arguments"),
        "custom_tool_call_input": (None, "input"),
    }  # fmt: skip
    wanted, field = fields[kind]
    assert part == wanted, f"{kind} in a part of {part}"
    if kind == "output_text":
        assert event["logprobs"] == []
    if stage == "delta":
        assert event["delta"], "no empty delta"
        return part, text + event["delta"]
    assert event[field] == text, ".done tells what the deltas told"
    return part, text


def _same(begun: dict[str, Any], done: dict[str, Any], text: str) -> None:
    for name in ("id", "type", "call_id", "name"):
        assert begun.get(name) == done.get(name), f"an item keeps its {name}"
    assert done["status"] in ("completed", "incomplete")
    if "call" in done["type"]:
        assert done.get("arguments", done.get("input")) == text


def completions(data: bytes) -> Told:
    state = "new"
    for name, body in sse(data):
        assert name == ""
        assert state not in ("done", "failed"), "nothing behind the end"
        if body == b"[DONE]":
            assert state in ("finished", "counted")
            state = "done"
            continue
        chunk = json.loads(body)
        if "error" in chunk:
            state = "failed"
        elif not chunk["choices"]:
            assert state == "finished"
            state = "counted"
        else:
            assert state in ("new", "begun"), "one finish"
            [choice] = chunk["choices"]
            assert choice["index"] == 0
            state = "begun" if choice["finish_reason"] is None else "finished"
    return Told([], {"done": "end", "failed": "error"}.get(state, ""), state != "new")


def ollama(data: bytes) -> Told:
    """Lines of JSON; `done` once, and last; calls whole."""
    end = ""
    calls: list[str] = []
    assert data.endswith(b"\n") or not data, "the last line is whole"
    for line in data.split(b"\n")[:-1]:
        assert not end, "nothing behind the end"
        told = json.loads(line)
        if "error" in told:
            end = "error"
            continue
        assert told["model"]
        for call in told.get("message", {}).get("tool_calls", ()):
            assert call["function"]["index"] == len(calls)
            calls.append(json.dumps(call["function"]["arguments"]))
        if told["done"]:
            assert told["done_reason"] in ("stop", "length")
            end = "end"
    return Told(calls, end, bool(data))


GRAMMARS: dict[Dialect, Callable[[bytes], Told]] = {
    Dialect.CHAT: chat, Dialect.MESSAGES: messages, Dialect.RESPONSES: responses, Dialect.COMPLETIONS: completions,
    Dialect.OLLAMA_CHAT: ollama, Dialect.OLLAMA_GENERATE: ollama,
}  # fmt: skip
