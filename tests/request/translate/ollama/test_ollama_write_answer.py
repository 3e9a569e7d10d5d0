"""What is written is a line of JSON each, the last one with `done`; folded, a stream is the whole answer."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

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
from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.domain.prompt import Prompt, Redacted, Refusal, Text, Thinking, ToolCall
from stoker.request.codec.own_replies import rfc3339
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.neutral.json_text import encode
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.ollama.write_answer import OllamaAnswerWriter, load_answer

CREATED = "2023-11-14T22:13:20Z"
SIGNER = ThinkingSigner((b"k",))
KINDS = {
    Text: BlockKind.TEXT,
    Thinking: BlockKind.THINKING,
    Refusal: BlockKind.REFUSAL,
    Redacted: BlockKind.REDACTED,
    ToolCall: BlockKind.CALL,
}


def writer(generate: bool = False) -> OllamaAnswerWriter:
    dialect = Dialect.OLLAMA_GENERATE if generate else Dialect.OLLAMA_CHAT
    asked = AnswerContext(Prompt(dialect, "asked", [], stream=True), "req_1", 1700000000, SIGNER, "served")
    return OllamaAnswerWriter(asked, Losses())


def events(answer: Answer, size: int = 3) -> list[Event]:
    """A stream that says the same."""
    out: list[Event] = [Began(answer.id, answer.model)]
    for at, said in enumerate(answer.blocks):
        text = said.arguments if isinstance(said, ToolCall) else said.data if isinstance(said, Redacted) else said.text
        call = said if isinstance(said, ToolCall) else ToolCall("", "", "")
        out.append(Opened(at, KINDS[type(said)], call.id, call.name))
        out += (Grew(at, text[cut : cut + size]) for cut in range(0, len(text), size))
        if isinstance(said, Thinking) and said.signature:
            out.append(Signed(at, said.signature))
        out.append(Closed(at))
    return [*out, Finished(answer.stop, answer.sequence), Counted(answer.tokens), Ended()]


def lines(made: OllamaAnswerWriter, told: list[Event]) -> list[dict[str, Any]]:
    out = b"".join(made.write(event) for event in told)
    assert out.endswith(b"\n")
    assert set(made.losses.codes) <= set(LOSSY)
    return [json.loads(line) for line in out.splitlines()]


def folded(found: list[dict[str, Any]]) -> dict[str, Any]:
    """As a client does it: texts are joined, calls are listed, the last line says the rest."""
    out = dict(found[-1])
    messages = [line["message"] for line in found] if "message" in out else found
    texts = {
        name: "".join(message.get(name, "") for message in messages) for name in ("content", "response", "thinking")
    }
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    said = {name: text for name, text in texts.items() if text or name in messages[-1]}
    return out | ({"message": {"role": "assistant", **said} | ({"tool_calls": calls} if calls else {})}
                  if "message" in out else said)  # fmt: skip


ANSWERS = [
    Answer("a", "m", [Text("Hello \n\u2028 you")], tokens=Tokens(input=7, output=2)),
    Answer("a", "m", [Thinking("let me see"), Text("4")], stop=StopReason.LENGTH, tokens=Tokens(input=7)),
    Answer("a", "m", [Text("I'll look"), ToolCall("c1", "weather", '{"city": "Ulm"}'), ToolCall("", "clock", "")],
           stop=StopReason.CALLS),
    Answer("a", "m", [Refusal("no, never")], stop=StopReason.FILTERED),
    Answer("a", "m", [Thinking("x", "theirs"), Thinking("y", SIGNER.sign("m", "y")), Redacted("zzz"), Text("t")]),
    Answer("a", "m", [ToolCall("c1", "f", '{"a": [1, 2'), Text("and")], stop=StopReason.CONTEXT),
    Answer("a", "m", [ToolCall("c1", "f", "no JSON")], stop=StopReason.SEQUENCE, sequence="END"),
    Answer("a", "", []),
]  # fmt: skip


@pytest.mark.parametrize("generate", [False, True])
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_stream_folds_to_the_whole_answer(answer: Answer, generate: bool) -> None:
    made, whole = writer(generate), writer(generate)
    assert folded(lines(made, events(answer))) == json.loads(encode(whole.write_whole(answer)))
    assert set(made.losses.codes) == set(whole.losses.codes)


def test_each_piece_is_a_line_and_the_last_has_the_counts() -> None:
    first, second, last = lines(writer(), events(Answer("a", "m", [Text("Hello")], tokens=Tokens(input=7, output=2))))
    start = {"model": "m", "created_at": CREATED}
    assert first == start | {"message": {"role": "assistant", "content": "Hel"}, "done": False}
    assert second == start | {"message": {"role": "assistant", "content": "lo"}, "done": False}
    assert last == start | {
        "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop",
        "prompt_eval_count": 7, "eval_count": 2,
    }  # fmt: skip


def test_generate_answers_without_a_message() -> None:
    told = events(Answer("a", "m", [Thinking("hm"), Text("Hi")]))
    start = {"model": "m", "created_at": CREATED}
    assert lines(writer(generate=True), told) == [
        start | {"response": "", "thinking": "hm", "done": False},
        start | {"response": "Hi", "done": False},
        start | {"response": "", "done": True, "done_reason": "stop"},
    ]


def test_counts_are_told_only_where_they_are_known() -> None:
    told = [Began("a", "m", Tokens(input=7)), Finished(StopReason.END), Ended()]
    (line,) = lines(writer(), told)
    assert line["prompt_eval_count"] == 7
    assert "eval_count" not in line
    assert not [name for name in line if name.endswith("_duration")]


def test_a_call_goes_out_whole_when_it_is_closed() -> None:
    made = writer()
    for event in (Began("a", "m"), Opened(0, BlockKind.CALL, "c1", "f"), Grew(0, '{"a":'), Grew(0, " 1.50}")):
        assert made.write(event) == b""
    line = made.write(Closed(0))
    assert b'"arguments":{"a": 1.50}' in line
    assert json.loads(line)["message"] == {
        "role": "assistant", "content": "", "tool_calls": [
            {"id": "c1", "function": {"index": 0, "name": "f", "arguments": {"a": 1.5}}}
        ],
    }  # fmt: skip


def test_calls_are_numbered_and_an_id_is_told_only_where_there_is_one() -> None:
    told = events(Answer("a", "m", [ToolCall("", "f", "{}"), Text("and"), ToolCall("c", "g", '{"x": null}')]))
    assert [line["message"]["tool_calls"] for line in lines(writer(), told) if "tool_calls" in line["message"]] == [
        [{"function": {"index": 0, "name": "f", "arguments": {}}}],
        [{"id": "c", "function": {"index": 1, "name": "g", "arguments": {"x": None}}}],
    ]


@pytest.mark.parametrize(
    ("said", "chat", "generate"),
    [(ToolCall("c", "f", '{"a": 1'), ["truncated_call"], ["call"]), (ToolCall("c", "f", "{}"), [], ["call"]),
     (Refusal("no"), ["refusal"], ["refusal"]), (Redacted("x"), ["thinking_redacted"], ["thinking_redacted"]),
     (Thinking("x", "theirs"), ["signature"], ["signature"]), (Thinking("x", SIGNER.sign("m", "x")), [], []),
     (Thinking("x"), [], []), (Text("x"), [], [])],
)  # fmt: skip
def test_what_cannot_be_said_is_a_loss(said: AnswerBlock, chat: list[str], generate: list[str]) -> None:
    for makes_text, expected in ((False, chat), (True, generate)):
        made, whole = writer(makes_text), writer(makes_text)
        lines(made, events(Answer("a", "m", [said])))
        whole.write_whole(Answer("a", "m", [said]))
        assert list(made.losses.codes) == list(whole.losses.codes) == expected


def test_arguments_that_are_no_object_are_kept_as_they_came() -> None:
    made = writer()
    called = lines(made, events(Answer("a", "m", [ToolCall("c", "f", "x y")])))[0]["message"]["tool_calls"][0]
    assert called["function"]["arguments"] == {"_raw": "x y"}
    assert "arguments" in made.losses.codes


@pytest.mark.parametrize("stop", StopReason)
def test_an_answer_ends_by_itself_or_by_its_length(stop: StopReason) -> None:
    made = writer()
    line = lines(made, events(Answer("a", "m", stop=stop)))[-1]
    assert line["done_reason"] == ("length" if stop in (StopReason.LENGTH, StopReason.CONTEXT) else "stop")
    assert list(made.losses.codes) == (["stop_reason"] if stop is StopReason.FILTERED else [])


def test_which_stop_string_came_cannot_be_told() -> None:
    made = writer()
    lines(made, events(Answer("a", "m", stop=StopReason.SEQUENCE, sequence="END")))
    assert list(made.losses.codes) == ["stop_string"]


def test_a_stream_whose_reason_never_came_ends_with_stop() -> None:
    assert lines(writer(), [Began("a", "m"), Ended()])[-1]["done_reason"] == "stop"


@pytest.mark.parametrize("generate", [False, True])
def test_a_failure_is_a_line_with_its_text(generate: bool) -> None:
    made = writer(generate)
    error = UpstreamError("it broke")
    assert made.write(Failed(error)) == made.fail(error) == b'{"error":"it broke"}\n'


@pytest.mark.parametrize("unload", [False, True])
def test_a_request_that_only_loads_has_an_answer_of_its_own(unload: bool) -> None:
    end = {"model": "m", "created_at": CREATED, "done": True, "done_reason": "unload" if unload else "load"}
    assert load_answer("m", 1700000000, unload, generate=True) == end | {"response": ""}
    assert load_answer("m", 1700000000, unload, generate=False) == end | {
        "message": {"role": "assistant", "content": ""}
    }


def test_times_are_utc_to_the_second() -> None:
    assert (rfc3339(1700000000), rfc3339(1700000000.9), rfc3339(0)) == (CREATED, CREATED, "1970-01-01T00:00:00Z")


def test_long_arguments_in_many_pieces_cost_linear_time() -> None:
    text = json.dumps({"a": "x" * 1_000_000})
    began = time.process_time()
    line = lines(writer(), events(Answer("a", "m", [ToolCall("c", "f", text)]), size=10))[0]
    assert time.process_time() - began < 5.0
    assert line["message"]["tool_calls"][0]["function"]["arguments"] == json.loads(text)
