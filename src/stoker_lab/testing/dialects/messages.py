"""Anthropic Messages and its token count."""

from __future__ import annotations

from typing import Any

from stoker_lab.testing.dialects.reply_facts import ReplyFacts, Stream, named
from stoker_lab.testing.script.ask import ScriptedRequest

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Anthropic:
    """What both endpoints share: the form of an error."""

    def refuse(self, status: int, message: str) -> dict[str, Any]:
        kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": None}


class Messages(Anthropic):
    """`/v1/messages`. Its `input_tokens` are those that were not cached."""

    def whole(self, ask: ScriptedRequest, facts: ReplyFacts) -> dict[str, Any]:
        content = [{"type": "text", "text": facts.whole()}] if facts.tokens else []
        return envelope(facts, content, _stop(facts), facts.completion)

    def stream(self, ask: ScriptedRequest, facts: ReplyFacts) -> Stream:
        start = {"type": "message_start", "message": envelope(facts, [], None, min(1, facts.completion))}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        delta: dict[str, Any] = {
            "type": "message_delta",
            "delta": {"stop_reason": _stop(facts), "stop_sequence": None},
            "usage": {"output_tokens": facts.completion if facts.usage else 0},
        }
        closing = [{"type": "content_block_stop", "index": 0}, delta, {"type": "message_stop"}]
        return Stream(
            [named(start), named(block), named({"type": "ping"})],
            b"",
            facts.pieces(_piece),
            [named(event) for event in closing],
            named(self.refuse(500, "scripted failure")),
        )


class Count(Anthropic):
    """`/v1/messages/count_tokens`."""

    def whole(self, ask: ScriptedRequest, facts: ReplyFacts) -> dict[str, Any]:
        return {"input_tokens": facts.prompt}


def envelope(facts: ReplyFacts, content: list[Any], stop: str | None, output: int) -> dict[str, Any]:
    """The message object."""
    usage = {
        "input_tokens": facts.prompt - facts.cached,
        "output_tokens": output,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": facts.cached,
    }
    return {
        "id": f"msg_{facts.number}",
        "type": "message",
        "role": "assistant",
        "model": facts.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        # the dialect's own types want the field: a server that reports no usage reports zeros
        "usage": usage if facts.usage else dict.fromkeys(usage, 0),
    }


def _piece(at: int, word: str) -> bytes:
    return named({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}})


def _stop(facts: ReplyFacts) -> str:
    return "max_tokens" if facts.is_cut else "end_turn"
