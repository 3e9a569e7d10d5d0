"""A Messages answer as events: nothing that the serve said is lost, and nothing that it may say raises."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.answer import (
    Answer,
    Began,
    BlockKind,
    Closed,
    Counted,
    Ended,
    Event,
    Failed,
    Finished,
    Grew,
    Opened,
    Signed,
    StopReason,
    Tokens,
)
from stoker.domain.errors import CapacityError, ClientError, UpstreamError
from stoker.domain.prompt import Redacted, Text, Thinking, ToolCall
from stoker.request.translate.messages.read_answer import MessagesAnswerReader
from stoker.request.translate.neutral.block_sequencer import BlockSequencer
from stoker.request.translate.neutral.gaps import LOSSY, Losses

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
BEGIN = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 3}}}
STOP = {"type": "message_stop"}


def start(index: Any, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def delta(index: Any, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def change(reason: str | None = "end_turn", usage: Any = None, **fields: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **fields}, "usage": usage}


def read(*payloads: dict[str, Any]) -> tuple[list[Event], list[str]]:
    losses = Losses()
    reader = MessagesAnswerReader(losses)
    out = [event for payload in payloads for event in reader.read(payload)]
    assert set(losses.codes) <= set(LOSSY)
    return out, list(losses.codes)


def said(events: Iterable[Event]) -> list[tuple[BlockKind, str]]:
    """Kind and text of each block, as a writer gets them."""
    sequence = BlockSequencer()
    found: list[tuple[BlockKind, str]] = []
    for given_ in events:
        for event in sequence.feed(given_):
            if isinstance(event, Opened):
                found.append((event.kind, ""))
            elif isinstance(event, Grew):
                assert event.at == len(found) - 1
                found[-1] = (found[-1][0], found[-1][1] + event.text)
    return found


def test_a_whole_stream() -> None:
    events, lost = read(
        BEGIN, {"type": "ping"},
        start(0, "thinking", thinking="", signature=""), delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="s"), stop(0),
        start(1, "text", text=""), delta(1, "text_delta", text="a"), stop(1),
        start(2, "tool_use", id="t", name="f", input={}), delta(2, "input_json_delta", partial_json=""),
        delta(2, "input_json_delta", partial_json='{"a"'), delta(2, "input_json_delta", partial_json=":1}"), stop(2),
        change("tool_use", {"output_tokens": 7}), STOP,
    )  # fmt: skip
    assert events == [
        Began("msg_1", "m", Tokens(input=3)),
        Opened(0, BlockKind.THINKING), Grew(0, "hm"), Signed(0, "s"), Closed(0),
        Opened(1, BlockKind.TEXT), Grew(1, "a"), Closed(1),
        Opened(2, BlockKind.CALL, "t", "f"), Grew(2, '{"a"'), Grew(2, ":1}"), Closed(2),
        Counted(Tokens(input=3, output=7)), Finished(StopReason.CALLS), Ended(),
    ]  # fmt: skip
    assert lost == []


def test_litellm_30014_what_stands_in_the_start_of_a_block_is_not_swallowed() -> None:
    events, _ = read(
        BEGIN, start(0, "text", text="Hi"), delta(0, "text_delta", text="!"), stop(0),
        start(1, "thinking", thinking="h"), stop(1), start(2, "redacted_thinking", data="d"), stop(2),
    )  # fmt: skip
    assert said(events) == [(BlockKind.TEXT, "Hi!"), (BlockKind.THINKING, "h"), (BlockKind.REDACTED, "d")]


@pytest.mark.parametrize(("input", "text"), [({"a": 1.0}, '{"a":1.0}'), ('{"a":1}', '{"a":1}'), ({}, ""), (None, "")])
def test_litellm_25836_arguments_in_the_start_of_a_call_are_kept(input: Any, text: str) -> None:
    assert said(read(start(0, "tool_use", id="t", name="f", input=input), stop(0))[0]) == [(BlockKind.CALL, text)]


def test_litellm_15307_calls_in_a_row_are_calls_of_their_own() -> None:
    calls = [
        event
        for at in range(3)
        for event in (start(at, "tool_use", id=f"t{at}", name="f"), delta(at, "input_json_delta", partial_json="{}"))
    ]
    assert said(read(*calls, *(stop(at) for at in range(3)))[0]) == [(BlockKind.CALL, "{}")] * 3


def test_litellm_29491_long_arguments_arrive_whole() -> None:
    text = json.dumps({"a": "x" * 200_000})
    pieces = [text[at : at + 67] for at in range(0, len(text), 67)]
    deltas = (delta(0, "input_json_delta", partial_json=piece) for piece in pieces)
    assert said(read(start(0, "tool_use", id="t", name="f"), *deltas, stop(0))[0]) == [(BlockKind.CALL, text)]


# -- what serves get wrong ----------------------------------------------------------------------------------------


def test_a_delta_of_another_kind_than_its_block_begins_one_of_its_own_that_goes_on_live() -> None:
    events, _ = read(
        start(0, "thinking"), delta(0, "thinking_delta", thinking="hm"), delta(0, "text_delta", text="a"),
        delta(0, "signature_delta", signature="s"), delta(0, "text_delta", text="b"), stop(0),
    )  # fmt: skip
    assert events == [
        Opened(0, BlockKind.THINKING),
        Grew(0, "hm"),
        Closed(0),
        Opened(1, BlockKind.TEXT),
        Grew(1, "a"),
        Grew(1, "b"),
        Closed(1),
    ]


def test_what_stands_between_the_pieces_of_a_call_does_not_cut_it() -> None:
    events, _ = read(
        start(0, "tool_use", id="t", name="f"), delta(0, "input_json_delta", partial_json='{"a'),
        delta(0, "text_delta", text="x"), delta(0, "input_json_delta", partial_json='":1}'), stop(0),
    )  # fmt: skip
    assert said(events) == [(BlockKind.CALL, '{"a":1}'), (BlockKind.TEXT, "x")]


def test_a_block_that_was_never_opened_is_one_block() -> None:
    events, _ = read(delta(3, "text_delta", text="a"), delta(3, "text_delta", text="b"), stop(3), stop(3))
    assert events == [Opened(0, BlockKind.TEXT), Grew(0, "a"), Grew(0, "b"), Closed(0)]
    call = read(delta(0, "input_json_delta", partial_json="{"), delta(0, "input_json_delta", partial_json="}"))[0]
    assert said(call) == [(BlockKind.CALL, "{}")]


def test_an_index_that_is_used_again_is_another_block_even_while_both_wait() -> None:
    events, _ = read(
        start(0, "text", text="a"), start(1, "text", text="b"), stop(1), start(1, "text", text="c"),
        start(1, "text", text="d"), change(), STOP,
    )  # fmt: skip
    assert said(events) == [(BlockKind.TEXT, text) for text in "abcd"]


def test_blocks_that_stay_open_close_with_the_message() -> None:
    events, _ = read(BEGIN, start(0, "text", text="a"), start(1, "server_tool_use"), change(), STOP)
    assert events[-3:] == [Closed(0), Finished(StopReason.END), Ended()]


def test_blocks_of_the_vendors_own_are_dropped_with_all_that_comes_of_them() -> None:
    events, lost = read(
        start(0, "server_tool_use", id="s"), delta(0, "input_json_delta", partial_json="{}"), stop(0),
        start(1, "text", text="a"), stop(1),
    )  # fmt: skip
    assert (said(events), lost) == ([(BlockKind.TEXT, "a")], ["foreign_block"])


def test_citations_are_told() -> None:
    assert read(start(0, "text", citations=[{}]))[1] == ["citations"]
    assert read(start(0, "text"), delta(0, "citations_delta", citation={})) == (
        [Opened(0, BlockKind.TEXT)],
        ["citations"],
    )


def test_axonhub_1105_a_signature_goes_to_thinking_alone() -> None:
    events, _ = read(start(0, "text"), delta(0, "signature_delta", signature="s"), delta(7, "signature_delta"))
    assert events == [Opened(0, BlockKind.TEXT)]
    events, _ = read(start(0, "thinking"), delta(0, "signature_delta", signature=""))
    assert events == [Opened(0, BlockKind.THINKING)]


def test_litellm_33315_empty_deltas_and_unknown_ones_are_nothing() -> None:
    assert read(start(0, "text"), delta(0, "text_delta", text=""), delta(0, "new_delta", text="a"))[0] == [
        Opened(0, BlockKind.TEXT)
    ]


def test_a_second_beginning_is_none() -> None:
    assert read(BEGIN, BEGIN)[0] == [Began("msg_1", "m", Tokens(input=3))]


# -- the end ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "stop_"),
    [
        ("end_turn", StopReason.END),
        ("max_tokens", StopReason.LENGTH),
        ("stop_sequence", StopReason.SEQUENCE),
        ("tool_use", StopReason.END),
        ("pause_turn", StopReason.PAUSED),
        ("refusal", StopReason.FILTERED),
        ("model_context_window_exceeded", StopReason.CONTEXT),
    ],
)
def test_why_it_ended(reason: str, stop_: StopReason) -> None:
    assert read(change(reason), STOP)[0] == [Finished(stop_), Ended()]
    assert MessagesAnswerReader(Losses()).read_whole({"stop_reason": reason}).stop is stop_


@pytest.mark.parametrize("reason", ["abort", "error", "unheard_of"])
def test_an_end_that_nobody_knows_is_a_failure(reason: str) -> None:
    (failed,) = read(change(reason), STOP)[0]
    assert isinstance(failed, Failed)
    assert MessagesAnswerReader(Losses()).read_whole({"stop_reason": reason}).failure is not None


def test_the_stop_string_and_the_details_of_a_refusal() -> None:
    events, lost = read(change("stop_sequence", stop_sequence="END"), change("refusal", stop_details={"a": 1}), STOP)
    assert events == [Finished(StopReason.FILTERED), Ended()]
    assert lost == ["stop_details"]
    assert read(change("stop_sequence", stop_sequence="END"), STOP)[0][0] == Finished(StopReason.SEQUENCE, "END")


def test_who_ends_a_turn_with_calls_means_the_calls() -> None:
    call = start(0, "tool_use", id="t", name="f")
    assert Finished(StopReason.CALLS) in read(call, stop(0), change("end_turn"), STOP)[0]
    assert Finished(StopReason.LENGTH) in read(call, stop(0), change("max_tokens"), STOP)[0]
    whole = MessagesAnswerReader(Losses()).read_whole({"content": [{"type": "tool_use"}], "stop_reason": "end_turn"})
    assert whole.stop is StopReason.CALLS


def test_a_message_that_stops_without_a_reason_has_ended_all_the_same() -> None:
    assert read(start(0, "text", text="a"), STOP)[0][-2:] == [Finished(StopReason.END), Ended()]


def test_the_connections_end_is_the_end_only_after_a_reason() -> None:
    reader = MessagesAnswerReader(Losses())
    reader.read(start(0, "text", text="a"))
    assert reader.finish() == []
    reader.read(change())
    assert reader.finish() == [Closed(0), Finished(StopReason.END), Ended()]
    assert (reader.finish(), reader.read(start(1, "text"))) == ([], [])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "m"}, CapacityError),
        ({"type": "api_error", "message": "m"}, UpstreamError),
        ({"code": 400, "message": "m"}, ClientError),
        (None, UpstreamError),
    ],
)
def test_sglang_20754_a_failure_is_told_as_what_it_is_and_ends_the_answer(error: Any, kind: type[Exception]) -> None:
    events, _ = read(BEGIN, {"type": "error", "error": error}, change(), STOP)
    assert len(events) == 2
    assert isinstance(events[1], Failed)
    assert type(events[1].error) is kind


# -- usage --------------------------------------------------------------------------------------------------------


def totals(*usages: Any) -> Tokens:
    first, *later = usages
    begin = {"type": "message_start", "message": {"usage": first}}
    tokens = [event.tokens for event in read(begin, *(change(usage=usage) for usage in later))[0]
              if isinstance(event, Began | Counted)]  # fmt: skip
    assert tokens[-1] is not None
    return tokens[-1]


def test_envoy_2239_counts_are_totals_and_never_added() -> None:
    usage = {"input_tokens": 714, "output_tokens": 120}
    assert totals({"input_tokens": 714, "output_tokens": 0}, usage, usage) == Tokens(input=714, output=120)


def test_the_first_count_of_output_is_none_yet() -> None:
    assert totals({"input_tokens": 5, "output_tokens": 1}).output is None


CACHED = {"input_tokens": 200, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 100}


def test_litellm_28354_what_was_cached_is_part_of_the_input() -> None:
    details = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}
    expected = Tokens(input=1000, cached=700, written=100, output=9, reasoning=4)
    assert totals(CACHED, details) == expected
    assert MessagesAnswerReader(Losses()).read_whole({"usage": {**CACHED, **details}}).tokens == expected


@pytest.mark.parametrize("later", [{}, {"cache_read_input_tokens": None, "cache_creation_input_tokens": None}])
def test_a_later_count_of_the_input_does_not_forget_what_was_cached(later: dict[str, Any]) -> None:
    assert totals(CACHED, {"input_tokens": 200, "output_tokens": 9, **later}) == Tokens(1000, 700, 100, 9)


def test_a_later_count_of_the_cache_replaces_the_earlier_one() -> None:
    later = {"input_tokens": 0, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 100, "output_tokens": 9}
    assert totals(CACHED, later) == Tokens(1000, 900, 100, 9)


@pytest.mark.parametrize("usage", [None, 3, {"input_tokens": -1, "output_tokens": "9"}, {"output_tokens": True}])
def test_a_count_that_is_none_is_unknown(usage: Any) -> None:
    assert totals({}, usage) == Tokens()


# -- whole --------------------------------------------------------------------------------------------------------


def test_a_whole_answer() -> None:
    losses = Losses()
    answer = MessagesAnswerReader(losses).read_whole({
        "id": "msg_1", "model": "m", "stop_reason": "stop_sequence", "stop_sequence": "END",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "d"},
            {"type": "text", "text": "a", "citations": [{}]}, {"type": "text", "text": "b"},
            {"type": "tool_use", "id": "t", "name": "f"},
            {"type": "tool_use", "id": "u", "name": "f", "input": '{"a":1}'},
            {"type": "tool_use", "id": "v", "name": "f", "input": {"b": 1.0, "a": 2}},
            {"type": "server_tool_use"}, "no block",
        ],
        "stop_details": {"type": "refusal"},
    })  # fmt: skip
    assert answer == Answer(
        "msg_1",
        "m",
        [
            Thinking("hm", "s"),
            Redacted("d"),
            Text("a"),
            Text("b"),
            ToolCall("t", "f", "{}"),
            ToolCall("u", "f", '{"a":1}'),
            ToolCall("v", "f", '{"b":1.0,"a":2}'),
        ],
        StopReason.SEQUENCE,
        "END",
    )
    assert list(losses.codes) == ["citations", "foreign_block", "stop_details"]


# -- whatever comes -----------------------------------------------------------------------------------------------


KINDS = st.sampled_from(("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use"))
DELTAS = st.sampled_from(("text_delta", "thinking_delta", "input_json_delta", "signature_delta", "citations_delta"))
TYPES = ("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta")
INDEX = st.integers(0, 3)
EVENTS = (
    st.builds(lambda index, kind, text: start(index, kind, text=text, thinking=text, data=text, id="t", name="f"),
              INDEX, KINDS, st.text("ab", max_size=2))
    | st.builds(lambda index, kind, text: delta(index, kind, text=text, thinking=text, partial_json=text,
                                                signature=text), INDEX, DELTAS, st.text("ab", max_size=2))
    | st.builds(stop, INDEX)
)  # fmt: skip


@given(st.lists(st.dictionaries(st.sampled_from(("type", "index", "delta", "content_block", "message", "usage")),
                                st.sampled_from(TYPES) | JSON)))  # fmt: skip
def test_nothing_that_may_come_raises(payloads: list[dict[str, Any]]) -> None:
    for payload in payloads:
        events, _ = read(payload, *payloads, {"type": "message_stop"})
        assert sum(isinstance(event, Ended | Failed) for event in events) == 1
        assert isinstance(MessagesAnswerReader(Losses()).read_whole(payload), Answer)


@given(st.lists(EVENTS, max_size=30))
def test_every_text_comes_out_once_and_every_block_that_opens_closes(payloads: list[dict[str, Any]]) -> None:
    before = read(*payloads)[0]
    events, lost = read(*payloads, change(), STOP)
    opened = [event.at for event in events if isinstance(event, Opened)]
    closed = [event.at for event in events if isinstance(event, Closed)]
    assert sorted(opened) == sorted(closed)
    assert len(set(opened)) == len(opened)
    assert sum(len(text) for _, text in said(events)) == sum(len(e.text) for e in before if isinstance(e, Grew))
    assert set(lost) <= {"foreign_block", "citations"}
