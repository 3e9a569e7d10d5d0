"""OpenAI Responses. `sequence_number` rises by one from 0 over all events of a reply."""

from __future__ import annotations

from typing import Any

import orjson

from stoker.testing.dialects.chat import OpenAI
from stoker.testing.dialects.terms import Stream, Terms, named
from stoker.testing.script.ask import ScriptedRequest

_OPENING = 4


class Responses(OpenAI):
    """`/v1/responses`."""

    def whole(self, ask: ScriptedRequest, terms: Terms) -> dict[str, Any]:
        return envelope(terms, _end(terms), [_item(terms, _end(terms), terms.whole())])

    def stream(self, ask: ScriptedRequest, terms: Terms) -> Stream:
        text = "" if terms.text is None else terms.whole()  # an endless text is not repeated in the closing events
        place = {"item_id": f"msg_{terms.number}", "output_index": 0, "content_index": 0}
        done = _item(terms, _end(terms), text)
        started = envelope(terms, "in_progress", [])
        opening: list[dict[str, Any]] = [
            {"type": "response.created", "response": started},
            {"type": "response.in_progress", "response": started},
            {"type": "response.output_item.added", "output_index": 0, "item": _item(terms, "in_progress", None)},
            {"type": "response.content_part.added", **place, "part": _part("")},
        ]
        closing: list[dict[str, Any]] = [
            {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
            {"type": "response.content_part.done", **place, "part": _part(text)},
            {"type": "response.output_item.done", "output_index": 0, "item": done},
            {
                "type": f"response.{_end(terms)}",
                "response": envelope(terms, _end(terms), [done]),
            },
        ]
        # an error takes the number of the last closing event: whatever came before it, numbers only rise
        last = _OPENING + terms.tokens + len(closing) - 1
        error = {"type": "error", "code": "server_error", "message": "scripted failure", "param": None}
        kind = "response.output_text.delta"
        head = b"event: %b\ndata: %b," % (kind.encode(), orjson.dumps({"type": kind, **place})[:-1])
        return Stream(
            [named(event | {"sequence_number": at}) for at, event in enumerate(opening)],
            head,
            terms.pieces(_piece),
            [named(event | {"sequence_number": _OPENING + terms.tokens + at}) for at, event in enumerate(closing)],
            named(error | {"sequence_number": last}),
        )


def _piece(at: int, word: str) -> bytes:
    return b"%b\n\n" % orjson.dumps({"delta": word, "logprobs": [], "sequence_number": _OPENING + at}).removeprefix(
        b"{"
    )


def _end(terms: Terms) -> str:
    return "incomplete" if terms.is_cut else "completed"


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item(terms: Terms, status: str, text: str | None) -> dict[str, Any]:
    content = [] if text is None else [_part(text)]
    return {"type": "message", "id": f"msg_{terms.number}", "status": status, "role": "assistant", "content": content}


def envelope(terms: Terms, status: str, output: list[Any]) -> dict[str, Any]:
    """The response object."""
    usage = {
        "input_tokens": terms.prompt,
        "input_tokens_details": {"cached_tokens": terms.cached, "cache_write_tokens": 0},
        "output_tokens": terms.completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": terms.prompt + terms.completion,
    }
    return {
        "id": f"resp_{terms.number}",
        "object": "response",
        "created_at": terms.created,
        "status": status,
        "model": terms.model,
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
        "usage": usage if terms.usage and status != "in_progress" else None,
    }
