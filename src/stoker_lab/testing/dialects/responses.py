"""OpenAI Responses. `sequence_number` rises by one from 0 over all events of a reply."""

from __future__ import annotations

from typing import Any

import orjson

from stoker_lab.testing.dialects.chat import OpenAI
from stoker_lab.testing.dialects.reply_facts import ReplyFacts, Stream, named
from stoker_lab.testing.script.ask import ScriptedRequest

_OPENING = 4


class Responses(OpenAI):
    """`/v1/responses`."""

    def whole(self, ask: ScriptedRequest, facts: ReplyFacts) -> dict[str, Any]:
        return envelope(facts, _end(facts), [_item(facts, _end(facts), facts.whole())])

    def stream(self, ask: ScriptedRequest, facts: ReplyFacts) -> Stream:
        text = "" if facts.text is None else facts.whole()  # an endless text is not repeated in the closing events
        place = {"item_id": f"msg_{facts.number}", "output_index": 0, "content_index": 0}
        done = _item(facts, _end(facts), text)
        started = envelope(facts, "in_progress", [])
        opening: list[dict[str, Any]] = [
            {"type": "response.created", "response": started},
            {"type": "response.in_progress", "response": started},
            {"type": "response.output_item.added", "output_index": 0, "item": _item(facts, "in_progress", None)},
            {"type": "response.content_part.added", **place, "part": _part("")},
        ]
        closing: list[dict[str, Any]] = [
            {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
            {"type": "response.content_part.done", **place, "part": _part(text)},
            {"type": "response.output_item.done", "output_index": 0, "item": done},
            {
                "type": f"response.{_end(facts)}",
                "response": envelope(facts, _end(facts), [done]),
            },
        ]
        # an error takes the number of the last closing event: whatever came before it, numbers only rise
        last = _OPENING + facts.tokens + len(closing) - 1
        error = {"type": "error", "code": "server_error", "message": "scripted failure", "param": None}
        kind = "response.output_text.delta"
        head = b"event: %b\ndata: %b," % (kind.encode(), orjson.dumps({"type": kind, **place})[:-1])
        return Stream(
            [named(event | {"sequence_number": at}) for at, event in enumerate(opening)],
            head,
            facts.pieces(_piece),
            [named(event | {"sequence_number": _OPENING + facts.tokens + at}) for at, event in enumerate(closing)],
            named(error | {"sequence_number": last}),
        )


def _piece(at: int, word: str) -> bytes:
    return b"%b\n\n" % orjson.dumps({"delta": word, "logprobs": [], "sequence_number": _OPENING + at}).removeprefix(
        b"{"
    )


def _end(facts: ReplyFacts) -> str:
    return "incomplete" if facts.is_cut else "completed"


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item(facts: ReplyFacts, status: str, text: str | None) -> dict[str, Any]:
    content = [] if text is None else [_part(text)]
    return {"type": "message", "id": f"msg_{facts.number}", "status": status, "role": "assistant", "content": content}


def envelope(facts: ReplyFacts, status: str, output: list[Any]) -> dict[str, Any]:
    """The response object."""
    usage = {
        "input_tokens": facts.prompt,
        "input_tokens_details": {"cached_tokens": facts.cached, "cache_write_tokens": 0},
        "output_tokens": facts.completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": facts.prompt + facts.completion,
    }
    return {
        "id": f"resp_{facts.number}",
        "object": "response",
        "created_at": facts.created,
        "status": status,
        "model": facts.model,
        "output": output,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage if facts.usage and status != "in_progress" else None,
    }
