"""Whatever an engine makes of chat, each word of it is read once, in its block, and nothing is ever raised."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.answer import (
    Answer,
    AnswerBlock,
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
    StopReason,
    Tokens,
)
from stoker.domain.errors import CapacityError, ClientError, UpstreamError
from stoker.domain.prompt import Refusal, Text, Thinking, ToolCall
from stoker.request.translate.chat import read_answer
from stoker.request.translate.chat.read_answer import ChatAnswerReader
from stoker.request.translate.neutral import calls
from stoker.request.translate.neutral.block_sequencer import BlockSequencer
from stoker.request.translate.neutral.gaps import Losses

SAID = {BlockKind.TEXT: Text, BlockKind.THINKING: Thinking, BlockKind.REFUSAL: Refusal}


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(
    index: int | None = None, id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    """A chunk with one piece of a call; what is None is left out."""
    piece: dict[str, Any] = {} if index is None else {"index": index}
    if id is not None:
        piece["id"] = id
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return chunk(tool_calls=[piece | {"function": function}])


def read(*payloads: dict[str, Any], finish: str | None = "stop") -> list[Event]:
    """All events, a stream with a proper end; each block is opened once, closed once, and grows in between."""
    reader = ChatAnswerReader(Losses())
    out = [event for payload in payloads for event in reader.read(payload)]
    out += reader.read(chunk(finish)) if finish is not None else []
    out += reader.finish()
    opened, closed = set(), set()
    for event in out:
        if isinstance(event, Opened):
            assert event.at not in opened
            opened.add(event.at)
        elif isinstance(event, Grew | Closed):
            assert event.at in opened - closed
            assert isinstance(event, Closed) or event.text
            closed |= {event.at} if isinstance(event, Closed) else set()
    assert opened == closed or not any(isinstance(event, Ended) for event in out)
    return out


def folded(*payloads: dict[str, Any], finish: str | None = "stop") -> list[AnswerBlock]:
    """The blocks as a writer sees them: one at a time."""
    sequence = BlockSequencer()
    blocks: list[AnswerBlock] = []
    for event in read(*payloads, finish=finish):
        for out in sequence.feed(event):
            if isinstance(out, Opened):
                assert out.at == len(blocks)
                is_call = out.kind is BlockKind.CALL
                blocks.append(ToolCall(out.id, out.name, "", out.custom) if is_call else SAID[out.kind](""))
            elif isinstance(out, Grew):
                assert out.at == len(blocks) - 1
                block = blocks[-1]
                if isinstance(block, ToolCall):
                    block.arguments += out.text
                elif isinstance(block, Text | Thinking | Refusal):
                    block.text += out.text
    return blocks


def finished(*payloads: dict[str, Any], finish: str | None = "stop") -> Finished:
    (found,) = (event for event in read(*payloads, finish=finish) if isinstance(event, Finished))
    return found


def whole(finish: Any = "stop", **message: Any) -> Answer:
    payload = {"id": "chatcmpl-1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}
    return ChatAnswerReader(Losses()).read_whole(payload)


# -- text and thinking --------------------------------------------------------------------------------------------


def test_a_stream_begins_grows_and_ends() -> None:
    assert read(chunk(role="assistant", content=""), chunk(content="He"), chunk(content="y")) == [
        Began("chatcmpl-1", "m"),
        Opened(0, BlockKind.TEXT),
        Grew(0, "He"),
        Grew(0, "y"),
        Closed(0),
        Finished(StopReason.END),
        Ended(),
    ]


def test_litellm_30014_the_first_text_is_not_swallowed() -> None:
    assert folded(chunk(role="assistant", content="Hi")) == [Text("Hi")]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_litellm_33224_one_chunk_with_thinking_and_text_gives_both(field: str) -> None:
    found = folded(chunk(**{field: "x"}), chunk(content="y", **{field: "z"}))
    assert found == [Thinking("xz"), Text("y")]


def test_thinking_under_both_names_is_read_once() -> None:
    assert folded(chunk(reasoning_content="hm", reasoning="hm")) == [Thinking("hm")]
    assert folded(chunk(reasoning_content="", reasoning="hm")) == [Thinking("hm")]


def test_thinking_may_stand_in_parts_of_the_content() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Hi"}, 3]
    assert folded(chunk(content=parts)) == [Thinking("hm"), Text("Hi")]
    assert whole(content=parts).blocks == [Thinking("hm"), Text("Hi")]


def test_litellm_33315_empty_deltas_give_nothing() -> None:
    empty = chunk(content="", reasoning_content="", refusal="", tool_calls=[])
    nulls = chunk(content=None, reasoning_content=None, refusal=None, tool_calls=None, function_call=None)
    assert folded(empty, chunk(content="a"), empty, nulls, chunk(content="b")) == [Text("ab")]


def test_a_refusal_is_a_block_of_its_own() -> None:
    assert folded(chunk(content="I"), chunk(refusal="won"), chunk(refusal="'t")) == [Text("I"), Refusal("won't")]


# -- calls --------------------------------------------------------------------------------------------------------


def test_litellm_13638_later_fragments_without_id_and_name_belong_to_the_call() -> None:
    later = {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": ": 'San '}"}}
    assert folded(call(0, "c", "f", '{"a"'), chunk(tool_calls=[later])) == [ToolCall("c", "f", "{\"a\": 'San '}")]


def test_litellm_25836_a_whole_call_in_one_delta_keeps_its_arguments() -> None:
    assert folded(call(0, "c", "f", '{"a":1}')) == [ToolCall("c", "f", '{"a":1}')]
    given = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}]
    assert whole(tool_calls=given).blocks == [ToolCall("c", "f", '{"a":1}')]


def test_litellm_29491_a_large_argument_in_many_fragments_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 MB in 5,000 fragments; each of its characters is looked at no more than once to find its end."""
    looked = 0

    class Watched:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self.pattern = pattern

        def search(self, text: str, begin: int) -> re.Match[str] | None:
            nonlocal looked
            found = self.pattern.search(text, begin)
            looked += (len(text) if found is None else found.end()) - begin
            return found

    monkeypatch.setattr(calls, "INSIDE_STRING", Watched(calls.INSIDE_STRING))
    monkeypatch.setattr(calls, "OUTSIDE_STRING", Watched(calls.OUTSIDE_STRING))
    text = json.dumps({"text": 'line "one"\n' * 80_000})
    size = len(text) // 5000 + 1
    fragments = [text[at : at + size] for at in range(0, len(text), size)]
    assert len(text) > 1_000_000
    payloads = [call(0, "c", "f", "")]
    for at, fragment in enumerate(fragments):  # the id and the name each time: whether it is another call is asked anew
        payloads.append(call(0, f"c{at}" if at % 2 else "c", "f", fragment))
    assert folded(*payloads, call(1, "d", "g", "{}")) == [ToolCall("c", "f", text), ToolCall("d", "g", "{}")]
    assert len(text) // 2 <= looked <= len(text) + 10, "what is escaped is not looked at"


@pytest.mark.parametrize("indices", [(0, 1, 2), (0, 0, 0), (None, None, None)])
def test_litellm_15307_calls_back_to_back_are_calls_of_their_own(indices: tuple[int | None, ...]) -> None:
    payloads = [call(index, f"c{n}", "f", f'{{"n":{n}}}') for n, index in enumerate(indices)]
    assert folded(*payloads) == [ToolCall(f"c{n}", "f", f'{{"n":{n}}}') for n in range(3)]
    pieces = [piece for payload in payloads for piece in payload["choices"][0]["delta"]["tool_calls"]]
    assert folded(chunk(tool_calls=pieces)) == [ToolCall(f"c{n}", "f", f'{{"n":{n}}}') for n in range(3)]


@pytest.mark.parametrize("index", [0, None])
def test_calls_without_ids_are_calls_of_their_own_and_get_ids(index: int | None) -> None:
    found = folded(*(call(index, None, "f", f'{{"n":{n}}}') for n in range(2)))
    assert found == [ToolCall("call_chatcmpl-1_0", "f", '{"n":0}'), ToolCall("call_chatcmpl-1_1", "f", '{"n":1}')]


def test_an_id_is_made_even_where_the_answer_has_none() -> None:
    payload = call(0, None, "f", "{}")
    del payload["id"]
    assert folded(payload) == [ToolCall("call_0", "f", "{}")]
    answer = whole(tool_calls=[{"function": {"name": "f"}}], content="a")
    assert answer.blocks == [Text("a"), ToolCall("call_chatcmpl-1_1", "f", "")]


@pytest.mark.parametrize("index", [0, None])
def test_nanoclaw_1241_the_same_id_and_name_on_each_delta_is_one_call(index: int | None) -> None:
    payloads = [call(index, "c", "f", piece) for piece in ('{"a":', "1", "}", "", "\n")]
    assert folded(*payloads) == [ToolCall("c", "f", '{"a":1}\n')]


@pytest.mark.parametrize("id", [None, "", "other"])
def test_a_name_that_is_repeated_is_no_other_call(id: str | None) -> None:
    assert folded(call(0, "c", "f", '{"a":'), call(0, id, "f", "1}")) == [ToolCall("c", "f", '{"a":1}')]


def test_another_id_with_another_name_is_another_call_even_before_any_arguments() -> None:
    assert folded(call(0, "a", "f", ""), call(0, "b", "g", "{}")) == [ToolCall("a", "f", ""), ToolCall("b", "g", "{}")]


def test_an_id_that_comes_before_the_name_is_kept() -> None:
    assert folded(call(0, "c"), call(0, None, "f", "{}")) == [ToolCall("c", "f", "{}")]
    assert folded(call(0, None, None, '{"a"'), call(0, "c", None, ":"), call(0, None, "f", "1}")) == [
        ToolCall("c", "f", '{"a":1}')
    ]


def test_by_reading_serving_py_pieces_of_several_calls_may_be_mixed() -> None:
    payloads = [
        call(0, "a", "f", '{"x":'), call(1, "b", "g", '{"y":"\\'), call(2, "c", "h", "{"), call(1, None, None, '"}'),
        call(0, None, None, "1}"), call(1, None, None, '"}'), call(2, None, None, "}"),
    ]  # fmt: skip
    assert folded(*payloads) == [
        ToolCall("a", "f", '{"x":1}'),
        ToolCall("b", "g", '{"y":"\\"}"}'),
        ToolCall("c", "h", "{}"),
    ]


def test_without_indexes_pieces_go_by_their_id() -> None:
    payloads = [
        call(None, "a", "f", '{"x":'),
        call(None, "b", "g", '{"y":'),
        call(None, "a", None, "1}"),
        call(None, "b", None, "2}"),
    ]
    assert folded(*payloads) == [ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g", '{"y":2}')]


def test_a_call_closes_when_something_else_begins_behind_its_arguments() -> None:
    found = read(call(0, "a", "f", "{}"), chunk(content="and"), call(1, "b", "f", '{"x"'), chunk(content="then"))
    assert found[1:-3] == [
        Opened(0, BlockKind.CALL, "a", "f"),
        Grew(0, "{}"),
        Closed(0),
        Opened(1, BlockKind.TEXT),
        Grew(1, "and"),
        Closed(1),
        Opened(2, BlockKind.CALL, "b", "f"),
        Grew(2, '{"x"'),
        Opened(3, BlockKind.TEXT),
        Grew(3, "then"),
        Closed(3),
    ]
    assert found[-3] == Closed(2)


def test_what_comes_behind_a_closed_call_is_dropped() -> None:
    assert folded(call(0, "a", "f", "{}"), call(1, "b", "g", "{}"), call(0, None, None, "}")) == [
        ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"),
    ]  # fmt: skip


def test_a_call_that_never_got_a_name_is_still_given() -> None:
    assert folded(call(0, "c", None, '{"a":1}'), chunk(content="x")) == [Text("x"), ToolCall("c", "", '{"a":1}')]


@pytest.mark.parametrize("piece", [{}, {"index": 0}, {"index": 0, "function": {"arguments": ""}}, {"function": 7}])
def test_a_piece_of_nothing_is_no_call(piece: dict[str, Any]) -> None:
    found = read(chunk(content="a"), chunk(tool_calls=[piece, 3]), chunk(content="b"))
    assert found[-2] == Finished(StopReason.END)
    assert folded(chunk(content="a"), chunk(tool_calls=[piece]), chunk(content="b")) == [Text("ab")]


def test_arguments_may_come_as_an_object() -> None:
    assert folded(call(0, "c", "f", {"a": [1, "ü"]}), call(1, "d", "f", [1])) == [
        ToolCall("c", "f", '{"a":[1,"ü"]}'),
        ToolCall("d", "f", ""),
    ]
    given = [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}, {"id": "d", "function": None}]
    assert whole(tool_calls=given).blocks == [ToolCall("c", "f", '{"a":1}'), ToolCall("d", "", "")]


def test_a_call_of_a_custom_tool_is_read_streamed_and_whole() -> None:
    first = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls []"}}
    second = {"index": 1, "id": "d", "type": "custom", "custom": {"name": "sh", "input": "pwd"}}
    later = {"index": 0, "custom": {"input": " -l"}}
    expected = [ToolCall("c", "sh", "ls [] -l", custom=True), ToolCall("d", "sh", "pwd", custom=True)]
    assert folded(*(chunk(tool_calls=[piece]) for piece in (first, second, later))) == expected
    first["custom"] = {"name": "sh", "input": "ls [] -l"}
    assert whole(tool_calls=[first, second]).blocks == expected


def test_the_old_spelling_of_a_call_is_read_too() -> None:
    payloads = [chunk(function_call={"name": "f", "arguments": '{"a"'}), chunk(function_call={"arguments": ":1}"})]
    assert folded(*payloads, finish="function_call") == [ToolCall("call_chatcmpl-1_0", "f", '{"a":1}')]
    assert finished(*payloads, finish="function_call").stop is StopReason.CALLS
    answer = whole("function_call", function_call={"name": "f", "arguments": "{}"})
    assert (answer.blocks, answer.stop) == ([ToolCall("call_chatcmpl-1_0", "f", "{}")], StopReason.CALLS)


def test_calls_beyond_the_most_are_dropped_and_do_not_spill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_answer, "MOST_CALLS", 2)
    payloads = [call(None, f"c{n}", "f", '{"n":') for n in range(4)]
    found = folded(*payloads, call(None, None, None, "late"))
    assert found == [ToolCall("c0", "f", '{"n":'), ToolCall("c1", "f", '{"n":')]


# -- the end ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", StopReason.END),
        ("STOP", StopReason.END),
        ("eos", StopReason.END),
        ("length", StopReason.LENGTH),
        ("MAX_TOKENS", StopReason.LENGTH),
        ("content_filter", StopReason.FILTERED),
        ("model_length", StopReason.CONTEXT),
    ],
)
def test_every_reason_is_read_and_content_filter_is_not_null(reason: str, stop: StopReason) -> None:
    assert finished(finish=reason) == Finished(stop)
    assert whole(reason).stop is stop
    assert whole(reason).failure is None


@pytest.mark.parametrize("reason", ["tool_calls", "function_call"])
def test_calls_that_are_announced_and_not_made_are_none(reason: str) -> None:
    """An agent would wait for them, or ask again for ever."""
    assert finished(chunk(tool_calls=[{"index": 0, "function": {}}]), finish=reason) == Finished(StopReason.END)
    assert whole(reason, content="hi", tool_calls=[]).stop is StopReason.END
    one = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    assert whole(reason, tool_calls=[one]).stop is StopReason.CALLS


@pytest.mark.parametrize("reason", ["abort", "error", "something new"])
def test_an_end_that_nobody_knows_is_a_failure(reason: str) -> None:
    failed = read(chunk(content="half"), finish=reason)[-1]
    assert isinstance(failed, Failed)
    assert failed.error.code == "upstream_error"
    assert whole(reason, content="half").failure is not None


@pytest.mark.parametrize("reason", ["stop", "eos", "tool_calls"])
def test_stop_after_calls_means_the_calls(reason: str) -> None:
    assert finished(call(0, "c", "f", "{}"), finish=reason) == Finished(StopReason.CALLS)
    assert finished(chunk("stop"), call(0, "c", "f", "{}"), finish=None) == Finished(StopReason.CALLS)
    assert whole(reason, tool_calls=[{"id": "c", "function": {"name": "f"}}]).stop is StopReason.CALLS


def test_length_inside_a_call_stays_length() -> None:
    assert finished(call(0, "c", "f", '{"a'), finish="length") == Finished(StopReason.LENGTH)


@pytest.mark.parametrize("field", ["stop_reason", "matched_stop"])
def test_the_stop_string_that_came_is_told(field: str) -> None:
    for matched, found in (
        ("END", Finished(StopReason.SEQUENCE, "END")),
        (151645, Finished(StopReason.END)),
        (None, Finished(StopReason.END)),
    ):
        payload = chunk("stop", content="a")
        payload["choices"][0][field] = matched
        assert finished(payload, finish=None) == found
        message = {"choices": [{"message": {"content": "a"}, "finish_reason": "stop", field: matched}]}
        answer = ChatAnswerReader(Losses()).read_whole(message)
        assert (answer.stop, answer.sequence) == (found.stop, found.sequence)
    payload["choices"][0][field] = "END"
    assert finished(call(0, "c", "f", "{}"), payload, finish=None) == Finished(StopReason.CALLS)


def test_a_stream_without_a_reason_has_no_end() -> None:
    assert read(chunk(content="a"), finish=None)[-1] == Grew(0, "a")
    assert ChatAnswerReader(Losses()).finish() == []


def test_after_the_end_nothing_is_said() -> None:
    reader = ChatAnswerReader(Losses())
    reader.read(chunk("stop", content="a"))
    assert reader.finish()[-1] == Ended()
    assert reader.finish() == reader.read(chunk(content="late")) == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "x", "code": 400}, ClientError),
        ({"type": "overloaded_error"}, CapacityError),
        ("boom", UpstreamError),
    ],
)
def test_an_error_in_the_stream_is_a_failure_and_no_end(error: Any, kind: type) -> None:
    reader = ChatAnswerReader(Losses())
    reader.read(chunk(content="a"))
    (failed,) = reader.read({"error": error})
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, kind)
    assert reader.finish() == reader.read(chunk("stop")) == []


# -- usage --------------------------------------------------------------------------------------------------------

USAGE = {
    "prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020,
    "prompt_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 50},
    "completion_tokens_details": {"reasoning_tokens": 5},
}  # fmt: skip


def test_litellm_28354_usage_with_its_details_is_read_streamed_and_whole() -> None:
    last = {"id": "chatcmpl-1", "choices": [], "usage": USAGE}
    tokens = Tokens(1000, 800, 50, 20, 5)
    assert Counted(tokens) in read(chunk("stop", content="a"), last, finish=None)
    assert ChatAnswerReader(Losses()).read_whole(last).tokens == tokens


def test_envoy_2239_usage_on_every_chunk_is_a_total_each_time() -> None:
    total = Tokens()
    for event in read(
        *({"choices": [], "usage": {"prompt_tokens": 714, "completion_tokens": n}} for n in (0, 60, 120))
    ):
        if isinstance(event, Counted):
            total.update(event.tokens)
    assert total == Tokens(input=714, output=120)


def test_progress_through_the_prompt_tells_its_length_early() -> None:
    progress = {"choices": [], "prompt_progress": {"total": 90, "cache": 30, "processed": 60}}
    assert read(progress)[1] == Counted(Tokens(input=90, cached=30))


def test_counts_that_are_none_are_unknown() -> None:
    usage = {
        "prompt_tokens": True,
        "completion_tokens": -1,
        "prompt_tokens_details": None,
        "completion_tokens_details": 3,
    }
    assert read({"usage": usage})[1] == Counted(Tokens())
    assert not any(isinstance(event, Counted) for event in read({"usage": None, "prompt_progress": 3}))
    assert ChatAnswerReader(Losses()).read_whole({}).tokens == Tokens()


# -- whole answers ------------------------------------------------------------------------------------------------


def test_a_whole_answer_has_all_its_blocks() -> None:
    given = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    answer = whole("tool_calls", reasoning="hm", content="a", refusal="no", tool_calls=given)
    assert answer == Answer(
        "chatcmpl-1", "m", [Thinking("hm"), Text("a"), Refusal("no"), ToolCall("c", "f", "{}")], StopReason.CALLS
    )


def test_a_whole_answer_without_a_reason_ended() -> None:
    assert whole(None, content="a").stop is StopReason.END


@pytest.mark.parametrize("choices", [None, [], [3], {}, [{}], [{"message": "x"}]])
def test_a_whole_answer_of_nothing_is_empty(choices: Any) -> None:
    assert ChatAnswerReader(Losses()).read_whole({"choices": choices}).blocks == []


# -- any upstream -------------------------------------------------------------------------------------------------

FUNCTIONS = st.fixed_dictionaries({}, optional={
    "name": st.sampled_from(["f", "g", "", None]),
    "arguments": st.sampled_from(["{", '"', "\\", "}", "{}", "", None, {}, 3]),
})  # fmt: skip
PIECES = st.fixed_dictionaries({}, optional={
    "index": st.sampled_from([0, 1, 2, None, -1, True, "0"]), "id": st.sampled_from(["a", "b", "", None, 3]),
    "function": FUNCTIONS | st.none(), "custom": st.sampled_from([None, {}, {"name": "sh"}, {"input": "ls"}]),
})  # fmt: skip
DELTAS = st.fixed_dictionaries({}, optional={
    "content": st.sampled_from(["a", "", None, [], [{"text": "b"}], [{"type": "thinking", "thinking": 3}], 3]),
    "reasoning_content": st.sampled_from(["t", None, 3]), "refusal": st.sampled_from(["r", None, {}]),
    "tool_calls": st.lists(PIECES | st.none(), max_size=3) | st.sampled_from([None, {}, "x"]),
    "function_call": st.none() | FUNCTIONS,
})  # fmt: skip
CHOICES = st.fixed_dictionaries({"delta": DELTAS | st.none()}, optional={
    "index": st.sampled_from([0, 0, 1, None, [], "0"]), "finish_reason": st.sampled_from([None, "stop", "length", 3]),
    "stop_reason": st.sampled_from([None, "END", 7]), "message": DELTAS | st.none(),
})  # fmt: skip
PAYLOADS = st.fixed_dictionaries(
    {"choices": st.lists(CHOICES, min_size=1, max_size=2) | st.sampled_from([None, [], [None], 3])},
    optional={"id": st.sampled_from(["x", None, 3]), "usage": st.sampled_from([None, {}, 3, {"prompt_tokens": "x"}]),
              "error": st.sampled_from([None, {}, "", []])},
)  # fmt: skip


@given(st.lists(PAYLOADS, max_size=8))
def test_whatever_comes_is_read_block_by_block_and_nothing_is_raised(payloads: list[dict[str, Any]]) -> None:
    found = read(*payloads)
    assert found[-1] == Ended()
    assert folded(*payloads) is not None
    for payload in payloads:
        assert isinstance(ChatAnswerReader(Losses()).read_whole(payload), Answer)


@given(st.data())
def test_any_cut_of_an_answer_gives_the_same_blocks(data: st.DataObject) -> None:
    texts = st.text(min_size=1, max_size=8)
    thought, text = data.draw(texts), data.draw(texts)
    arguments = [
        json.dumps(data.draw(st.dictionaries(texts, texts, max_size=2))) for _ in range(data.draw(st.integers(0, 3)))
    ]

    def cut(whole: str) -> list[str]:
        at = data.draw(st.integers(0, len(whole)))
        return [whole[:at], whole[at:]]

    payloads = [chunk(reasoning_content=piece) for piece in cut(thought)] + [
        chunk(content=piece) for piece in cut(text)
    ]
    pieces = []
    for n, written in enumerate(arguments):
        first, second = cut(written)
        payloads.append(call(n, f"c{n}", "f", first))
        pieces.append(call(n, None, None, second))
    payloads += data.draw(st.permutations(pieces))
    assert folded(*payloads) == [
        Thinking(thought),
        Text(text),
        *(ToolCall(f"c{n}", "f", a) for n, a in enumerate(arguments)),
    ]


def test_the_end_said_without_a_reason_is_an_end() -> None:
    """Some engines send `[DONE]` and no finish_reason; the end of the connection alone is none."""
    reader = ChatAnswerReader(Losses())
    reader.read(chunk(content="hi"))
    assert reader.finish() == []
    assert reader.finish(is_said=True)[-2:] == [Finished(StopReason.END), Ended()]
    assert ChatAnswerReader(Losses()).finish(is_said=True) == []


def test_an_answer_that_the_engine_gave_up_has_no_normal_end() -> None:
    reader = ChatAnswerReader(Losses())
    reader.read(chunk(content="hi"))
    (failed,) = reader.read(chunk("abort"))
    assert isinstance(failed, Failed)
    assert reader.finish(is_said=True) == []
