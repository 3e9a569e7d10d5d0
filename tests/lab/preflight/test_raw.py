"""Answers judged by their bytes: what clients trip over is named, what is legal is nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from stoker.domain.answer import Answer
from stoker_lab.preflight import wire_flaws
from stoker_lab.requests.client import ModelReply
from stoker_lab.requests.timing import RequestTiming

WEATHER = '{"city": "Oslo"}'


def stream(*deltas: dict[str, Any], finish: str = "tool_calls") -> ModelReply:
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    frames = [json.dumps({"choices": [one]}).encode() for one in choices]
    return ModelReply(RequestTiming(0, 0, 0), Answer("", ""), None, [*frames, b"[DONE]"])


def calls(*pieces: dict[str, Any]) -> ModelReply:
    return stream(*({"tool_calls": [piece]} for piece in pieces))


def whole(*given: dict[str, Any]) -> ModelReply:
    body = {"choices": [{"message": {"tool_calls": list(given)}, "finish_reason": "tool_calls"}]}
    return ModelReply(RequestTiming(0, 0, 0), Answer("", ""), body, [], json.dumps(body).encode())


def call(arguments: Any = WEATHER, *, index: Any = 0, id: Any = "call_1", name: str | None = "get_weather") -> Any:
    function = {"arguments": arguments} | ({} if name is None else {"name": name})
    return {"index": index, "function": function} | ({} if id is None else {"id": id, "type": "function"})


def rest(arguments: Any, **fields: Any) -> Any:
    return call(arguments, **({"id": None, "name": None} | fields))


@pytest.mark.parametrize(
    "pieces",
    [
        [call()],
        [call(""), rest('{"ci'), rest('ty": "Oslo"}')],
        [call(None), rest(WEATHER)],
        [call(""), call('{"city":'), call(' "Oslo"}')],
        [call("", name=None), rest(WEATHER, name="get_weather")],
        [call(), call(index=1, id="call_2")],
        [call("", id="a"), call("", index=1, id="b"), rest(WEATHER), rest(WEATHER, index=1)],
        [],
    ],
    ids=["whole", "cut", "null first", "all repeated", "late name", "two", "interleaved", "none"],
)
def test_legal_ways_to_stream_calls_are_no_fault(pieces: Sequence[Any]) -> None:
    assert wire_flaws.call_flaw(calls(*pieces)) == wire_flaws.NONE


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        ([call(), call(id="call_2")], "index"),
        ([call(""), rest(WEATHER), call(id="call_2", name="get_time")], "index"),
        ([call(), rest(WEATHER)], "index"),
        ([call(index=None)], "index"),
        ([call(index="0")], "index"),
        ([call(index=1)], "index"),
        ([call(), call(index=2, id="call_2")], "index"),
        ([call(""), rest('{"ci', id="b"), rest('ty": "Oslo"}', id="c")], "ids"),
        ([call({"city": "Oslo"})], "object"),
        ([call(["Oslo"])], "object"),
        ([call(id="")], "id"),
        ([call(id=None)], "id"),
        ([call(), call(index=1)], "id"),
        (["get_weather"], "broken"),
    ],
)
def test_streamed_calls_that_clients_cannot_put_together_are_named(pieces: Sequence[Any], why: str) -> None:
    found, sentence = wire_flaws.call_flaw(calls(*pieces))
    assert (found, bool(sentence)) == (why, True), sentence


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([call()], ""),
        ([call(), call(id="call_2")], ""),
        ([call({"city": "Oslo"})], "object"),
        ([call(None)], "null"),
        ([{"id": "a", "function": {"name": "get_status"}}], "null"),
        ([call(id="")], "id"),
        ([call(), call()], "id"),
    ],
)
def test_calls_that_are_not_streamed_are_held_to_the_same(given: Sequence[Any], why: str) -> None:
    assert wire_flaws.call_flaw(whole(*given))[0] == why


@pytest.mark.parametrize(
    ("deltas", "why"),
    [
        ([{"role": "assistant", "content": ""}, {"reasoning_content": "Hm."}, {"content": "Yes."}], ""),
        ([{"content": "\n\n"}, {"reasoning": "Hm."}, {"content": "Yes."}], ""),
        ([{"reasoning_content": "Hm.", "content": "Yes."}], ""),
        ([{"content": "Yes."}, {"reasoning_content": "Hm."}], "after"),
        ([{"content": "Yes."}, {"reasoning": "Hm."}], "after"),
    ],
)
def test_thoughts_come_before_the_text(deltas: Sequence[Any], why: str) -> None:
    assert wire_flaws.order_flaw(stream(*deltas, finish="stop"))[0] == why


def test_nothing_comes_after_the_finish() -> None:
    reply = stream({"content": "Yes."}, finish="stop")
    late = json.dumps({"choices": [{"index": 0, "delta": {"content": "!"}, "finish_reason": None}]}).encode()
    assert wire_flaws.order_flaw(reply._replace(frames=[*reply.frames[:-1], late, b"[DONE]"]))[0] == "late"
    usage = b'{"choices": [], "usage": {"completion_tokens": 1}}'
    assert wire_flaws.order_flaw(reply._replace(frames=[*reply.frames[:-1], usage, b"[DONE]"])) == wire_flaws.NONE


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ('{"content": "Größe 🙂"}'.encode(), ""),
        (rb'{"content": "\ud83d\ude42"}', ""),
        (b"[DONE]", ""),
        ("ö".encode()[:1], "cut"),
        (rb'{"content": "\ud83d"}', "cut"),
        (b'{"content": ', "json"),
    ],
)
def test_each_event_is_json_of_whole_characters(data: bytes, why: str) -> None:
    reply = ModelReply(RequestTiming(0, 0, 0), Answer("", ""), None, [data])
    assert wire_flaws.bytes_flaw(reply)[0] == why
    assert wire_flaws.bytes_flaw(reply._replace(frames=[], raw=data))[0] == why


def test_an_answer_says_what_its_model_is_and_how_many_tokens_were_thoughts() -> None:
    usage = {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}}
    body = {"model": "m", "usage": usage, "choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}
    reply = ModelReply(RequestTiming(0, 0, 0), Answer("", ""), body, [])
    assert (wire_flaws.named_models(reply), wire_flaws.reasoning_tokens(reply), wire_flaws.finish_reason(reply)) == (
        ["m"],
        7,
        "stop",
    )
