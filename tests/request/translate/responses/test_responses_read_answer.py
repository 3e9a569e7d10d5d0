"""What a serve that speaks Responses answers, however badly it does: nothing is lost, said twice, or raised."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.linear import assert_linear

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
    Signed,
    StopReason,
    Tokens,
)
from stoker.domain.errors import ClientError, UpstreamError
from stoker.domain.prompt import Refusal, Text, Thinking, ToolCall
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.responses.read_answer import ResponsesAnswerReader

Payload = dict[str, Any]
CREATED = {"type": "response.created", "response": {"id": "resp_1", "model": "m", "usage": None, "error": None}}


def completed(*output: Payload, kind: str = "completed", **more: Any) -> Payload:
    return {"type": f"response.{kind}", "response": {"id": "resp_1", "status": kind, "output": list(output), **more}}


def item(stage: str, given: Payload, index: int | None = 0) -> Payload:
    return {"type": f"response.output_item.{stage}", "output_index": index, "item": given}


def delta(name: str, text: Any, id: Any = "i", index: Any = 0, **more: Any) -> Payload:
    return {"type": f"response.{name}.delta", "item_id": id, "output_index": index, "delta": text, **more}


def done(event: str, field: str, text: str, id: str = "i", index: Any = 0, **more: Any) -> Payload:
    return {"type": f"response.{event}.done", "item_id": id, "output_index": index, field: text, **more}


def message(*parts: Payload | str, id: str = "i") -> Payload:
    content = [{"type": "output_text", "text": part, "annotations": []} if isinstance(part, str) else part
               for part in parts]  # fmt: skip
    return {"type": "message", "id": id, "role": "assistant", "content": content}


def call(arguments: Any = "", id: str = "i", call_id: str = "call_1", name: str = "f") -> Payload:
    return {"type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": arguments}


def reasoning(*thoughts: str, id: str = "i", summary: tuple[str, ...] = (), sealed: str | None = None) -> Payload:
    return {
        "type": "reasoning",
        "id": id,
        "content": [{"type": "reasoning_text", "text": text} for text in thoughts],
        "summary": [{"type": "summary_text", "text": text} for text in summary],
        "encrypted_content": sealed,
    }


def events(*payloads: Payload, lost: list[str] | None = None) -> list[Event]:
    reader = ResponsesAnswerReader(Losses())
    out = [event for payload in payloads for event in reader.read(payload)]
    assert reader.finish() == []
    assert list(reader.losses.codes) == (lost or [])
    assert set(reader.losses.codes) <= set(LOSSY)
    return out


def folded(out: list[Event]) -> list[AnswerBlock]:
    """The blocks that events make, with the grammar of events held to."""
    blocks: dict[int, Opened] = {}
    texts: dict[int, list[str]] = {}
    signatures: dict[int, str] = {}
    closed: set[int] = set()
    for event in out:
        match event:
            case Opened(at=at):
                assert at == len(blocks)
                blocks[at], texts[at] = event, []
            case Grew(at=at, text=text):
                assert text
                assert at in blocks
                assert at not in closed
                texts[at].append(text)
            case Signed(at=at, signature=signature):
                assert at not in closed
                assert blocks[at].kind is BlockKind.THINKING
                signatures[at] = signature
            case Closed(at=at):
                assert at in blocks
                assert at not in closed
                closed.add(at)
            case Finished():
                assert closed == set(blocks)
    return [_said(opened, "".join(texts[at]), signatures.get(at, "")) for at, opened in blocks.items()]


def _said(opened: Opened, text: str, signature: str) -> AnswerBlock:
    match opened.kind:
        case BlockKind.TEXT:
            return Text(text)
        case BlockKind.REFUSAL:
            return Refusal(text)
        case BlockKind.THINKING:
            return Thinking(text, signature)
    return ToolCall(opened.id, opened.name, text, opened.custom)


def said(*payloads: Payload, lost: list[str] | None = None) -> list[AnswerBlock]:
    return folded(events(*payloads, lost=lost))


# -- as OpenAI sends it -------------------------------------------------------------------------------------------


def test_a_whole_stream_as_openai_sends_it() -> None:
    usage = {
        "input_tokens": 1000, "input_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 5},
        "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 7}, "total_tokens": 1020,
    }  # fmt: skip
    found = events(
        CREATED,
        {"type": "response.in_progress", "response": {"id": "resp_1"}},
        item("added", {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "early"}, 0),
        {"type": "response.reasoning_summary_part.added", "item_id": "rs", "output_index": 0, "summary_index": 0},
        delta("reasoning_summary_text", "hm", "rs", 0, summary_index=0),
        done("reasoning_summary_text", "text", "hm", "rs", 0, summary_index=0),
        delta("reasoning_summary_text", "so", "rs", 0, summary_index=1),
        item("done", reasoning(id="rs", summary=("hm", "so"), sealed="gAAAA"), 0),
        item("added", message(id="msg"), 1),
        {"type": "response.content_part.added", "item_id": "msg", "output_index": 1, "content_index": 0, "part": {}},
        delta("output_text", "Hel", "msg", 1, content_index=0, logprobs=[]),
        delta("output_text", "lo", "msg", 1, content_index=0, logprobs=[]),
        done("output_text", "text", "Hello", "msg", 1, content_index=0),
        item("done", message("Hello", id="msg"), 1),
        item("added", call(id="fc"), 2),
        delta("function_call_arguments", '{"a":', "fc", 2),
        delta("function_call_arguments", "1}", "fc", 2),
        done("function_call_arguments", "arguments", '{"a":1}', "fc", 2),
        item("done", call('{"a":1}', id="fc"), 2),
        completed(reasoning(id="rs", sealed="x"), message("Hello", id="msg"), call("{}", id="fc"), usage=usage),
    )
    assert found == [
        Began("resp_1", "m"),
        Opened(0, BlockKind.THINKING), Grew(0, "hm"), Grew(0, "\n\nso"), Signed(0, "gAAAA"), Closed(0),
        Opened(1, BlockKind.TEXT), Grew(1, "Hel"), Grew(1, "lo"), Closed(1),
        Opened(2, BlockKind.CALL, "call_1", "f"), Grew(2, '{"a":'), Grew(2, "1}"), Closed(2),
        Counted(Tokens(1000, 800, 5, 20, 7)), Finished(StopReason.CALLS), Ended(),
    ]  # fmt: skip


def test_nothing_is_read_behind_the_terminal_event() -> None:
    assert events(CREATED, completed(), delta("output_text", "x"), completed())[1:] == [
        Finished(StopReason.END),
        Ended(),
    ]


@pytest.mark.parametrize(
    ("details", "stop"),
    [
        ({"reason": "max_output_tokens"}, StopReason.LENGTH),
        ({"reason": "content_filter"}, StopReason.FILTERED),
        (None, StopReason.LENGTH),
    ],
)
def test_an_incomplete_response_is_an_end_langwatch_6207(details: Any, stop: StopReason) -> None:
    end = completed(kind="incomplete", incomplete_details=details)
    assert events(CREATED, delta("output_text", "x"), end)[-2:] == [Finished(stop), Ended()]
    by_status = {**end, "type": "response.completed"}
    assert events(CREATED, by_status)[-2:] == [Finished(stop), Ended()]
    whole = ResponsesAnswerReader(Losses()).read_whole(end["response"])
    assert whole.stop is stop


def test_a_response_cut_in_its_call_tells_the_length_and_keeps_what_came() -> None:
    found = events(
        item("added", call()),
        delta("function_call_arguments", '{"a'),
        completed(call('{"a'), kind="incomplete"),
    )
    assert folded(found) == [ToolCall("call_1", "f", '{"a')]
    assert found[-2:] == [Finished(StopReason.LENGTH), Ended()]


# -- as others send it --------------------------------------------------------------------------------------------


def test_arguments_only_in_done_are_one_piece_litellm_25321() -> None:
    arguments = '{"city": "Z\u00fcrich"}'
    found = events(CREATED, item("added", call()), done("function_call_arguments", "arguments", arguments))
    assert found[1:] == [Opened(0, BlockKind.CALL, "call_1", "f"), Grew(0, arguments), Closed(0)]


def test_arguments_only_in_the_done_item_are_one_piece() -> None:
    assert said(item("added", call()), item("done", call('{"a":1}'))) == [ToolCall("call_1", "f", '{"a":1}')]
    assert said(item("done", call({"a": 1}))) == [ToolCall("call_1", "f", '{"a":1}')]


def test_a_stream_that_begins_with_a_delta_loses_none_litellm_22102() -> None:
    found = events(delta("output_text", "Hi"), delta("output_text", " there"), completed(message("Hi there")))
    assert found == [
        Began("", ""),
        Opened(0, BlockKind.TEXT),
        Grew(0, "Hi"),
        Grew(0, " there"),
        Closed(0),
        Finished(StopReason.END),
        Ended(),
    ]


def test_every_call_becomes_a_call_litellm_19368() -> None:
    payloads = []
    for index in range(3):
        payloads += [
            item("added", call(id=f"fc_{index}", call_id=f"c{index}"), index),
            delta("function_call_arguments", "{}", f"fc_{index}", index),
            item("done", call("{}", id=f"fc_{index}", call_id=f"c{index}"), index),
        ]
    found = events(CREATED, *payloads, completed())
    assert folded(found) == [ToolCall(f"c{index}", "f", "{}") for index in range(3)]
    assert Finished(StopReason.CALLS) in found


def test_a_call_of_a_custom_tool_has_any_text() -> None:
    given = {"type": "custom_tool_call", "id": "i", "call_id": "c", "name": "p", "input": ""}
    full = {**given, "input": "*** Begin"}
    expected = [ToolCall("c", "p", "*** Begin", custom=True)]
    assert said(item("added", given), delta("custom_tool_call_input", "*** "),
                delta("custom_tool_call_input", "Begin"), item("done", full)) == expected  # fmt: skip
    assert said(item("added", given), done("custom_tool_call_input", "input", "*** Begin")) == expected
    assert said(delta("custom_tool_call_input", "*** Begin"), completed(full)) == expected
    unnamed = [ToolCall("i", "", "*** Begin", custom=True)]
    assert said(delta("custom_tool_call_input", "*** Begin"), completed()) == unnamed


def test_pieces_of_a_call_wait_for_its_name() -> None:
    found = events(
        CREATED,
        delta("function_call_arguments", '{"a"'),
        delta("function_call_arguments", ":1}"),
        done("function_call_arguments", "arguments", '{"a":1}', name="f"),
        item("done", call('{"a":1}')),
    )
    assert found[1:] == [Opened(0, BlockKind.CALL, "call_1", "f"), Grew(0, '{"a":1}'), Closed(0)]


def test_pieces_of_a_call_that_is_over_are_dropped() -> None:
    over = done("function_call_arguments", "arguments", "{}")
    assert said(item("added", call()), over, delta("function_call_arguments", "x"), over) == [
        ToolCall("call_1", "f", "{}")
    ]


def test_a_call_that_never_got_an_item_is_still_a_call() -> None:
    found = events(done("function_call_arguments", "arguments", "{}", name="f"), completed())
    assert folded(found) == [ToolCall("i", "f", "{}")]
    assert Finished(StopReason.CALLS) in found


def test_a_call_announced_without_its_call_id_gets_it_when_it_is_done() -> None:
    early = {**call(), "call_id": None}
    found = said(item("added", early), delta("function_call_arguments", "{}"), item("done", call("{}")))
    assert found == [ToolCall("call_1", "f", "{}")]
    assert said(item("added", early), item("done", {**early, "arguments": "{}"})) == [ToolCall("i", "f", "{}")]


def test_text_never_streamed_comes_with_its_done() -> None:
    assert said(item("added", message()), done("output_text", "text", "Hi")) == [Text("Hi")]
    assert said(item("added", message()), item("done", message("Hi"))) == [Text("Hi")]
    assert said(done("refusal", "refusal", "no"), item("done", message({"type": "refusal", "refusal": "no"}))) == [
        Refusal("no")
    ]


def test_what_the_terminal_event_alone_holds_is_given_out() -> None:
    found = events(
        CREATED,
        delta("output_text", "Hi", "a", 0),
        completed(message("Hi", id="a"), message("again", id="b"), call("{}", id="c"), reasoning("hm", id="d")),
    )
    assert folded(found) == [Text("Hi"), Text("again"), ToolCall("call_1", "f", "{}"), Thinking("hm")]


def test_text_that_was_streamed_is_not_said_again_by_later_events() -> None:
    full = message("Hi")
    found = said(
        delta("output_text", "Hi"),
        done("output_text", "text", "Hi"),
        done("output_text", "text", "Hi"),
        delta("output_text", "late"),
        item("done", full),
        item("done", full),
        delta("output_text", "later"),
        completed(full),
    )
    assert found == [Text("Hi")]


def test_ids_that_change_with_each_event_are_one_item_by_their_index() -> None:
    found = said(
        item("added", message(id="a")),
        delta("output_text", "H", "b"),
        delta("output_text", "i", "c"),
        item("done", message("Hi", id="d")),
        completed(message("Hi", id="e")),
    )
    assert found == [Text("Hi")]


def test_items_that_all_have_the_same_index_are_told_apart_by_their_ids() -> None:
    found = said(
        item("added", message(id="a")),
        delta("output_text", "Hi", "a"),
        item("added", call(id="b")),
        delta("function_call_arguments", "{}", "b"),
        item("done", message("Hi", id="a")),
        item("done", call("{}", id="b")),
        completed(message("Hi", id="a"), call("{}", id="b")),
    )
    assert found == [Text("Hi"), ToolCall("call_1", "f", "{}")]


def test_items_without_an_index_are_found_by_any_id() -> None:
    found = said(
        item("added", message(id="a"), None),
        delta("output_text", "Hi", "a", None),
        item("added", call(id=""), None),
        item("done", call("{}", id=""), None),
    )
    assert found == [Text("Hi"), ToolCall("call_1", "f", "{}")]


def test_a_final_output_in_another_order_is_matched_by_call_id() -> None:
    found = said(
        item("added", call(id="", call_id="c1"), 0),
        delta("function_call_arguments", "{}", "", 0),
        completed(message("Hi", id="new"), call("{}", id="other", call_id="c1")),
    )
    assert found == [ToolCall("c1", "f", "{}"), Text("Hi")]


def test_an_item_announced_late_is_the_one_that_already_grew() -> None:
    found = said(delta("output_text", "Hi"), item("added", message()), item("done", message("Hi")))
    assert found == [Text("Hi")]


def test_parts_of_a_message_are_blocks_of_their_own() -> None:
    refusal = {"type": "refusal", "refusal": "no"}
    found = said(
        delta("output_text", "a", content_index=0),
        delta("output_text", "b", content_index=1),
        delta("refusal", "no", content_index=2),
        item("done", message("a", "b", refusal, "c")),
    )
    assert found == [Text("a"), Text("b"), Refusal("no"), Text("c")]


def test_a_part_without_its_index_is_the_first() -> None:
    """llama.cpp leaves `content_index` out."""
    assert said(delta("output_text", "a"), delta("output_text", "b", content_index=0)) == [Text("ab")]


def test_empty_text_is_none() -> None:
    found = said(
        item("added", message()), delta("output_text", ""), done("output_text", "text", ""), item("done", message(""))
    )
    assert found == []


# -- thinking -----------------------------------------------------------------------------------------------------


def test_open_thinking_is_thinking() -> None:
    found = said(
        item("added", reasoning()),
        delta("reasoning_text", "h", content_index=0),
        delta("reasoning_text", "m", content_index=0),
        done("reasoning_text", "text", "hm", content_index=0),
        item("done", reasoning("hm")),
    )
    assert found == [Thinking("hm")]


def test_summaries_only_in_their_done_are_joined_by_a_blank_line() -> None:
    found = said(
        done("reasoning_summary_text", "text", "a", summary_index=0),
        done("reasoning_summary_text", "text", "b", summary_index=1),
        item("done", reasoning(summary=("a", "b"), sealed="s")),
    )
    assert found == [Thinking("a\n\nb", "s")]
    assert said(item("done", reasoning(summary=("a", "b")))) == [Thinking("a\n\nb")]


def test_of_an_item_with_words_and_summary_one_is_given() -> None:
    streamed = said(
        delta("reasoning_text", "words", content_index=0),
        delta("reasoning_summary_text", "gist", summary_index=0),
        item("done", reasoning("words", summary=("gist",))),
    )
    assert streamed == said(item("done", reasoning("words", summary=("gist",)))) == [Thinking("words")]


def test_a_signature_comes_from_the_done_item_alone_right_before_the_end() -> None:
    early = {**reasoning(), "encrypted_content": "partial"}
    found = events(CREATED, item("added", early), delta("reasoning_text", "hm"), item("done", reasoning(sealed="s")))
    assert found[1:] == [Opened(0, BlockKind.THINKING), Grew(0, "hm"), Signed(0, "s"), Closed(0)]


def test_thinking_without_words_keeps_its_signature() -> None:
    assert said(item("added", reasoning()), item("done", reasoning(sealed="s"))) == [Thinking("", "s")]


def test_thinking_of_which_nothing_is_known_is_none() -> None:
    assert said(item("added", reasoning()), item("done", reasoning()), completed(reasoning())) == []


# -- what is lost, and failures -----------------------------------------------------------------------------------


def test_items_that_the_vendor_ran_are_dropped() -> None:
    search = {"type": "web_search_call", "id": "ws", "status": "completed"}
    found = said(
        item("added", search),
        {"type": "response.web_search_call.searching", "item_id": "ws", "output_index": 0},
        item("done", search),
        completed(search, message("Hi", id="m")),
        lost=["foreign_block"],
    )
    assert found == [Text("Hi")]


def test_annotations_are_dropped() -> None:
    noted = {"type": "output_text", "text": "Hi", "annotations": [{"type": "url_citation"}]}
    assert said(item("done", message(noted)), lost=["annotations"]) == [Text("Hi")]
    assert said({"type": "response.output_text.annotation.added"}, lost=["annotations"]) == []


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "error", "code": "server_error", "message": "boom", "param": None, "sequence_number": 3},
        {"type": "response.error", "error": {"code": "server_error", "message": "boom"}},
        {"type": "response.error"},
        {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "boom"}}},
        {"type": "response.failed", "response": None},
        {"error": {"message": "boom"}},
    ],
)
def test_a_failure_ends_the_answer(payload: Payload) -> None:
    found = events(CREATED, delta("output_text", "x"), payload, completed())
    assert isinstance(found[-1], Failed)
    assert isinstance(found[-1].error, UpstreamError)
    assert "boom" not in found[-1].error.message


def test_a_callers_fault_keeps_its_words() -> None:
    (failed,) = events({"type": "response.failed", "response": {"error": {"code": 400, "message": "too long"}}})
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, ClientError)
    assert failed.error.message == "too long"


def test_a_stream_without_its_end_has_none() -> None:
    assert not any(isinstance(event, Finished | Ended) for event in events(CREATED, delta("output_text", "x")))


@pytest.mark.parametrize("usage", [None, 3, {}, {"input_tokens": -1, "output_tokens": True, "input_tokens_details": 3}])
def test_what_was_not_counted_is_unknown(usage: Any) -> None:
    counted = [event for event in events(completed(usage=usage)) if isinstance(event, Counted)]
    assert counted == ([Counted(Tokens())] if isinstance(usage, dict) else [])
    assert ResponsesAnswerReader(Losses()).read_whole({"usage": usage}).tokens == Tokens()


# -- whole --------------------------------------------------------------------------------------------------------


def test_a_whole_answer_is_what_its_stream_would_be() -> None:
    custom = {"type": "custom_tool_call", "id": "x", "call_id": "c2", "name": "p", "input": "any"}
    output = [
        reasoning("hm", id="r", sealed="s"), message("Hi", {"type": "refusal", "refusal": "no"}, id="m"),
        call("{}", id="c"), custom, {"type": "mcp_call"},
    ]  # fmt: skip
    usage = {"input_tokens": 3, "output_tokens": 4}
    losses = Losses()
    answer = ResponsesAnswerReader(losses).read_whole({"id": "resp_1", "model": "m", "output": output, "usage": usage})
    blocks: list[AnswerBlock] = [
        Thinking("hm", "s"), Text("Hi"), Refusal("no"), ToolCall("call_1", "f", "{}"), ToolCall("c2", "p", "any", True),
    ]  # fmt: skip
    assert answer == Answer("resp_1", "m", blocks, StopReason.CALLS, None, Tokens(3, None, None, 4))
    assert list(losses.codes) == ["foreign_block"]
    assert said(completed(*output), lost=["foreign_block"]) == blocks


def test_a_whole_answer_of_nothing_is_empty() -> None:
    assert ResponsesAnswerReader(Losses()).read_whole({}) == Answer("", "")


# -- hostile ------------------------------------------------------------------------------------------------------

NAMES = [
    "output_text", "refusal", "reasoning_text", "reasoning_summary_text", "function_call_arguments",
    "custom_tool_call_input", "output_item", "completed", "incomplete", "created", "x",
]  # fmt: skip
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "i", "j", "message", "function_call"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "id"]), inner),
    max_leaves=4,
)
ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["message", "reasoning", "function_call", "custom_tool_call", "mcp_call"]) | ANY,
        "id": st.sampled_from(["i", "j"]) | ANY,
        "call_id": st.sampled_from(["c", "d"]) | ANY,
        "name": st.just("f") | ANY,
        "arguments": st.just("{}") | ANY,
        "input": ANY,
        "content": st.lists(st.fixed_dictionaries({"text": st.just("t") | ANY})) | ANY,
        "summary": st.lists(st.fixed_dictionaries({"text": st.just("t") | ANY})) | ANY,
        "encrypted_content": st.just("s") | ANY,
    },
)
STAGES = [".delta", ".done", ".added", ""]
PAYLOADS = st.fixed_dictionaries(
    {"type": st.builds("response.{}{}".format, st.sampled_from(NAMES), st.sampled_from(STAGES))},
    optional={
        "output_index": st.integers(0, 2) | ANY,
        "item_id": st.sampled_from(["i", "j"]) | ANY,
        "content_index": st.integers(0, 1) | ANY,
        "summary_index": st.integers(0, 1) | ANY,
        "delta": st.just("d") | ANY,
        "text": st.just("t") | ANY,
        "refusal": ANY,
        "arguments": st.just("{}") | ANY,
        "name": ANY,
        "item": ITEMS | ANY,
        "response": st.fixed_dictionaries({"output": st.lists(ITEMS, max_size=3) | ANY, "usage": ANY}) | ANY,
    },
)  # fmt: skip


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(PAYLOADS, max_size=12))
def test_whatever_comes_nothing_is_raised_and_events_keep_their_grammar(payloads: list[Payload]) -> None:
    reader = ResponsesAnswerReader(Losses())
    folded([event for payload in [*payloads, completed()] for event in reader.read(payload)])
    for payload in payloads:
        ResponsesAnswerReader(Losses()).read_whole(payload)
        ResponsesAnswerReader(Losses()).read_whole({"output": [payload.get("item")]})


def test_large_arguments_in_many_pieces_cost_linear_time_litellm_29491() -> None:
    def pieces(count: int) -> list[Payload]:
        parts = [delta("function_call_arguments", "x" * 200) for _ in range(count)]
        return [*parts, item("done", call(json.dumps("x" * 200 * count)))]

    def read(given: list[Payload]) -> None:
        assert said(*given) == [ToolCall("call_1", "f", "x" * 200 * (len(given) - 1))]

    assert_linear(pieces, read, 5_000)
