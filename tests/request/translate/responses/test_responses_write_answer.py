"""What a Responses client is answered: what the official SDK reads, validated by its own types."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
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
from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.domain.prompt import (
    AnswerFormat,
    Choice,
    Image,
    Prompt,
    Reasoning,
    Redacted,
    Refusal,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    Turn,
)
from stoker.request.codec.own_replies import ping
from stoker.request.codec.sse import parse, split
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.neutral.json_text import Raw, encode
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.responses.read_answer import ResponsesAnswerReader
from stoker.request.translate.responses.read_prompt import read_prompt
from stoker.request.translate.responses.write_answer import ResponsesAnswerWriter

EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
SIGNER = ThinkingSigner((b"k" * 32,))
TOKENS = Tokens(input=10, cached=4, written=1, output=7, reasoning=2)
NO_TOKENS = Tokens()
BLOCKS: list[AnswerBlock] = [
    Thinking("hm", "sig"), Text("Hello"), Text("again"), ToolCall("call_1", "f", '{"a":1}'),
    ToolCall("call_2", "p", "*** Begin", custom=True), Redacted("secret"), Refusal("no"), Text(""), Thinking(""),
    ToolCall("call_3", "f", ""),
]  # fmt: skip
KINDS = {
    Text: BlockKind.TEXT,
    Thinking: BlockKind.THINKING,
    Redacted: BlockKind.REDACTED,
    Refusal: BlockKind.REFUSAL,
    ToolCall: BlockKind.CALL,
}
SIMPLE = Prompt(Dialect.RESPONSES, "m", [Turn(Role.USER, [Text("hi")])])


def writer(prompt: Prompt = SIMPLE) -> ResponsesAnswerWriter:
    return ResponsesAnswerWriter(AnswerContext(prompt, "req1", 1700000000, SIGNER, "asked-model"), Losses())


def pieces(block: AnswerBlock) -> list[str]:
    match block:
        case ToolCall(arguments=text) | Redacted(data=text):
            pass
        case _:
            text = block.text
    if isinstance(block, Redacted):
        return [text]
    half = len(text) // 2
    return [piece for piece in (text[:half], text[half:]) if piece]


def events(
    blocks: Sequence[AnswerBlock],
    stop: StopReason = StopReason.END,
    tokens: Tokens = TOKENS,
    sequence: str | None = None,
) -> Iterator[Event]:
    yield Began("resp_up", "model-up")
    for at, block in enumerate(blocks):
        if isinstance(block, ToolCall):
            yield Opened(at, BlockKind.CALL, block.id, block.name, block.custom)
        else:
            yield Opened(at, KINDS[type(block)])
        for piece in pieces(block):
            yield Grew(at, piece)
        if isinstance(block, Thinking) and block.signature:
            yield Signed(at, block.signature)
        yield Closed(at)
    yield Finished(stop, sequence)
    yield Counted(tokens)
    yield Ended()


def stream(
    blocks: Sequence[AnswerBlock], stop: StopReason = StopReason.END, tokens: Tokens = TOKENS, prompt: Prompt = SIMPLE
) -> tuple[bytes, list[dict[str, Any]]]:
    told = writer(prompt)
    data = b"".join(told.write(event) for event in events(blocks, stop, tokens))
    found = payloads(data)
    assert told.position().sequence == len(found)
    return data, found


def payloads(data: bytes) -> list[dict[str, Any]]:
    """Every frame has its event's name, a payload of that type, its number, and is one by the SDK's own types."""
    out = []
    for frame in split(data):
        payload = parse(frame)
        assert payload is not None
        name = frame.splitlines()[0].removeprefix(b"event: ").decode()
        assert payload["type"] == name
        assert payload["sequence_number"] == len(out)
        assert EVENTS.validate_python(payload, strict=True).type == name
        out.append(payload)
    return out


def whole(
    blocks: Sequence[AnswerBlock], stop: StopReason = StopReason.END, tokens: Tokens = TOKENS, prompt: Prompt = SIMPLE
) -> dict[str, Any]:
    answer = Answer("resp_up", "model-up", list(blocks), stop, None, tokens)
    found: dict[str, Any] = json.loads(encode(writer(prompt).write_whole(answer)))
    Response.model_validate(found, strict=True)
    return found


def by_sdk(data: bytes, kind: str = "text/event-stream") -> openai.OpenAI:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers={"content-type": kind}, content=data))
    client = httpx2.Client(transport=transport)
    return openai.OpenAI(api_key="k", base_url="http://s/v1", http_client=client, max_retries=0)


# -- streams ------------------------------------------------------------------------------------------------------


def test_events_come_in_the_dialects_own_order() -> None:
    blocks: list[AnswerBlock] = [
        Thinking("hm"),
        Text("Hi"),
        Refusal("no"),
        ToolCall("c", "f", "{}"),
        ToolCall("d", "p", "x", True),
    ]
    _, found = stream(blocks)
    part = ["response.content_part.added", "", "response.content_part.done"]

    def item(middle: str, deltas: int, in_part: bool = True) -> list[str]:
        grown = [f"response.{middle}.delta"] * deltas + [f"response.{middle}.done"]
        inner = [*part[:1], *grown, *part[2:]] if in_part else grown
        return ["response.output_item.added", *inner, "response.output_item.done"]

    assert [payload["type"] for payload in found] == [
        "response.created",
        "response.in_progress",
        *item("reasoning_text", 2),
        *item("output_text", 2),
        *item("refusal", 2),
        *item("function_call_arguments", 2, in_part=False),
        *item("custom_tool_call_input", 1, in_part=False),
        "response.completed",
    ]


def test_every_frame_is_one_by_the_sdks_types_in_strict_mode_litellm_28899() -> None:
    for stop in StopReason:
        for tokens in (TOKENS, NO_TOKENS, Tokens(input=1, output=2)):
            stream(BLOCKS, stop, tokens)
            whole(BLOCKS, stop, tokens)


def test_no_delta_comes_outside_its_item_litellm_22102() -> None:
    _, found = stream(BLOCKS)
    items: list[dict[str, Any]] = []
    open_id: str | None = None
    in_part = False
    grown: list[str] = []
    for payload in found[2:-1]:
        kind = payload["type"].removeprefix("response.")
        assert payload["output_index"] == len(items)
        match kind:
            case "output_item.added":
                assert open_id is None
                open_id, grown = payload["item"]["id"], []
            case "content_part.added":
                assert payload["item_id"] == open_id
                in_part = True
            case "content_part.done":
                assert payload["item_id"] == open_id
                in_part = False
            case "output_item.done":
                assert payload["item"]["id"] == open_id
                items.append(payload["item"])
                open_id = None
            case _ if kind.endswith(".delta"):
                assert payload["item_id"] == open_id
                assert in_part == ("content_index" in payload)
                grown.append(payload["delta"])
            case _:
                told = payload.get("text", payload.get("refusal", payload.get("arguments", payload.get("input"))))
                assert told == "".join(grown)
    assert found[-1]["response"]["output"] == items
    assert len({item["id"] for item in items}) == len(BLOCKS)


def test_calls_are_told_in_full_litellm_19368() -> None:
    _, found = stream(
        [ToolCall("call_1", "f", '{"a":1}'), ToolCall("call_2", "p", "text", custom=True)], StopReason.CALLS
    )
    done = [payload for payload in found if payload["type"].endswith((".done", ".completed"))]
    assert {"arguments": '{"a":1}', "name": "f", "item_id": "fc_req1_0"}.items() <= done[0].items()
    assert done[1]["item"] == {
        "id": "fc_req1_0", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "f",
        "arguments": '{"a":1}',
    }  # fmt: skip
    assert {"input": "text", "item_id": "ctc_req1_1"}.items() <= done[2].items()
    assert done[3]["item"] == {
        "id": "ctc_req1_1", "type": "custom_tool_call", "status": "completed", "call_id": "call_2", "name": "p",
        "input": "text",
    }  # fmt: skip
    assert done[4]["response"]["output"] == [done[1]["item"], done[3]["item"]]


def test_a_call_without_arguments_has_none_of_them_rather_than_no_text() -> None:
    _, found = stream([ToolCall("c", "f", "")])
    assert [payload["delta"] for payload in found if payload["type"].endswith("arguments.delta")] == ["{}"]
    assert found[-1]["response"]["output"][0]["arguments"] == "{}"


def test_calls_without_an_id_get_one_each() -> None:
    _, found = stream([ToolCall("", "f", "{}"), ToolCall("", "f", "{}")])
    ids = [item["call_id"] for item in found[-1]["response"]["output"]]
    assert len(set(ids)) == 2
    assert all(ids)


@pytest.mark.parametrize("tokens", [TOKENS, NO_TOKENS])
@pytest.mark.parametrize("blocks", [BLOCKS, [Text("Hello")], []])
def test_the_official_sdk_folds_the_stream_to_the_whole_answer(blocks: list[AnswerBlock], tokens: Tokens) -> None:
    data, _ = stream(blocks, tokens=tokens)
    with by_sdk(data).responses.stream(model="m", input="x") as told:
        list(told)
        final = told.get_final_response()
    folded = final.to_dict()
    for item in folded["output"]:  # type: ignore[attr-defined]
        item.pop("parsed_arguments", None)
        for part in item.get("content") or ():
            part.pop("parsed", None)
    assert folded == whole(blocks, tokens=tokens)
    assert final.output_text == "".join(block.text for block in blocks if isinstance(block, Text))


@pytest.mark.parametrize("blocks", [BLOCKS, [Text("Hello")]])
def test_the_official_sdk_reads_the_whole_answer(blocks: list[AnswerBlock]) -> None:
    found = by_sdk(encode(whole(blocks)), "application/json").responses.create(model="m", input="x")
    assert found.to_dict() == whole(blocks)


@pytest.mark.parametrize("stop", list(StopReason))
def test_streamed_and_whole_say_the_same(stop: StopReason) -> None:
    for blocks in (BLOCKS, BLOCKS[:2]):
        assert stream(blocks, stop)[1][-1]["response"] == whole(blocks, stop)


@pytest.mark.parametrize("with_refusal", [False, True])
@pytest.mark.parametrize("stop", list(StopReason))
def test_why_it_ended(stop: StopReason, with_refusal: bool) -> None:
    blocks = [Text("a"), Refusal("no") if with_refusal else Text("b")]
    reason = {StopReason.LENGTH: "max_output_tokens", StopReason.CONTEXT: "max_output_tokens"}.get(stop)
    if stop is StopReason.FILTERED and not with_refusal:
        reason = "content_filter"
    status = "completed" if reason is None else "incomplete"
    _, found = stream(blocks, stop)
    assert found[-1]["type"] == f"response.{status}"
    response = found[-1]["response"]
    assert response["status"] == status
    assert response["incomplete_details"] == (None if reason is None else {"reason": reason})
    assert [item["status"] for item in response["output"]] == ["completed", status]


def test_the_sdk_reads_an_incomplete_stream() -> None:
    data, _ = stream([Text("Hel")], StopReason.LENGTH)
    with by_sdk(data).responses.stream(model="m", input="x") as told:
        last = list(told)[-1]
    assert last.type == "response.incomplete"
    assert last.response.output_text == "Hel"


def test_our_own_reader_reads_what_we_write() -> None:
    _, found = stream([Thinking("hm"), Text("Hi"), ToolCall("c", "f", "{}")], StopReason.CALLS)
    reader = ResponsesAnswerReader(Losses())
    out = [event for payload in found for event in reader.read(payload)]
    assert [event.text for event in out if isinstance(event, Grew)] == ["h", "m", "H", "i", "{", "}"]
    assert out[-3:] == [Counted(TOKENS), Finished(StopReason.CALLS), Ended()]
    answer = ResponsesAnswerReader(Losses()).read_whole(whole([Text("Hi"), Refusal("no")]))
    assert answer.blocks == [Text("Hi"), Refusal("no")]


# -- thinking -----------------------------------------------------------------------------------------------------


def test_thinking_comes_back_from_a_client_that_drops_its_text_cliproxyapi_3451() -> None:
    blocks: list[AnswerBlock] = [Thinking("hm", "sig"), Redacted("secret"), ToolCall("c", "f", "{}")]
    _, found = stream(blocks, StopReason.CALLS)
    for item in found[-1]["response"]["output"]:  # as Codex does
        item.pop("id")
        item.pop("content", None)
    body = encode({"model": "m", "input": found[-1]["response"]["output"]})
    first, second, call = read_prompt(body, Losses()).turns[0].blocks
    assert isinstance(first, Thinking)
    assert isinstance(second, Thinking)
    assert first.text == second.text == ""
    assert SIGNER.open(first.signature) == {"text": "hm", "signature": "sig"}
    assert SIGNER.open(second.signature) == {"redacted": "secret"}
    assert call == ToolCall("c", "f", "{}")


def test_what_is_sealed_is_told_when_the_item_is_done_not_before() -> None:
    _, found = stream([Thinking("hm"), Redacted("secret")])
    added = [payload["item"] for payload in found if payload["type"] == "response.output_item.added"]
    assert not any("encrypted_content" in item for item in added), "the schema knows no null for it"
    done = [payload["item"] for payload in found if payload["type"] == "response.output_item.done"]
    assert done[0]["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert all(item["encrypted_content"] and item["summary"] == [] for item in done)
    assert b"secret" not in encode(found)


# -- the response itself ------------------------------------------------------------------------------------------


def test_a_response_repeats_its_request_in_its_own_words() -> None:
    request = {
        "model": "m",
        "instructions": "be brief",
        "input": "hi",
        "max_output_tokens": 9,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "reasoning": {"effort": "high", "summary": "auto"},
        "temperature": 0.5,
        "text": {
            "format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True, "description": "d"},
            "verbosity": "low",
        },
        "tool_choice": {"type": "custom", "name": "p"},
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
            {"type": "custom", "name": "p", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
        ],
        "top_p": 0.9,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "top_logprobs": 3,
        "truncation": "auto",
        "max_tool_calls": 5,
        "service_tier": "flex",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "user": "u",
    }
    prompt = read_prompt(encode(request), Losses())
    for response in (stream([Text("Hi")], prompt=prompt)[1][0]["response"], whole([Text("Hi")], prompt=prompt)):
        assert {name: response[name] for name in request if name not in ("model", "input")} == {
            name: value for name, value in request.items() if name not in ("model", "input")
        }


def test_what_the_request_did_not_say_is_the_dialects_default() -> None:
    response = whole([Text("Hi")], prompt=Prompt(Dialect.RESPONSES, "m", []))
    assert {name: response[name] for name in ("instructions", "temperature", "top_p", "max_output_tokens")} == {
        "instructions": None, "temperature": 1, "top_p": 1, "max_output_tokens": None,
    }  # fmt: skip
    assert {name: response[name] for name in ("frequency_penalty", "presence_penalty", "top_logprobs")} == {
        "frequency_penalty": 0, "presence_penalty": 0, "top_logprobs": 0,
    }  # fmt: skip
    assert response["tools"] == []
    assert response["tool_choice"] == "auto"
    assert response["parallel_tool_calls"] is True
    assert response["metadata"] == {}
    assert response["text"] == {"format": {"type": "text"}}
    assert response["store"] is False


def test_every_form_and_choice_can_be_repeated() -> None:
    tools = [Tool("f", "d", Raw(b'{"type":"object"}')), Tool("g"), Tool("p", custom=True)]
    image = Turn(Role.SYSTEM, [Image(url="https://x/a.png")])
    for choice in (ToolChoice(Choice.NONE), ToolChoice(Choice.AUTO, allowed=["f", "p"])):
        prompt = Prompt(
            Dialect.RESPONSES, "m", [image], tools, choice, format=AnswerFormat(), reasoning=Reasoning(effort="low")
        )
        response = whole([], prompt=prompt)
        assert response["instructions"] is None
        assert response["text"] == {"format": {"type": "json_object"}}
        assert response["reasoning"] == {"effort": "low", "summary": None}


def test_a_schema_that_the_client_wrote_in_lines_does_not_break_its_event() -> None:
    schema = {"type": "object", "properties": {"a": {"description": "line\n\ntwo"}}}
    request = {
        "model": "m",
        "input": "hi",
        "text": {"format": {"type": "json_schema", "name": "n", "schema": schema}},
        "tools": [{"type": "function", "name": "f", "parameters": schema}],
    }
    body = json.dumps(request, indent=2).replace("\n", "\r\n").encode()
    _, found = stream([Text("Hi")], prompt=read_prompt(body, Losses()))
    for response in (found[0]["response"], found[-1]["response"]):
        assert response["tools"][0]["parameters"] == response["text"]["format"]["schema"] == schema


def test_usage_is_whole_or_null() -> None:
    assert whole([], tokens=TOKENS)["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 17,
    }
    assert whole([], tokens=Tokens(input=3))["usage"] is None
    _, found = stream([], tokens=Tokens(input=3, output=0))
    assert found[0]["response"]["usage"] is None
    assert found[-1]["response"]["usage"]["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}


def test_early_usage_is_kept() -> None:
    told = writer()
    told.write(Began("", "", Tokens(input=3)))
    told.write(Counted(Tokens(output=4)))
    (last,) = (parse(told.write(Ended())),)
    assert last is not None
    assert last["response"]["usage"]["total_tokens"] == 7
    assert last["response"]["id"] == "resp_req1"
    assert last["response"]["model"] == "asked-model"


def test_which_stop_string_came_is_lost() -> None:
    told = writer()
    for event in events([Text("a")], StopReason.SEQUENCE, sequence="END"):
        told.write(event)
    assert list(told.losses.codes) == ["stop_string"]
    told = writer()
    told.write_whole(Answer("", "", [], StopReason.SEQUENCE, "END"))
    assert list(told.losses.codes) == ["stop_string"]
    assert set(told.losses.codes) <= set(LOSSY)


# -- failures and silence -----------------------------------------------------------------------------------------


def test_a_format_says_whether_it_is_strict_and_what_it_is_for() -> None:
    prompt = Prompt(Dialect.RESPONSES, "m", [], format=AnswerFormat(Raw(b"{}"), "n"))
    format = whole([Text("{}")], prompt=prompt)["text"]["format"]
    assert (format["strict"], format["description"]) == (False, None)


def test_a_response_says_when_it_was_complete() -> None:
    times = iter((1700000005.9, 1700000007.2))
    context = AnswerContext(SIMPLE, "req1", 1700000000, SIGNER, "m", wall=lambda: next(times))
    assert (
        ResponsesAnswerWriter(context, Losses()).write_whole(Answer("", "", [Text("a")]))["completed_at"] == 1700000005
    )
    told = ResponsesAnswerWriter(context, Losses())
    found = payloads(b"".join(told.write(event) for event in events([Text("Hi")])))
    assert (found[0]["response"]["completed_at"], found[-1]["response"]["completed_at"]) == (None, 1700000007)
    assert whole([Text("a")], StopReason.LENGTH)["completed_at"] is None


def test_a_failure_is_told_flat_in_an_object_and_as_a_failed_response_with_the_next_numbers() -> None:
    told = writer()
    error = UpstreamError("it broke")
    data = b"".join(told.write(event) for event in [*list(events([Text("Hi")]))[:4], Failed(error)])
    flat, failed = payloads(data)[-2:]
    end = told.position().sequence
    assert (flat["type"], flat["message"], flat["sequence_number"]) == ("error", "it broke", end - 2)
    assert flat["error"]["message"] == "it broke"
    assert EVENTS.validate_python(flat).type == "error"
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", end - 1)
    assert failed["response"]["error"] == {"code": "server_error", "message": "it broke", "source": "stoker"}
    with pytest.raises(openai.APIError, match="it broke"):  # as with OpenAI, whose servers send the object
        list(by_sdk(data).responses.create(model="m", input="x", stream=True))
    assert payloads(writer().fail(error))[0]["sequence_number"] == 0


def test_a_ping_is_no_event() -> None:
    told = writer()
    data = told.write(Began("", "")) + ping(Dialect.RESPONSES) + told.write(Ended())
    assert told.position().sequence == 3
    assert [event.type for event in by_sdk(data).responses.create(model="m", input="x", stream=True)] == [
        "response.created", "response.in_progress", "response.completed",
    ]  # fmt: skip


def test_events_without_an_open_item_are_nothing() -> None:
    told = writer()
    assert b"".join(told.write(event) for event in (Grew(0, "x"), Signed(0, "s"), Closed(0))) == b""


@pytest.mark.parametrize("hostile", ["line\n\ndata: [DONE]\r\n\r\n", "\u2028 \U0001f600 \x00", '"quoted"'])
def test_whatever_the_text_holds_each_event_is_one_frame(hostile: str) -> None:
    _, found = stream([Text(hostile), ToolCall("c", "f", encode(hostile).decode())])
    assert found[-1]["response"]["output"][0]["content"][0]["text"] == hostile


def test_a_large_call_in_many_pieces_costs_linear_time_litellm_29491() -> None:
    def write(count: int) -> None:
        told = writer()
        told.write(Began("", ""))
        told.write(Opened(0, BlockKind.CALL, "c", "f"))
        for _ in range(count):
            told.write(Grew(0, "x" * 200))
        data = told.write(Finished(StopReason.CALLS)) + told.write(Ended())
        assert data.count(b"x" * 200 * count) == 3

    assert_linear(lambda count: count, write, 5_000)
