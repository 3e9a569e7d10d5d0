"""The reader beside the stream: it sees usage, errors and the end, and passes every byte."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.linear import assert_linear

from stoker.domain.dialect import Dialect
from stoker.request.codec.frames import StreamReader, read_usage
from stoker.request.codec.reply_formats import FORMATS
from stoker.request.codec.sse import MAX_FRAME, parse, split
from stoker.request.codec.upstream_errors import is_error
from stoker.request.codec.usage import Usage

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES


def frame(payload: object, name: str = "", end: str = "\n") -> bytes:
    text = payload if isinstance(payload, str) else json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
    event = f"event: {name}{end}" if name else ""
    return f"{event}data: {text}{end}{end}".encode()


def delta(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}, "finish_reason": None}], **more}


USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
ROLE = {"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
FINISH = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
EXTRA = {"choices": [], "usage": USAGE}
TURNS = [ROLE, delta("Grüße 😀"), delta('data: [DONE] "usage": {', usage=None), FINISH]


def cut(data: bytes, at: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in at} | {len(data)})
    return [data[a:b] for a, b in zip([0, *ends], ends, strict=False) if b > a]


def feed(reader: StreamReader, pieces: list[bytes]) -> bytes:
    return b"".join([reader.feed(piece) for piece in pieces] + [reader.take_rest()])


CUTS = st.lists(st.integers(0, 700), max_size=40)


@given(CUTS, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.sampled_from([b"", b": ping\n\n", b"data: half"]))
def test_however_it_is_cut_the_same_bytes_pass_and_only_our_usage_frame_is_taken_out(
    at: list[int], end: str, remove: bool, last: bytes
) -> None:
    whole = [frame(turn, end=end) for turn in TURNS]
    ours, done = frame(EXTRA, end=end), frame("[DONE]", end=end)
    stream = b"".join([*whole, ours, b": ping" + end.encode() * 2, done, last])
    reader = StreamReader(CHAT, remove_usage=remove)
    passed = feed(reader, cut(stream, at))
    assert passed == (stream.replace(ours, b"") if remove else stream)
    assert (reader.usage.input, reader.usage.output, reader.usage.cached) == (7, 3, 2)
    assert reader.is_meaningful
    assert reader.has_ended()
    assert reader.error is None


@given(CUTS)
def test_what_goes_on_is_whole_frames(at: list[int]) -> None:
    """So that an error event or a ping of ours can follow at any time."""
    reader = StreamReader(CHAT)
    for piece in cut(b"".join(map(frame, TURNS)), at):
        passed = reader.feed(piece)
        assert passed == b"" or passed.endswith(b"\n\n")


def test_usage_null_beside_the_real_one_in_one_read_does_not_hide_it() -> None:
    """As the specification has it, every chunk says `usage: null` until the last; reads coalesce at the end."""
    reader = StreamReader(CHAT, remove_usage=True)
    reader.feed(frame(delta("x", usage=None)))
    ends = frame({**FINISH, "usage": None})
    assert reader.feed(ends + frame(EXTRA) + frame("[DONE]")) == ends + frame("[DONE]")
    assert reader.usage.output == 3


@pytest.mark.parametrize(
    ("dialect", "frames", "found"),
    [
        (CHAT, [frame(delta("x")), frame({**FINISH, "usage": USAGE})], (7, 3, 2)),
        (Dialect.COMPLETIONS, [frame({"choices": [{"text": "x"}]}), frame(EXTRA)], (7, 3, 2)),
        (
            MESSAGES,
            [
                frame({"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}),
                frame({"type": "content_block_delta", "delta": {"text": "x"}}),
                frame({"type": "message_delta", "usage": {"output_tokens": 9, "cache_read_input_tokens": 4}}),
            ],
            (9, 9, 4),
        ),
        (
            RESPONSES,
            [
                frame({"type": "response.created", "response": {"usage": None}}),
                frame({"type": "response.output_text.delta", "delta": "x"}),
                frame({"type": "response.completed", "response": {
                    "usage": {"input_tokens": 5, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}},
                }}),
            ],
            (5, 2, 1),
        ),
    ],
)  # fmt: skip
def test_usage_is_read_in_every_dialect(dialect: Dialect, frames: list[bytes], found: tuple[int, int, int]) -> None:
    for together in (frames, [b"".join(frames)]):
        reader = StreamReader(dialect)
        assert feed(reader, together) == b"".join(frames)
        assert (reader.usage.input, reader.usage.output, reader.usage.cached) == found


CACHED = {"input_tokens": 200, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 100, "output_tokens": 1}


@pytest.mark.parametrize(
    "later",
    [
        {"output_tokens": 9},
        {"input_tokens": 200, "output_tokens": 9},
        {"input_tokens": 0, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 100, "output_tokens": 9},
        {"cache_read_input_tokens": None, "cache_creation_input_tokens": None, "output_tokens": 9},
    ],
)
def test_tokens_that_messages_counts_apart_are_part_of_the_prompt(later: dict[str, Any]) -> None:
    usage = Usage()
    usage.update_from(CACHED)
    usage.update_from(later)
    assert (usage.input, usage.output) == (1000, 9)


@pytest.mark.parametrize("choices", [b'"choices":[],', b'"choices":null,', b""])
def test_a_usage_frame_of_ours_is_taken_out_however_it_says_that_it_has_no_choices(choices: bytes) -> None:
    usage = b'data: {%b"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n' % choices
    reader = StreamReader(CHAT, remove_usage=True)
    text = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    assert (
        reader.feed(text + end + usage + b"data: [DONE]\n\n") + reader.take_rest() == text + end + b"data: [DONE]\n\n"
    )
    assert (reader.usage.input, reader.usage.output) == (3, 2)
    early = StreamReader(CHAT, remove_usage=True)
    assert (early.feed(usage), early.is_meaningful) == (b"", False)


def test_a_usage_frame_with_content_in_it_stays() -> None:
    reader = StreamReader(CHAT, remove_usage=True)
    both = frame(delta("x", usage=USAGE))
    assert feed(reader, [both, both]) == both + both


def test_usage_that_makes_no_sense_is_unknown() -> None:
    usage = Usage()
    usage.update_from("many")
    usage.update_from({"prompt_tokens": True, "completion_tokens": "3", "prompt_tokens_details": 1})
    assert (usage.input, usage.output, usage.cached) == (None, None, None)


# -- the end -------------------------------------------------------------------------------------------------------

ENDS = [
    (CHAT, frame("[DONE]")), (CHAT, b"data:[DONE]\n\n"), (CHAT, b"data: [DONE]"), (CHAT, b"data: [DONE]\r\n\r\n"),
    (CHAT, frame(FINISH)), (CHAT, b'data: {"choices": [{"finish_reason" : "length"}]}\n\n'),
    (Dialect.COMPLETIONS, frame({"choices": [{"text": "", "finish_reason": "stop"}]})),
    (MESSAGES, frame({"type": "message_stop"}, "message_stop")), (RESPONSES, frame({"type": "response.completed"})),
    (RESPONSES, frame({"type": "response.incomplete"})), (RESPONSES, frame({"type": "response.failed"})),
]  # fmt: skip
STARTS = {
    CHAT: frame(delta("x")), Dialect.COMPLETIONS: frame({"choices": [{"text": "x"}]}),
    MESSAGES: frame({"type": "content_block_delta", "delta": {"text": "x"}}),
    RESPONSES: frame({"type": "response.output_text.delta", "delta": "x"}),
}  # fmt: skip
NO_ENDS = [
    (CHAT, b""), (CHAT, frame(delta("data: [DONE]"))), (CHAT, frame(delta('"finish_reason":"stop"'))),
    (CHAT, frame({"choices": [{"delta": {"content": "x"}, "finish_reason": None}]})), (CHAT, frame({"choices": 1})),
    (CHAT, b": [DONE]\n\n"), (CHAT, b'data: {"choices":[{"finish_reason":"st'), (CHAT, frame({"choices": [1]})),
    (MESSAGES, frame({"type": "content_block_delta", "delta": {"text": "then send message_stop"}})),
    (RESPONSES, frame({"type": "response.output_text.delta", "delta": "response.completed"})),
    (MESSAGES, frame("[DONE]")),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "data"), ENDS)
def test_the_dialects_own_end_is_seen(dialect: Dialect, data: bytes) -> None:
    for pieces in ([data], [data[:9], data[9:]]):
        reader = StreamReader(dialect)
        reader.feed(STARTS[dialect])
        for piece in pieces:
            reader.feed(piece)
        assert reader.has_ended()


@pytest.mark.parametrize(
    ("dialect", "data"),
    [(CHAT, frame("[DONE]")), (CHAT, b"data: [DONE]"), (CHAT, frame({"choices": [], "usage": USAGE}) + frame("[DONE]")),
     (MESSAGES, frame({"type": "ping"}) + frame({"type": "message_stop"}))],
)  # fmt: skip
def test_an_end_of_nothing_is_none(dialect: Dialect, data: bytes) -> None:
    reader = StreamReader(dialect)
    reader.feed(data)
    assert (reader.is_meaningful, reader.has_ended()) == (False, False)


@pytest.mark.parametrize(("dialect", "data"), NO_ENDS)
def test_text_that_only_speaks_of_an_end_is_none(dialect: Dialect, data: bytes) -> None:
    reader = StreamReader(dialect)
    reader.feed(data)
    assert not reader.has_ended()


def test_an_end_of_any_size_is_seen() -> None:
    """The last event of the Responses dialect repeats the whole reply."""
    reader = StreamReader(RESPONSES)
    last = frame({"type": "response.completed", "response": {"output": "x" * 200_000}}, "response.completed")
    feed(reader, cut(frame({"type": "response.output_text.delta", "delta": "x"}) + last, [10, 70_000, 140_000]))
    assert reader.has_ended()
    one_read = StreamReader(RESPONSES)
    one_read.feed(frame({"type": "response.output_text.delta", "delta": "x"}) + last)
    assert one_read.has_ended()


# -- errors and the first meaningful frame -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "error"),
    [(CHAT, {"error": {"message": "m", "code": 500}}), (MESSAGES, {"type": "error", "error": {"type": "overloaded"}}),
     (RESPONSES, {"type": "error", "message": "m"}), (CHAT, {"object": "error", "message": "m", "type": "x"})],
)  # fmt: skip
@pytest.mark.parametrize("before", [[], [delta("x")], [delta("x", usage=USAGE)]])
def test_an_error_frame_is_seen_wherever_it_comes(
    dialect: Dialect, error: dict[str, Any], before: list[dict[str, Any]]
) -> None:
    for together in (False, True):
        reader = StreamReader(dialect)
        frames = [*map(frame, before), frame(error, "error")]
        feed(reader, [b"".join(frames)] if together else frames)
        assert reader.error is not None
        assert reader.error.upstream_message == ("" if dialect is MESSAGES else "m")


def test_an_error_frame_with_usage_in_it_is_seen() -> None:
    reader = StreamReader(CHAT)
    feed(reader, [frame(delta("x")), frame({"error": {"message": "m"}, "usage": USAGE})])
    assert reader.error is not None
    assert reader.usage.input == 7


@pytest.mark.parametrize("text", ['{"error":', "the event: error"])
def test_text_that_only_speaks_of_errors_is_none(text: str) -> None:
    reader = StreamReader(CHAT)
    feed(reader, [frame(delta("x")), frame(delta(text)), frame({**delta("x"), "error": None})])
    assert reader.error is None


MEANING = [
    (CHAT, ROLE, False), (CHAT, delta("x"), True), (CHAT, FINISH, True), (CHAT, EXTRA, False), (CHAT, {}, False),
    (CHAT, {"choices": [{"delta": {"role": "assistant", "content": None}}]}, False),
    (CHAT, {"choices": [{"delta": {"reasoning_content": "h"}}]}, True),
    (CHAT, {"choices": [{"delta": {"refusal": "no"}}]}, True),
    (CHAT, {"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}, True),
    (CHAT, {"choices": [7]}, True), (CHAT, {"choices": [{}]}, False),
    (Dialect.COMPLETIONS, {"choices": [{"text": ""}]}, False),
    (Dialect.COMPLETIONS, {"choices": [{"text": "x"}]}, True),
    (MESSAGES, {"type": "message_start"}, False), (MESSAGES, {"type": "ping"}, False),
    (MESSAGES, {"type": "content_block_start"}, False), (MESSAGES, {"type": "content_block_delta"}, True),
    (RESPONSES, {"type": "response.created"}, False), (RESPONSES, {"type": "response.output_text.delta"}, True),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "payload", "expected"), MEANING)
def test_content_or_a_finish_commits_and_openings_do_not(
    dialect: Dialect, payload: dict[str, Any], expected: bool
) -> None:
    assert FORMATS[dialect].is_meaningful(payload) is expected
    reader = StreamReader(dialect)
    reader.feed(b": comment\n\n" + frame(payload))
    assert reader.is_meaningful is expected


def test_frames_are_parsed_or_skipped() -> None:
    assert parse(b'event: x\ndata: {"a":\ndata: 1}\n\n') == {"a": 1}
    for no_object in (b": c\n\n", b"data: [DONE]\n\n", b"data: [1]\n\n", b"data: {\n\n", b'data: {"a":"\xff"}\n\n'):
        assert parse(no_object) is None
    assert parse(b"data: " + b'{"a":' * 50_000 + b"\n\n") is None
    assert not is_error({"error": None})


@given(st.lists(st.sampled_from([b"\n", b"\r", b"data: x", b"\n\n", b"\r\n\r\n"]), max_size=12))
def test_split_frames_are_the_data_again(parts: list[bytes]) -> None:
    data = b"".join(parts)
    pieces = split(data)
    assert b"".join(pieces) == data
    assert all(pieces)
    ends = [re.search(rb"\n\r?\n", piece) for piece in pieces]
    assert all(end is not None and end.end() == len(piece) for end, piece in zip(ends[:-1], pieces, strict=False))
    assert pieces == [] or ends[-1] is None or ends[-1].end() == len(pieces[-1])


# -- hostile -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [65_536, 97])
def test_bytes_without_a_blank_line_cost_linear_time_and_bounded_memory(size: int) -> None:
    piece = (b"data: xxxxxx\n" * 8192)[:size]

    def read(count: int) -> None:
        reader, passed = StreamReader(CHAT, remove_usage=True), 0
        for _ in range(count):
            passed += len(reader.feed(piece))
            assert size < 1000 or reader.held < 1.2 * MAX_FRAME
        assert passed + len(reader.take_rest()) == count * size

    assert_linear(lambda count: count, read, (36_000_000 if size > 1000 else MAX_FRAME + 1_000_000) // size)


# -- replies that are no stream --------------------------------------------------------------------------------------


def test_usage_of_a_whole_reply_is_read() -> None:
    body = json.dumps({"choices": [], "usage": USAGE}).encode()
    assert read_usage(body).input == 7


@pytest.mark.parametrize(
    "body", [b"", b"x", b'"usage"', b'["usage"]', b'{"usage":', b'{"usage":3}', b'{"usage":"\xff"}']
)
def test_usage_of_anything_else_is_unknown(body: bytes) -> None:
    assert read_usage(body).input is None


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("kind", [{}, [], 1, None])
def test_whatever_an_engine_writes_as_a_type_is_passed_on_and_ends_nothing(dialect: Dialect, kind: object) -> None:
    reader, odd = StreamReader(dialect), frame({"type": kind, "x": 1})
    assert feed(reader, [odd]) == odd
    assert reader.has_ended() is False
