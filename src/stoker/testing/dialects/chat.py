"""Chat Completions and the older Completions."""

from __future__ import annotations

from typing import Any

import orjson

from stoker.testing.dialects.terms import Stream, Terms, data
from stoker.testing.script.ask import ScriptedRequest

FINGERPRINT = "scripted"
_TYPES = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class OpenAI:
    """What the OpenAI dialects share: the form of an error."""

    def refuse(self, status: int, message: str) -> dict[str, Any]:
        kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
        return {"error": {"message": message, "type": kind, "param": None, "code": status}}


class Chat(OpenAI):
    """`/v1/chat/completions`."""

    def whole(self, ask: ScriptedRequest, terms: Terms) -> dict[str, Any]:
        message = {"role": "assistant", "content": terms.whole(), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(terms)}
        return frame("chatcmpl", "chat.completion", terms) | {"choices": [choice]} | _usage(terms)

    def stream(self, ask: ScriptedRequest, terms: Terms) -> Stream:
        start = frame("chatcmpl", "chat.completion.chunk", terms)
        usual = start | ({"usage": None} if ask.include_usage else {})
        opening = data(usual | {"choices": [chunk({"role": "assistant", "content": ""})]})
        finish = data(usual | {"choices": [chunk({}, _finish(terms))]})
        error = data(self.refuse(500, "scripted failure"))
        closing = [finish, *_last_usage(ask, start, terms), b"data: [DONE]\n\n"]
        return Stream([opening], _head(usual), terms.pieces(_chat_piece), closing, error)


class Completions(OpenAI):
    """`/v1/completions`."""

    def whole(self, ask: ScriptedRequest, terms: Terms) -> dict[str, Any]:
        start = frame("cmpl", "text_completion", terms)
        return start | {"choices": [_text(terms.whole(), _finish(terms))]} | _usage(terms)

    def stream(self, ask: ScriptedRequest, terms: Terms) -> Stream:
        start = frame("cmpl", "text_completion", terms)
        usual = start | ({"usage": None} if ask.include_usage else {})
        finish = data(usual | {"choices": [_text("", _finish(terms))]})
        error = data(self.refuse(500, "scripted failure"))
        closing = [finish, *_last_usage(ask, start, terms), b"data: [DONE]\n\n"]
        return Stream([], _head(usual), terms.pieces(_text_piece), closing, error)


def frame(prefix: str, kind: str, terms: Terms) -> dict[str, Any]:
    """What all chunks of a reply have in common."""
    return {
        "id": f"{prefix}-{terms.number}",
        "object": kind,
        "created": terms.created,
        "model": terms.model,
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


def _finish(terms: Terms) -> str:
    return "length" if terms.is_cut else "stop"


def _last_usage(ask: ScriptedRequest, start: dict[str, Any], terms: Terms) -> list[bytes]:
    return [data(start | {"choices": []} | _usage(terms))] if ask.include_usage and terms.usage else []


def _usage(terms: Terms) -> dict[str, Any]:
    if not terms.usage:
        return {}
    usage = {
        "prompt_tokens": terms.prompt,
        "completion_tokens": terms.completion,
        "total_tokens": terms.prompt + terms.completion,
        "prompt_tokens_details": {"cached_tokens": terms.cached},
    }
    return {"usage": usage}
