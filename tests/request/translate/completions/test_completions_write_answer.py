"""What is written is what the official SDK reads; of an answer only its text fits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx2
import openai
import pytest
from openai.types import Completion

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
from stoker.request.translate.completions import STOPS, CompletionsAnswerWriter
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import ThinkingSigner

BLOCKS: list[tuple[AnswerBlock, BlockKind, str]] = [
    (Thinking("hm"), BlockKind.THINKING, "thinking"),
    (Redacted("xx"), BlockKind.REDACTED, "thinking_redacted"),
    (ToolCall("c1", "f", "{}"), BlockKind.CALL, "call"),
    (Refusal("no"), BlockKind.REFUSAL, "refusal"),
]


def writer(wants_usage: bool = False) -> CompletionsAnswerWriter:
    prompt = Prompt(Dialect.COMPLETIONS, "asked", [], stream=True, wants_usage=wants_usage)
    return CompletionsAnswerWriter(
        AnswerContext(prompt, "req_1", 1700000000, ThinkingSigner((b"k",)), "served"), Losses()
    )


def block(kind: BlockKind, *pieces: str, at: int = 0) -> list[Event]:
    return [Opened(at, kind, "c1", "f"), *(Grew(at, piece) for piece in pieces), Closed(at)]


def stream(made: CompletionsAnswerWriter, *events: Event, stop: StopReason = StopReason.END) -> bytes:
    told = [Began("abc", "m"), *events, Finished(stop), Counted(Tokens(input=7, output=2)), Ended()]
    out = b"".join(made.write(event) for event in told)
    assert set(made.losses.codes) <= set(LOSSY)
    return out


def sdk(body: bytes, content_type: bytes) -> openai.OpenAI:
    headers = [(b"content-type", content_type)]
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=body))
    return openai.OpenAI(
        api_key="k", base_url="http://s/v1", http_client=httpx2.Client(transport=transport), max_retries=0
    )


def read(made: CompletionsAnswerWriter, body: bytes) -> list[Completion]:
    return list(sdk(body, made.content_type).completions.create(model="m", prompt="x", stream=True))


def folded(chunks: Sequence[Completion]) -> tuple[str, str | None]:
    choices = [choice for chunk in chunks for choice in chunk.choices]
    return "".join(choice.text for choice in choices), choices[-1].finish_reason


def test_the_sdk_reads_the_text_of_a_stream() -> None:
    made = writer()
    body = stream(made, *block(BlockKind.TEXT, "Hel", 'lo "\n'))
    chunks = read(made, body)
    assert folded(chunks) == ('Hello "\n', "stop")
    assert {(c.id, c.object, c.created, c.model) for c in chunks} == {("cmpl-abc", "text_completion", 1700000000, "m")}
    assert all(chunk.usage is None for chunk in chunks)
    assert b"usage" not in body
    assert body.endswith(b"data: [DONE]\n\n")


def test_usage_has_a_chunk_of_its_own_where_the_client_asked() -> None:
    made = writer(wants_usage=True)
    *chunks, last = read(made, stream(made, *block(BlockKind.TEXT, "Hi")))
    assert last.choices == []
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens, last.usage.total_tokens) == (7, 2, 9)
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)


def test_usage_that_is_not_known_is_not_told() -> None:
    made = writer(wants_usage=True)
    out = b"".join(
        made.write(event) for event in (Began("abc", "m", Tokens(input=7)), Finished(StopReason.END), Ended())
    )
    assert [chunk.usage for chunk in read(made, out)] == [None]


def test_what_is_known_early_counts() -> None:
    made = writer(wants_usage=True)
    events = (Began("abc", "m", Tokens(input=7)), Counted(Tokens(output=1)), Finished(StopReason.END), Ended())
    last = read(made, b"".join(made.write(event) for event in events))[-1]
    assert last.usage is not None
    assert last.usage.total_tokens == 8


@pytest.mark.parametrize(("said", "kind", "code"), BLOCKS)
def test_what_is_no_text_is_a_loss(said: AnswerBlock, kind: BlockKind, code: str) -> None:
    made, whole = writer(), writer()
    chunks = read(
        made, stream(made, *block(BlockKind.TEXT, "a"), *block(kind, "no", at=1), *block(BlockKind.TEXT, "b", at=2))
    )
    answer = whole.write_whole(Answer("abc", "m", [Text("a"), said, Text("b")]))
    text = "anob" if kind is BlockKind.REFUSAL else "ab"
    assert folded(chunks)[0] == answer["choices"][0]["text"] == text
    assert list(made.losses.codes) == list(whole.losses.codes) == [code]


def test_the_signature_of_dropped_thinking_is_no_further_loss() -> None:
    made = writer()
    stream(made, Opened(0, BlockKind.THINKING), Grew(0, "hm"), Signed(0, "sig"), Closed(0))
    assert list(made.losses.codes) == ["thinking"]


@pytest.mark.parametrize("stop", StopReason)
def test_every_reason_has_a_word_of_the_dialect(stop: StopReason) -> None:
    made = writer()
    chunks = read(made, stream(made, stop=stop))
    whole = Completion.model_validate(writer().write_whole(Answer("abc", "m", stop=stop)), strict=True)
    assert folded(chunks)[1] == whole.choices[0].finish_reason == STOPS[stop]


def test_which_stop_string_came_cannot_be_told() -> None:
    made, whole = writer(), writer()
    made.write(Finished(StopReason.SEQUENCE, "END"))
    whole.write_whole(Answer("abc", "m", stop=StopReason.SEQUENCE, sequence="END"))
    assert list(made.losses.codes) == list(whole.losses.codes) == ["stop_string"]


def test_a_stream_whose_reason_never_came_ends_with_stop() -> None:
    made = writer()
    assert folded(read(made, made.write(Began("abc", "m")) + made.write(Ended())))[1] == "stop"


def test_the_sdk_reads_a_whole_answer() -> None:
    made = writer()
    answer = Answer("", "", [Text("Hi"), Text(" you")], tokens=Tokens(input=7, cached=3, output=2))
    body = json.dumps(made.write_whole(answer)).encode()
    found = sdk(body, b"application/json").completions.create(model="m", prompt="x")
    assert (found.id, found.model, found.choices[0].text) == ("cmpl-req_1", "served", "Hi you")
    assert found.usage is not None
    assert found.usage.total_tokens == 9
    Completion.model_validate(json.loads(body), strict=True)


def test_a_whole_answer_without_counts_has_no_usage() -> None:
    assert "usage" not in writer().write_whole(Answer("a", "m", [Text("Hi")]))


@pytest.mark.parametrize("told", [lambda made, error: made.write(Failed(error)), CompletionsAnswerWriter.fail])
def test_a_failure_is_an_error_to_the_sdk(told: Any) -> None:
    made = writer()
    body = made.write(Began("abc", "m")) + ping(Dialect.COMPLETIONS) + told(made, UpstreamError("it broke"))
    with pytest.raises(openai.APIError, match="it broke"):
        read(made, body)
