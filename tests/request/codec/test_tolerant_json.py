"""What engines write instead of JSON reaches clients as strict JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.dialect import Dialect
from stoker.request.codec.frames import check_answer
from stoker.request.codec.tolerant_json import FrameReader, read, strict


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":NaN}', {"a": None}),
        (b'{"a":[1,Infinity,-Infinity]}', {"a": [1, None, None]}),
        (b'{"logprob":-Infinity}', {"logprob": -9999.0}),
        (b'{"logprob":Infinity,"x":NaN}', {"logprob": None, "x": None}),
        (b'{"token_logprobs":[null,-Infinity,-0.5]}', {"token_logprobs": [None, -9999.0, -0.5]}),
        (b'{"top_logprobs":[{"a":-Infinity}]}', {"top_logprobs": [{"a": -9999.0}]}),
        (b'{"a":1e999}', {"a": None}),
        (rb'{"a":"\ud83d x"}', {"a": "\ufffd x"}),
        (rb'{"a":"x \ude00"}', {"a": "x \ufffd"}),
        (rb'{"a":"\ud83d\ude00 \ud83d"}', {"a": "😀 \ufffd"}),
        (rb'{"\ud83d":1}', {"\ufffd": 1}),
        (b'{"a":"\xff\xc3\xbc"}', {"a": "\ufffdü"}),
    ],
)
def test_what_is_no_json_is_read_as_its_writer_meant_it(text: bytes, value: object) -> None:
    assert read(text) == value
    mended = strict(text)
    assert mended is not None
    assert msgspec.json.decode(mended) == value


@pytest.mark.parametrize("text", [b"", b"<html>", b"{", b"[" * 100_000])
def test_what_is_nothing_is_none(text: bytes) -> None:
    assert read(text) is None
    assert strict(text) is None


WHOLE: dict[Dialect, dict[str, Any]] = {
    Dialect.CHAT: {"choices": [{"message": {"content": "?"}, "finish_reason": "stop"}]},
    Dialect.COMPLETIONS: {"choices": [{"text": "?", "finish_reason": "stop"}]},
    Dialect.MESSAGES: {"content": [{"type": "text", "text": "?"}], "stop_reason": "end_turn"},
    Dialect.RESPONSES: {"output": [{"type": "message", "x": "?"}], "status": "completed"},
    Dialect.EMBEDDINGS: {"data": [{"embedding": [0.5, "?"], "index": 0}]},
    Dialect.RERANK: {"results": [{"index": 0, "relevance_score": "?"}]},
}


@pytest.mark.parametrize("dialect", WHOLE)
@pytest.mark.parametrize("odd", [b"NaN", b"-Infinity", rb'"\ud83d"', b'"\xff"'])
def test_a_whole_answer_is_mended_in_every_dialect_and_a_strict_one_is_not_touched(
    dialect: Dialect, odd: bytes
) -> None:
    text = json.dumps(WHOLE[dialect] | {"usage": {"prompt_tokens": 3}}).encode()
    checked = check_answer(dialect, text.replace(b'"?"', odd))
    assert checked.mended is not None
    json.loads(checked.mended, parse_constant=pytest.fail)
    assert msgspec.json.decode(checked.mended).keys() == json.loads(text).keys()
    assert checked.usage.input == 3
    assert check_answer(dialect, text).mended is None


def texts(*frames: str) -> str:
    reader = FrameReader()
    found = [value for frame in frames for value in reader.read(frame.encode())]
    return "".join(value["delta"]["content"] for value in [*found, *reader.rest()])


def frame(content: str) -> str:
    return json.dumps({"delta": {"content": content}})


def test_a_character_split_over_two_frames_is_one() -> None:
    assert texts(frame("a\ud83d"), frame("\ude00b")) == "a😀b"
    assert texts(frame("\ud83d"), frame("\ude00\ud83d"), frame("\ude01")) == "😀😁"


def test_half_a_character_that_stays_alone_is_replaced_in_its_place() -> None:
    assert texts(frame("a\ud83d"), frame("b")) == "a\ufffdb"
    assert texts(frame("a\ud83d"), frame("\ud83d"), frame("\ude00")) == "a\ufffd😀"
    assert texts(frame("\ude00")) == "\ufffd"
    assert texts(frame("a\ud83d")) == "a\ufffd"


def test_the_other_half_of_another_text_is_not_joined() -> None:
    reader = FrameReader()
    values = reader.read(json.dumps({"delta": {"content": "a\ud83d"}}).encode())
    values += reader.read(json.dumps({"delta": {"reasoning": "\ude00"}}).encode())
    assert values == [{"delta": {"content": "a"}}, {"delta": {"content": "\ufffd"}}, {"delta": {"reasoning": "\ufffd"}}]


@given(st.text(), st.lists(st.integers(0, 40), max_size=6))
def test_any_text_survives_any_cut_between_its_code_units(text: str, cuts: list[int]) -> None:
    units = text.encode("utf-16-le")
    ends = sorted({min(2 * cut, len(units)) for cut in cuts} | {len(units)})
    pieces = [units[a:b].decode("utf-16-le", "surrogatepass") for a, b in zip([0, *ends], ends, strict=False)]
    assert texts(*(frame(piece) for piece in pieces if piece)) == text


@given(
    st.recursive(
        st.none() | st.floats() | st.text() | st.booleans(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_whatever_python_writes_becomes_strict_json(value: Any) -> None:
    mended = strict(json.dumps({"v": value}).encode())
    assert mended is not None
    assert all(math.isfinite(number) for number in numbers(msgspec.json.decode(mended)))


def numbers(value: Any) -> list[float]:
    if isinstance(value, float):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [number for one in inner for number in numbers(one)]
