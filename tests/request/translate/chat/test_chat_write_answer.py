"""What is written is what the official SDK reads, streamed or not, and both say the same."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

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
from stoker.request.codec.own_replies import ping
from stoker.request.translate.chat.write_answer import STOPS, ChatAnswerWriter, usage_of
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import OURS, ThinkingSigner

KINDS = {
    Text: BlockKind.TEXT,
    Thinking: BlockKind.THINKING,
    Refusal: BlockKind.REFUSAL,
    Redacted: BlockKind.REDACTED,
    ToolCall: BlockKind.CALL,
}


def writer(wants_usage: bool = False) -> ChatAnswerWriter:
    prompt = Prompt(Dialect.CHAT, "asked", [], stream=True, wants_usage=wants_usage)
    asked = AnswerContext(prompt, "req_1", 1700000000, ThinkingSigner((b"k",)), "served")
    return ChatAnswerWriter(asked, Losses())


def events(*said: AnswerBlock, stop: StopReason = StopReason.END, sequence: str | None = None) -> list[Event]:
    """The same answer as events, each text in two pieces."""
    out: list[Event] = [Began("abc", "m")]
    for at, block in enumerate(said):
        call = block if isinstance(block, ToolCall) else ToolCall("", "", "")
        text = call.arguments if isinstance(block, ToolCall) else getattr(block, "text", getattr(block, "data", ""))
        out.append(Opened(at, KINDS[type(block)], call.id, call.name, call.custom))
        out += [Grew(at, piece) for piece in (text[:2], text[2:]) if piece]
        if isinstance(block, Thinking) and block.signature:
            out.append(Signed(at, block.signature))
        out.append(Closed(at))
    return [*out, Finished(stop, sequence), Counted(Tokens(input=7, output=2)), Ended()]


def sdk(body: bytes, content_type: bytes = b"application/json") -> openai.OpenAI:
    transport = httpx2.MockTransport(
        lambda _: httpx2.Response(200, headers=[(b"content-type", content_type)], content=body)
    )
    return openai.OpenAI(
        api_key="k", base_url="http://s/v1", http_client=httpx2.Client(transport=transport), max_retries=0
    )


def chunks(made: ChatAnswerWriter, *told: Event) -> list[ChatCompletionChunk]:
    body = b"".join(made.write(event) for event in told)
    assert body.endswith(b"data: [DONE]\n\n")
    assert set(made.losses.codes) <= set(LOSSY)
    return list(sdk(body, made.content_type).chat.completions.create(model="m", messages=[], stream=True))


def folded(found: list[ChatCompletionChunk]) -> dict[str, Any]:
    """The message that the chunks make, with its finish_reason."""
    message: dict[str, Any] = {}
    calls: list[dict[str, Any]] = []
    finish = None
    for chunk in found:
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            for name, value in choice.delta.to_dict().items():
                if name == "tool_calls":
                    assert isinstance(value, list)
                    for piece in value:
                        index = piece.pop("index")
                        if index == len(calls):
                            calls.append(piece)
                        else:
                            (kind,) = piece
                            for field, more in piece[kind].items():
                                calls[index][kind][field] += more
                elif name != "role":
                    message[name] = message.get(name, "") + value
    return message | ({"tool_calls": calls} if calls else {}) | {"finish_reason": finish}


def whole(made: ChatAnswerWriter, answer: Answer) -> dict[str, Any]:
    """The same of an answer that was not streamed."""
    found = made.write_whole(answer)
    ChatCompletion.model_validate(found, strict=True)
    choice = found["choices"][0]
    message = {name: value for name, value in choice["message"].items() if name != "role" and value is not None}
    return {"content": ""} | message | {"finish_reason": choice["finish_reason"]}


ANSWERS: list[list[AnswerBlock]] = [
    [Text("Hello, \"world\"\n")],
    [Thinking("hm, well"), Text("Hi")],
    [Text("a"), Text("b"), Refusal("I won't")],
    [ToolCall("c1", "f", '{"a": 1}'), ToolCall("c2", "g", ""), ToolCall("c3", "f", "{}")],
    [Text("so"), ToolCall("c1", "sh", "ls {", custom=True), ToolCall("c2", "sh", "", custom=True)],
    [Redacted("xx"), Text("Hi")],
    [],
]  # fmt: skip


@pytest.mark.parametrize("said", ANSWERS)
def test_a_stream_says_what_the_whole_answer_says(said: list[AnswerBlock]) -> None:
    streamed, made = writer(), writer()
    assert folded(chunks(streamed, *events(*said))) == whole(made, Answer("abc", "m", said))
    assert list(streamed.losses.codes) == list(made.losses.codes)


def test_every_chunk_begins_the_same() -> None:
    found = chunks(writer(), *events(Text("Hi"), ToolCall("c", "f", "{}")))
    assert {(c.id, c.object, c.created, c.model) for c in found} == {
        ("chatcmpl-abc", "chat.completion.chunk", 1700000000, "m"),
    }
    assert found[0].choices[0].delta.role == "assistant"
    assert all(chunk.choices[0].delta.role is None for chunk in found[1:])


def test_an_answer_that_the_serve_did_not_name_gets_the_request_s_name() -> None:
    (first, *_) = chunks(writer(), Began("", ""), Finished(StopReason.END), Ended())
    assert (first.id, first.model) == ("chatcmpl-req_1", "served")
    assert writer().write_whole(Answer("chatcmpl-7", ""))["id"] == "chatcmpl-7"


def test_litellm_15307_three_calls_are_three_calls_with_their_names_once() -> None:
    found = chunks(
        writer(), *events(*(ToolCall(f"c{n}", "f", f'{{"n": {n}}}') for n in range(3)), stop=StopReason.CALLS)
    )
    pieces = [call for chunk in found for choice in chunk.choices for call in choice.delta.tool_calls or []]
    assert [(p.index, p.id) for p in pieces if p.id] == [(0, "c0"), (1, "c1"), (2, "c2")]
    assert [p.function.name for p in pieces if p.function is not None and p.function.name] == ["f", "f", "f"]
    assert folded(found)["finish_reason"] == "tool_calls"


def test_usage_has_a_chunk_of_its_own_where_the_client_asked() -> None:
    *rest, last = chunks(writer(wants_usage=True), *events(Text("Hi")))
    assert last.choices == []
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens, last.usage.total_tokens) == (7, 2, 9)
    assert all(chunk.usage is None and chunk.choices for chunk in rest)


def test_a_client_that_did_not_ask_sees_nothing_of_usage() -> None:
    made = writer()
    body = b"".join(made.write(event) for event in events(Text("Hi")))
    assert b"usage" not in body


def test_usage_that_is_not_known_is_not_told() -> None:
    told = (Began("a", "m", Tokens(input=7)), Finished(StopReason.END), Ended())
    assert all(chunk.usage is None for chunk in chunks(writer(wants_usage=True), *told))
    assert "usage" not in writer().write_whole(Answer("a", "m", tokens=Tokens(input=7)))


def test_what_was_known_early_counts() -> None:
    told = (Began("a", "m", Tokens(input=7)), Counted(Tokens(output=1)), Finished(StopReason.END), Ended())
    last = chunks(writer(wants_usage=True), *told)[-1]
    assert last.usage is not None
    assert last.usage.total_tokens == 8


@pytest.mark.parametrize(
    ("tokens", "details"),
    [
        (Tokens(5, None, None, 2), {}),
        (Tokens(5, 0, None, 2), {"prompt_tokens_details": {"cached_tokens": 0}}),
        (Tokens(5, 3, 1, 2, 0), {"prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 1},
                                 "completion_tokens_details": {"reasoning_tokens": 0}}),
    ],
)  # fmt: skip
def test_details_of_usage_are_told_as_far_as_they_are_known(tokens: Tokens, details: dict[str, Any]) -> None:
    assert usage_of(tokens) == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7} | details
    assert writer().write_whole(Answer("a", "m", tokens=tokens))["usage"] == usage_of(tokens)


@pytest.mark.parametrize("stop", StopReason)
def test_every_reason_has_a_word_of_the_dialect(stop: StopReason) -> None:
    assert folded(chunks(writer(), *events(stop=stop)))["finish_reason"] == STOPS[stop]
    assert whole(writer(), Answer("a", "m", stop=stop))["finish_reason"] == STOPS[stop]


def test_a_stream_whose_reason_never_came_ends_with_stop() -> None:
    assert folded(chunks(writer(), Began("a", "m"), Ended()))["finish_reason"] == "stop"


def test_which_stop_string_came_cannot_be_told() -> None:
    streamed, made = writer(), writer()
    chunks(streamed, *events(stop=StopReason.SEQUENCE, sequence="END"))
    made.write_whole(Answer("a", "m", stop=StopReason.SEQUENCE, sequence="END"))
    assert list(streamed.losses.codes) == list(made.losses.codes) == ["stop_string"]


@pytest.mark.parametrize(("signature", "codes"), [("EqQB", ["signature"]), (OURS + "x.y", []), ("", [])])
def test_a_signature_is_lost_unless_it_is_ours(signature: str, codes: list[str]) -> None:
    streamed, made = writer(), writer()
    chunks(streamed, *events(Thinking("hm", signature)))
    made.write_whole(Answer("a", "m", [Thinking("hm", signature)]))
    assert list(streamed.losses.codes) == list(made.losses.codes) == codes


@pytest.mark.parametrize("told", [lambda made, error: made.write(Failed(error)), ChatAnswerWriter.fail])
def test_a_failure_is_an_error_to_the_sdk_and_no_end(told: Any) -> None:
    made = writer()
    body = made.write(Began("abc", "m")) + ping(Dialect.CHAT) + told(made, UpstreamError("it broke"))
    assert b'finish_reason":"' not in body
    with pytest.raises(openai.APIError, match="it broke"):
        list(sdk(body, made.content_type).chat.completions.create(model="m", messages=[], stream=True))


def test_the_sdk_reads_a_whole_answer() -> None:
    body = json.dumps(
        writer().write_whole(Answer("abc", "m", [Text("Hi"), ToolCall("c", "f", "{}")], StopReason.CALLS))
    ).encode()
    found = sdk(body).chat.completions.create(model="m", messages=[])
    assert (found.id, found.choices[0].message.content) == ("chatcmpl-abc", "Hi")
    assert found.choices[0].message.tool_calls is not None
    assert found.choices[0].message.tool_calls[0].id == "c"
