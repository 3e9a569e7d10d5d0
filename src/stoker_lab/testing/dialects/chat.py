"""Chat Completions and the older Completions."""

from __future__ import annotations

from typing import Any

import orjson

from stoker_lab.testing.dialects.reply_facts import ReplyFacts, Stream, data
from stoker_lab.testing.script.ask import ScriptedRequest

FINGERPRINT = "scripted"
_TYPES = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class OpenAI:
    """What the OpenAI dialects share: the form of an error."""

    def refuse(self, status: int, message: str) -> dict[str, Any]:
        kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
        return {"error": {"message": message, "type": kind, "param": None, "code": status}}


class Chat(OpenAI):
    """`/v1/chat/completions`."""

    def whole(self, ask: ScriptedRequest, facts: ReplyFacts) -> dict[str, Any]:
        message = {"role": "assistant", "content": facts.whole(), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(facts)}
        return frame("chatcmpl", "chat.completion", facts) | {"choices": [choice]} | _usage(facts)

    def stream(self, ask: ScriptedRequest, facts: ReplyFacts) -> Stream:
        start = frame("chatcmpl", "chat.completion.chunk", facts)
        usual = start | ({"usage": None} if ask.include_usage else {})
        opening = data(usual | {"choices": [chunk({"role": "assistant", "content": ""})]})
        finish = data(usual | {"choices": [chunk({}, _finish(facts))]})
        error = data(self.refuse(500, "scripted failure"))
        closing = [finish, *_last_usage(ask, start, facts), b"data: [DONE]\n\n"]
        return Stream([opening], _head(usual), facts.pieces(_chat_piece), closing, error)


class Completions(OpenAI):
    """`/v1/completions`."""

    def whole(self, ask: ScriptedRequest, facts: ReplyFacts) -> dict[str, Any]:
        start = frame("cmpl", "text_completion", facts)
        return start | {"choices": [_text(facts.whole(), _finish(facts))]} | _usage(facts)

    def stream(self, ask: ScriptedRequest, facts: ReplyFacts) -> Stream:
        start = frame("cmpl", "text_completion", facts)
        usual = start | ({"usage": None} if ask.include_usage else {})
        finish = data(usual | {"choices": [_text("", _finish(facts))]})
        error = data(self.refuse(500, "scripted failure"))
        closing = [finish, *_last_usage(ask, start, facts), b"data: [DONE]\n\n"]
        return Stream([], _head(usual), facts.pieces(_text_piece), closing, error)


def frame(prefix: str, kind: str, facts: ReplyFacts) -> dict[str, Any]:
    """What all chunks of a reply have in common."""
    return {
        "id": f"{prefix}-{facts.number}",
        "object": kind,
        "created": facts.created,
        "model": facts.model,
        "system_fingerprint": FINGERPRINT,
    }


def _head(start: dict[str, Any]) -> bytes:
    """The part of each chunk that only this reply has: its opening fields, up to `choices`."""
    return b"data: %b," % orjson.dumps(start)[:-1]


def _chat_piece(at: int, word: str) -> bytes:
    return b'"choices":%b}\n\n' % orjson.dumps([chunk({"content": word})])


def _text_piece(at: int, word: str) -> bytes:
    return b'"choices":%b}\n\n' % orjson.dumps([_text(word)])


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    """The one choice of a chunk."""
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _text(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}


def _finish(facts: ReplyFacts) -> str:
    return "length" if facts.is_cut else "stop"


def _last_usage(ask: ScriptedRequest, start: dict[str, Any], facts: ReplyFacts) -> list[bytes]:
    return [data(start | {"choices": []} | _usage(facts))] if ask.include_usage and facts.usage else []


def _usage(facts: ReplyFacts) -> dict[str, Any]:
    if not facts.usage:
        return {}
    usage = {
        "prompt_tokens": facts.prompt,
        "completion_tokens": facts.completion,
        "total_tokens": facts.prompt + facts.completion,
        "prompt_tokens_details": {"cached_tokens": facts.cached},
    }
    return {"usage": usage}
