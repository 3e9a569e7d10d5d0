"""A rich answer as Anthropic Messages."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from stoker_lab.testing.dialects.messages import Anthropic, envelope
from stoker_lab.testing.dialects.reply_facts import ReplyFacts, Stream, named
from stoker_lab.testing.dialects.rich_reply import RichReply, is_json, text_in
from stoker_lab.testing.script.answers import (
    ScriptedBlock,
    ScriptedCall,
    ScriptedRedacted,
    ScriptedRefusal,
    ScriptedThinking,
)
from stoker_lab.testing.script.ask import ScriptedRequest

SIGNATURE = "scripted-sig-"
"""What every signature that this server mints begins with."""

_STOP = {
    "end": "end_turn",
    "length": "max_tokens",
    "calls": "tool_use",
    "sequence": "stop_sequence",
    "filtered": "refusal",
    "context": "model_context_window_exceeded",
}


def minted(thinking: str) -> str:
    """The signature of a thinking block whose script gives none: it follows from the text."""
    return SIGNATURE + hashlib.sha256(thinking.encode()).hexdigest()[:16]


class RichMessages(Anthropic):
    """A refusal is a text whose stop reason is `refusal`, unless the script names another end."""

    def __init__(self, rich: RichReply) -> None:
        self._reply = rich

    def whole(self, ask: ScriptedRequest, facts: ReplyFacts) -> dict[str, Any]:
        content = [self._content(at, block) for at, block in enumerate(self._reply.blocks)]
        message = envelope(facts, content, None, facts.completion) | self._end()
        return message | {"usage": self._usage(facts, facts.completion)}

    def stream(self, ask: ScriptedRequest, facts: ReplyFacts) -> Stream:
        early = min(1, facts.completion)
        message = envelope(facts, [], None, early) | {"stop_details": None, "usage": self._usage(facts, early)}
        blocks = [event for at, block in enumerate(self._reply.blocks) for event in self._events(at, block)]
        opening = [{"type": "message_start", "message": message}, *blocks[:1]]
        if "no_ping" not in self._reply.quirks:
            opening.append({"type": "ping"})
        closing = [self._delta(self._end(), facts, facts.completion), {"type": "message_stop"}]
        if "two_deltas" in self._reply.quirks:
            nothing = dict.fromkeys(self._end())
            closing.insert(0, self._delta(nothing, facts, facts.completion // 2))
        return Stream(
            [named(event) for event in opening],
            b"",
            [named(event) for event in blocks[1:]],
            [named(event) for event in closing],
            named(self.refuse(500, "scripted failure")),
        )

    def _content(self, at: int, block: ScriptedBlock) -> dict[str, Any]:
        match block:
            case ScriptedThinking():
                return {"type": "thinking", "thinking": block.text, "signature": _signature(block)}
            case ScriptedRedacted():
                return {"type": "redacted_thinking", "data": block.data}
            case ScriptedCall():
                text = text_in(block) or "{}"
                # as written, where it is JSON: numbers and repeated keys stay what they are
                given = orjson.Fragment(text) if is_json(text) else text
                return {"type": "tool_use", "id": self._reply.id_of("toolu", at), "name": block.name, "input": given}
        return {"type": "text", "text": block.text}

    def _events(self, at: int, block: ScriptedBlock) -> list[dict[str, Any]]:
        content, key, kind = self._content(at, block), "", ""
        match block:
            case ScriptedThinking():
                content |= {"thinking": "", "signature": ""}
                key, kind = "thinking", "thinking_delta"
            case ScriptedCall():
                content |= {"input": {}}
                key, kind = "partial_json", "input_json_delta"
            case ScriptedRedacted():
                pass
            case _:
                content |= {"text": ""}
                key, kind = "text", "text_delta"
        deltas = [{"type": kind, key: piece} for piece in self._reply.pieces(text_in(block))] if key else []
        if isinstance(block, ScriptedThinking):
            deltas.append({"type": "signature_delta", "signature": _signature(block)})
        return [
            {"type": "content_block_start", "index": at, "content_block": content},
            *({"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": at},
        ]

    def _delta(self, end: dict[str, Any], facts: ReplyFacts, output: int) -> dict[str, Any]:
        return {"type": "message_delta", "delta": end, "usage": self._usage(facts, output)}

    def _end(self) -> dict[str, Any]:
        rich = self._reply
        reason = _STOP[rich.stop]
        if rich.stop == "end" and any(isinstance(one, ScriptedRefusal) for one in rich.blocks):
            reason = "refusal"
        details = {"type": "refusal", "category": None, "explanation": None} if reason == "refusal" else None
        matched = rich.sequence if rich.stop == "sequence" else None
        return {"stop_reason": reason, "stop_sequence": matched, "stop_details": details}

    def _usage(self, facts: ReplyFacts, output: int) -> dict[str, Any]:
        """`input_tokens` are those neither cached nor written; all zero where no usage is reported."""
        usage = {
            "input_tokens": max(0, facts.prompt - facts.cached - self._reply.written),
            "cache_creation_input_tokens": self._reply.written,
            "cache_read_input_tokens": facts.cached,
            "output_tokens": output,
        }
        if not facts.usage:
            return dict.fromkeys(usage, 0)
        return usage | {"output_tokens_details": {"thinking_tokens": min(self._reply.reasoning, output)}}


def _signature(block: ScriptedThinking) -> str:
    return minted(block.text) if block.signature is None else block.signature
