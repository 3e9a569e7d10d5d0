"""A rich answer as OpenAI Responses: one output item per block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stoker_lab.testing.dialects.chat import OpenAI
from stoker_lab.testing.dialects.reply_facts import ReplyFacts, Stream, named
from stoker_lab.testing.dialects.responses import envelope
from stoker_lab.testing.dialects.rich_reply import RichReply, text_in
from stoker_lab.testing.script.answers import (
    ScriptedBlock,
    ScriptedCall,
    ScriptedRedacted,
    ScriptedRefusal,
    ScriptedThinking,
)
from stoker_lab.testing.script.ask import ScriptedRequest

Event = dict[str, Any]
_INCOMPLETE = {"length": "max_output_tokens", "context": "max_output_tokens", "filtered": "content_filter"}


@dataclass(slots=True)
class _Item:
    """An output item and its events, less `output_item.added` and `output_item.done`."""

    empty: dict[str, Any]
    full: dict[str, Any]
    opened: list[Event] = field(default_factory=list)
    deltas: list[Event] = field(default_factory=list)
    closed: list[Event] = field(default_factory=list)


class RichResponses(OpenAI):
    """Thinking with a signature is a summary with `encrypted_content`, as clouds send it; without one it is
    `reasoning_text`, as open weights do."""

    def __init__(self, rich: RichReply) -> None:
        self._reply = rich

    def whole(self, ask: ScriptedRequest, facts: ReplyFacts) -> dict[str, Any]:
        return self._response(facts, [one.full for one in self._items()])

    def stream(self, ask: ScriptedRequest, facts: ReplyFacts) -> Stream:
        items = self._items()
        started = envelope(facts, "in_progress", [])
        last = self._response(facts, [one.full for one in items])
        opening: list[Event] = [{"type": f"response.{one}", "response": started} for one in ("created", "in_progress")]
        middle = [event for at, item in enumerate(items) for event in self._events(at, item)]
        error: Event = {"type": "error", "code": "server_error", "message": "scripted failure", "param": None}
        end: Event = {"type": f"response.{last['status']}", "response": last}
        wire = [named(event | {"sequence_number": at}) for at, event in enumerate([*opening, *middle, end])]
        # whatever came before an error, numbers only rise
        failure = named(error | {"sequence_number": len(wire) - 1})
        return Stream(wire[: len(opening)], b"", wire[len(opening) : -1], wire[-1:], failure)

    def _events(self, at: int, item: _Item) -> list[Event]:
        added: Event = {"type": "response.output_item.added", "output_index": at, "item": item.empty}
        done: Event = {"type": "response.output_item.done", "output_index": at, "item": item.full}
        before = [] if "no_added" in self._reply.quirks else [added, *item.opened]
        deltas = [] if "only_done" in self._reply.quirks else item.deltas
        return [*before, *deltas, *item.closed, done]

    def _items(self) -> list[_Item]:
        """Only the last can be incomplete."""
        status = "incomplete" if self._reply.stop in _INCOMPLETE else "completed"
        last = len(self._reply.blocks) - 1
        return [
            self._item(at, block, status if at == last else "completed") for at, block in enumerate(self._reply.blocks)
        ]

    def _item(self, at: int, block: ScriptedBlock, status: str) -> _Item:
        match block:
            case ScriptedCall():
                return self._call(at, block, status)
            case ScriptedRedacted():
                reasoning = {"type": "reasoning", "id": self._reply.id_of("rs", at), "summary": []}
                return _Item(reasoning, reasoning | {"encrypted_content": block.data})
            case ScriptedThinking() if block.signature is not None:
                return self._summary(at, block)
            case ScriptedThinking():
                return self._parted(at, block, "rs", "reasoning_text", status)
            case ScriptedRefusal():
                return self._parted(at, block, "msg", "refusal", status)
        return self._parted(at, block, "msg", "output_text", status)

    def _parted(self, at: int, block: ScriptedBlock, prefix: str, kind: str, status: str) -> _Item:
        name, text = self._reply.id_of(prefix, at), text_in(block)
        key = "refusal" if kind == "refusal" else "text"
        extra: dict[str, Any] = {"annotations": [], "logprobs": []} if kind == "output_text" else {}
        logprobs: dict[str, Any] = {"logprobs": []} if kind == "output_text" else {}
        place = {"item_id": name, "output_index": at, "content_index": 0}
        head: dict[str, Any] = {"type": "message", "id": name, "role": "assistant"}
        if prefix == "rs":
            head = {"type": "reasoning", "id": name, "summary": []}
        part = {"type": kind, key: text, **extra}
        return _Item(
            empty=head | {"status": "in_progress", "content": []},
            full=head | {"status": status, "content": [part]},
            opened=[{"type": "response.content_part.added", **place, "part": part | {key: ""}}],
            deltas=[
                {"type": f"response.{kind}.delta", **place, "delta": piece, **logprobs}
                for piece in self._reply.pieces(text)
            ],
            closed=[
                {"type": f"response.{kind}.done", **place, key: text, **logprobs},
                {"type": "response.content_part.done", **place, "part": part},
            ],
        )

    def _summary(self, at: int, block: ScriptedThinking) -> _Item:
        name = self._reply.id_of("rs", at)
        place = {"item_id": name, "output_index": at, "summary_index": 0}
        head: dict[str, Any] = {"type": "reasoning", "id": name, "summary": []}
        part = {"type": "summary_text", "text": block.text}
        prefix = "response.reasoning_summary"
        return _Item(
            empty=head,
            full=head | {"summary": [part], "encrypted_content": block.signature},
            opened=[{"type": f"{prefix}_part.added", **place, "part": part | {"text": ""}}],
            deltas=[
                {"type": f"{prefix}_text.delta", **place, "delta": piece} for piece in self._reply.pieces(block.text)
            ],
            closed=[
                {"type": f"{prefix}_text.done", **place, "text": block.text},
                {"type": f"{prefix}_part.done", **place, "part": part},
            ],
        )

    def _call(self, at: int, call: ScriptedCall, status: str) -> _Item:
        name, text = f"fc_{self._reply.facts.number}_{at}", text_in(call)
        place = {"item_id": name, "output_index": at}
        head = {"type": "function_call", "id": name, "call_id": self._reply.id_of("call", at), "name": call.name}
        kind = "response.function_call_arguments"
        return _Item(
            empty=head | {"status": "in_progress", "arguments": ""},
            full=head | {"status": status, "arguments": text},
            deltas=[{"type": f"{kind}.delta", **place, "delta": piece} for piece in self._reply.pieces(text)],
            closed=[{"type": f"{kind}.done", **place, "name": call.name, "arguments": text}],
        )

    def _response(self, facts: ReplyFacts, output: list[Any]) -> dict[str, Any]:
        reason = _INCOMPLETE.get(self._reply.stop)
        found = envelope(facts, "incomplete" if reason else "completed", output)
        found["incomplete_details"] = {"reason": reason} if reason else None
        if found["usage"] is not None:
            found["usage"]["input_tokens_details"]["cache_write_tokens"] = self._reply.written
            found["usage"]["output_tokens_details"]["reasoning_tokens"] = self._reply.reasoning
        return found
