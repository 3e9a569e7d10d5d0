"""A rich answer as Chat Completions."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, zip_longest
from typing import Any

import orjson

from stoker_lab.testing.dialects.chat import OpenAI, chunk, frame
from stoker_lab.testing.dialects.reply_facts import ReplyFacts, Stream, data
from stoker_lab.testing.dialects.rich_reply import RichReply, is_json, text_in
from stoker_lab.testing.script.answers import (
    ScriptedBlock,
    ScriptedCall,
    ScriptedRefusal,
    ScriptedText,
    ScriptedThinking,
)
from stoker_lab.testing.script.ask import ScriptedRequest

_FINISH = {
    "end": "stop",
    "length": "length",
    "calls": "tool_calls",
    "sequence": "stop",
    "filtered": "content_filter",
    "context": "length",
}


class RichChat(OpenAI):
    """This dialect has no signatures or redacted thinking: they are left out."""

    def __init__(self, rich: RichReply) -> None:
        self._reply = rich

    def whole(self, ask: ScriptedRequest, facts: ReplyFacts) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        for block in self._reply.blocks:
            if not isinstance(block, ScriptedCall) and (field := self._field(block)):
                message[field] = (message.get(field) or "") + text_in(block)
        if calls := [one for _, one in self._calls()]:
            message["tool_calls"] = [self._whole_call(*one) for one in calls]
        texts = [
            piece for block in self._reply.blocks if self._field(block) for piece in self._reply.pieces(text_in(block))
        ]
        choice = {"index": 0, "message": message, "logprobs": _logprobs(ask, texts)} | self._finish()
        return frame("chatcmpl", "chat.completion", facts) | {"choices": [choice]} | self._usage(facts)

    def stream(self, ask: ScriptedRequest, facts: ReplyFacts) -> Stream:
        quirks = self._reply.quirks
        start = frame("chatcmpl", "chat.completion.chunk", facts)
        usual = start | ({"usage": None} if ask.include_usage else {})
        opening: dict[str, Any] = {"role": "assistant", "content": ""}
        deltas = list(self._deltas())
        if "first_content_with_role" in quirks and deltas:
            opening = {"role": "assistant"} | deltas.pop(0)
        if "null_calls" in quirks:
            opening, *deltas = [{"tool_calls": None} | one for one in (opening, *deltas)]
        choices = [chunk(one) | self._logprobs(ask, one) for one in (opening, *deltas)] + [chunk({}) | self._finish()]
        chunks = [usual | {"choices": [one]} for one in choices]
        if "usage_each" in quirks:
            parts = [facts.completion * at // (len(chunks) - 1) for at in range(len(chunks))]
            chunks = [one | self._usage(facts, part) for one, part in zip(chunks, parts, strict=True)]
        first, *rest, finish = map(data, chunks)
        closing = [finish]
        if ask.include_usage and facts.usage:
            closing.append(data(start | {"choices": []} | self._usage(facts)))
        if "no_done" not in quirks:
            closing.append(b"data: [DONE]\n\n")
        return Stream([first], b"", rest, closing, data(self.refuse(500, "scripted failure")))

    def _logprobs(self, ask: ScriptedRequest, delta: dict[str, Any]) -> dict[str, Any]:
        texts = [delta[name] for name in (self._reply.reasoning_field, "content") if delta.get(name)]
        return {"logprobs": _logprobs(ask, texts)} if texts else {}

    def _deltas(self) -> Iterator[dict[str, Any]]:
        deltas = self._plain_deltas()
        if "together" in self._reply.quirks:
            deltas = _joined(deltas, self._reply.reasoning_field)
        for delta in deltas:
            yield delta
            if "empty_deltas" in self._reply.quirks:
                yield {"content": ""}
                yield {}

    def _plain_deltas(self) -> Iterator[dict[str, Any]]:
        calls = dict(self._calls())
        for are_calls, group in groupby(enumerate(self._reply.blocks), lambda one: isinstance(one[1], ScriptedCall)):
            if are_calls:
                parts = [[{"tool_calls": [one]} for one in self._parts(*calls[at])] for at, _ in group]
                yield from _in_turn(parts) if "interleave" in self._reply.quirks else chain.from_iterable(parts)
            else:
                for _, block in group:
                    if field := self._field(block):
                        yield from ({field: piece} for piece in self._reply.pieces(text_in(block)))

    def _field(self, block: ScriptedBlock) -> str | None:
        match block:
            case ScriptedThinking():
                return self._reply.reasoning_field
            case ScriptedText():
                return "content"
            case ScriptedRefusal():
                return "refusal"
        return None

    # -- calls -------------------------------------------------------------------------------------------------

    def _calls(self) -> Iterator[tuple[int, tuple[int, ScriptedCall, str]]]:
        """By the index of the block: number among the calls, call, id."""
        found = [(at, block) for at, block in enumerate(self._reply.blocks) if isinstance(block, ScriptedCall)]
        for number, (at, call) in enumerate(found):
            yield at, (number, call, self._reply.id_of("call", at))

    def _arguments(self, call: ScriptedCall) -> str:
        text = text_in(call)
        return json.dumps(text, ensure_ascii=False) if "double_encoded" in self._reply.quirks else text

    def _whole_call(self, number: int, call: ScriptedCall, name: str) -> dict[str, Any]:
        arguments: str | orjson.Fragment = self._arguments(call)
        if "arguments_object" in self._reply.quirks and is_json(text_in(call)):
            arguments = orjson.Fragment(text_in(call))
        return {"id": name, "type": "function", "function": {"name": call.name, "arguments": arguments}}

    def _parts(self, number: int, call: ScriptedCall, name: str) -> list[dict[str, Any]]:
        quirks, text = self._reply.quirks, self._arguments(call)
        place = {} if "no_index" in quirks else {"index": 0 if "same_index" in quirks else number}
        identity = {"id": name, "type": "function"}
        if "whole_call" in quirks:
            return [place | identity | {"function": {"name": call.name, "arguments": text}}]
        is_late, is_repeated = "late_name" in quirks, "repeat_id" in quirks
        pieces = self._reply.pieces(text) or ([""] if is_late else [])
        again = {"name": call.name} if is_repeated else {}
        first = {} if is_late else {"name": call.name}
        functions = [first | {"arguments": ""}] + [again | {"arguments": piece} for piece in pieces]
        if is_late:
            functions[1] = {"name": call.name} | functions[1]
        return [
            place | (identity if is_repeated or not at else {}) | {"function": function}
            for at, function in enumerate(functions)
        ]

    # -- the end -----------------------------------------------------------------------------------------------

    def _finish(self) -> dict[str, Any]:
        rich = self._reply
        reason = "stop" if rich.stop == "calls" and "stop_for_calls" in rich.quirks else _FINISH[rich.stop]
        matched = {rich.matched_field: rich.sequence if rich.stop == "sequence" else None} if rich.matched_field else {}
        return {"finish_reason": reason, **matched}

    def _usage(self, facts: ReplyFacts, completion: int | None = None) -> dict[str, Any]:
        if not facts.usage:
            return {}
        sent = facts.completion if completion is None else completion
        usage = {
            "prompt_tokens": facts.prompt,
            "completion_tokens": sent,
            "total_tokens": facts.prompt + sent,
            "prompt_tokens_details": {"cached_tokens": facts.cached, "cache_write_tokens": self._reply.written},
            "completion_tokens_details": {"reasoning_tokens": min(self._reply.reasoning, sent)},
        }
        return {"usage": usage}


def _logprobs(ask: ScriptedRequest, tokens: Sequence[str]) -> dict[str, Any] | None:
    """Of each token, with as many alternatives as were asked for: each half as likely as the one before."""
    if ask.document.get("logprobs") is not True:
        return None
    count = ask.document.get("top_logprobs") or 0
    found = []
    for token in tokens:
        first = 0.5 + zlib.crc32(token.encode()) % 49 / 100
        shares = [first, *((1 - first) * 0.5**at for at in range(1, count))]
        texts = [token, *(f"{token}~{at}" for at in range(1, count))]
        entries = [{"token": text, "logprob": math.log(share), "bytes": list(text.encode())}
                   for text, share in zip(texts, shares, strict=True)]  # fmt: skip
        found.append(entries[0] | {"top_logprobs": entries[:count]})
    return {"content": found}


def _in_turn(parts: Iterable[Sequence[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    return (one for row in zip_longest(*parts) for one in row if one is not None)


def _joined(deltas: Iterator[dict[str, Any]], reasoning: str) -> Iterator[dict[str, Any]]:
    held: dict[str, Any] | None = None
    for delta in deltas:
        if held is not None and "content" in delta:
            delta = held | delta
        elif held is not None:
            yield held
        held = delta if delta.keys() == {reasoning} else None
        if held is None:
            yield delta
    if held is not None:
        yield held
