"""What a serve that speaks Responses is asked."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter
from tests.request.translate.capable import capabilities_of

from stoker.domain.dialect import Dialect
from stoker.domain.prompt import (
    AnswerFormat,
    Audio,
    Block,
    Choice,
    Document,
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
    ToolResult,
    Turn,
)
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.neutral.json_text import Raw, encode
from stoker.request.translate.neutral.thinking import OURS
from stoker.request.translate.responses.read_prompt import read_prompt
from stoker.request.translate.responses.write_prompt import write_prompt

LOCAL = capabilities_of("vllm", Dialect.RESPONSES, cloud=False)
CLOUD = capabilities_of("openai", Dialect.RESPONSES, cloud=True)
GRAMMAR = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}}
USER = Turn(Role.USER, [Text("hi")])
TOOL = Tool("f", "d", Raw(b'{"type":"object","properties":{}}'))
CUSTOM = Tool("p", "d", custom=True, grammar=GRAMMAR)


def write(prompt: Prompt, serve: Capabilities = LOCAL) -> tuple[dict[str, Any], list[str]]:
    losses = Losses()
    document = json.loads(encode(write_prompt(prompt, serve, losses)))
    assert set(losses.codes) <= set(LOSSY)
    assert document["store"] is False
    return document, list(losses.codes)


def asked(*turns: Turn, dialect: Dialect = Dialect.CHAT, **fields: Any) -> Prompt:
    return Prompt(dialect, "m", list(turns) or [USER], **fields)


def items(*turns: Turn, serve: Capabilities = LOCAL, dialect: Dialect = Dialect.CHAT) -> list[dict[str, Any]]:
    document, lost = write(asked(*turns, dialect=dialect), serve)
    assert lost == []
    return list(document["input"])


def message(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


# -- items --------------------------------------------------------------------------------------------------------


def test_nothing_is_stored_at_the_serve() -> None:
    assert write(asked()) == ({"model": "m", "store": False, "input": [message("user", "hi")]}, [])


def test_a_system_turn_in_front_is_the_instructions_and_later_ones_stay_in_place() -> None:
    front = Turn(Role.SYSTEM, [Text("a"), Text("b")])
    later = Turn(Role.SYSTEM, [Text("c")])
    document, lost = write(asked(front, later, USER, later))
    assert document["instructions"] == "a\n\nb"
    assert document["input"] == [message("developer", "c"), message("user", "hi"), message("developer", "c")]
    assert lost == []
    document, _ = write(asked(USER, front))
    assert "instructions" not in document


def test_a_system_turn_with_an_image_is_no_instructions() -> None:
    document, _ = write(asked(Turn(Role.SYSTEM, [Text("a"), Image(url="https://x/a.png")])))
    assert document["input"][0]["role"] == "developer"
    assert [part["type"] for part in document["input"][0]["content"]] == ["input_text", "input_image"]


def test_an_assistants_turn_keeps_its_order() -> None:
    blocks: list[Block] = [Thinking("hm"), Text("a"), ToolCall("c", "f", "{}"), Text("b"), Refusal("no")]
    assert items(Turn(Role.ASSISTANT, blocks)) == [
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        message("assistant", "a"),
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        message("assistant", "b"),
        message("assistant", [{"type": "refusal", "refusal": "no"}]),
    ]


def test_an_image_of_the_assistant_stays_one() -> None:
    image = {"type": "input_image", "image_url": "https://x/a.png", "detail": "auto"}
    assert items(Turn(Role.ASSISTANT, [Image(url="https://x/a.png")])) == [message("assistant", [image])]


def test_results_come_first_each_for_its_call() -> None:
    turn = Turn(Role.USER, [ToolResult("c", [Text("1"), Text("2")]), Text("and?"), ToolResult("d", [])])
    assert items(turn) == [
        {"type": "function_call_output", "call_id": "c", "output": "1\n2"},
        {"type": "function_call_output", "call_id": "d", "output": ""},
        message("user", "and?"),
    ]
    assert [item["type"] for item in items(Turn(Role.USER, [ToolResult("c", [])]))] == ["function_call_output"]
    assert items(Turn(Role.USER, [])) == [message("user", "")]


@pytest.mark.parametrize("count", [1, 2])
def test_images_of_a_result_stay_images(count: int) -> None:
    result = ToolResult("c", [Image("image/png", "aGk=", detail="low")] * count)
    image = {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "low"}
    assert items(Turn(Role.USER, [result]))[0]["output"] == [image] * count


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ([Text("no"), Text("way")], "[tool error] no\nway"),
        ([], "[tool error] "),
        ([Image(url="https://x/a.png")],
         [{"type": "input_text", "text": "[tool error] "},
          {"type": "input_image", "image_url": "https://x/a.png", "detail": "auto"}]),
    ],
)  # fmt: skip
def test_an_errors_result_is_marked(content: list[Block], output: Any) -> None:
    document, lost = write(asked(Turn(Role.USER, [ToolResult("c", content, is_error=True)])))
    assert document["input"][0]["output"] == output
    assert lost == ["result_error"]
    again = read_prompt(encode(document), Losses()).turns[0].blocks[0]
    assert isinstance(again, ToolResult)
    assert again.is_error


def test_audio_is_dropped() -> None:
    document, lost = write(asked(Turn(Role.USER, [Text("hear"), Audio("wav", "aGk=")])))
    assert document["input"] == [message("user", "hear")]
    assert lost == ["audio"]


def test_blocks_that_have_no_part_are_left_out() -> None:
    assert write(asked(Turn(Role.USER, [Text("a"), Thinking("b")])))[0]["input"] == [message("user", "a")]


@pytest.mark.parametrize(
    ("document", "part"),
    [
        (Document("application/pdf", "JVBERi0x", title="a.pdf"),
         {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"}),
        (Document(url="https://x/a.pdf"), {"file_url": "https://x/a.pdf"}),
        (Document(text="hi"),
         {"filename": "document", "file_data": "data:text/plain;base64," + base64.b64encode(b"hi").decode()}),
    ],
)  # fmt: skip
def test_documents_are_files(document: Document, part: dict[str, str]) -> None:
    content = items(Turn(Role.USER, [document]), serve=CLOUD)[0]["content"]
    assert content == [{"type": "input_file", **part}]


@pytest.mark.parametrize(
    ("document", "text"),
    [(Document(text="hi"), "hi"), (Document("text/plain", "aGk=", title="a.txt"), "a.txt\nhi")],
)
def test_a_local_engine_gets_the_text_of_a_document(document: Document, text: str) -> None:
    found, lost = write(asked(Turn(Role.USER, [document])))
    assert found["input"] == [message("user", text)]
    assert lost == ["document"]


# -- thinking -----------------------------------------------------------------------------------------------------


def test_a_local_engine_gets_thinking_as_text_and_never_a_foreign_signature() -> None:
    turn = Turn(Role.ASSISTANT, [Thinking("a", "gAAAAx"), Thinking("")])
    found = items(turn, dialect=Dialect.RESPONSES)
    assert [item["id"] for item in found] == ["rs_1", "rs_2"]
    assert [item["content"][0]["text"] for item in found] == ["a", ""]
    assert not any("encrypted_content" in item for item in found)


@pytest.mark.parametrize(
    ("dialect", "signature"), [(Dialect.RESPONSES, "whatever"), (Dialect.MESSAGES, "gAAAAABencrypted")]
)
def test_openai_gets_back_what_it_encrypted_without_its_text(dialect: Dialect, signature: str) -> None:
    turn = Turn(Role.ASSISTANT, [Thinking("sum", signature), Thinking("", signature)])
    assert items(turn, serve=CLOUD, dialect=dialect) == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "sum"}], "encrypted_content": signature},
        {"type": "reasoning", "summary": [], "encrypted_content": signature},
    ]


@pytest.mark.parametrize(
    ("dialect", "signature"), [(Dialect.RESPONSES, ""), (Dialect.RESPONSES, OURS + "x"), (Dialect.MESSAGES, "EqQBCg")]
)
def test_openai_never_gets_thinking_that_it_did_not_encrypt_claude_code_71111(dialect: Dialect, signature: str) -> None:
    document, lost = write(asked(Turn(Role.ASSISTANT, [Thinking("hm", signature)]), dialect=dialect), CLOUD)
    assert document["input"] == []
    assert lost == ["thinking_unsigned"]


def test_redacted_thinking_is_for_its_maker_alone() -> None:
    document, lost = write(asked(Turn(Role.ASSISTANT, [Redacted("x")])))
    assert document["input"] == []
    assert lost == ["thinking_redacted"]


# -- tools --------------------------------------------------------------------------------------------------------


def test_a_functions_schema_is_sent_byte_for_byte() -> None:
    schema = Raw(b'{"type":"object",  "properties":{"n":{"maximum":12345678901234567890}}}')
    sent = encode(write_prompt(asked(tools=[Tool("f", None, schema)]), LOCAL, Losses()))
    assert bytes(schema) in sent


@pytest.mark.parametrize(
    ("dialect", "given", "sent"),
    [
        (Dialect.CHAT, None, {"strict": False}), (Dialect.CHAT, True, {"strict": True}),
        (Dialect.RESPONSES, None, {}), (Dialect.RESPONSES, False, {"strict": False}),
    ],
)  # fmt: skip
def test_silence_about_strictness_means_what_the_clients_dialect_means(
    dialect: Dialect, given: bool | None, sent: dict[str, bool]
) -> None:
    document, _ = write(asked(tools=[Tool("f", strict=given)], dialect=dialect))
    assert {name: value for name, value in document["tools"][0].items() if name == "strict"} == sent


def test_a_function_is_flat_and_has_a_schema() -> None:
    document, _ = write(asked(tools=[Tool("f", "d")]))
    schema = {"type": "object", "properties": {}}
    assert document["tools"] == [
        {"type": "function", "name": "f", "description": "d", "parameters": schema, "strict": False}
    ]


def test_a_custom_tool_stays_one_where_the_serve_takes_it() -> None:
    turns = [
        Turn(Role.ASSISTANT, [ToolCall("c", "p", "text", custom=True)]),
        Turn(Role.USER, [ToolResult("c", [Text("ok")], custom=True)]),
    ]
    choice = ToolChoice(Choice.NAMED, "p")
    document, lost = write(asked(*turns, tools=[CUSTOM, Tool("q", custom=True)], tool_choice=choice), CLOUD)
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}
    assert document["tools"] == [
        {"type": "custom", "name": "p", "description": "d", "format": grammar},
        {"type": "custom", "name": "q"},
    ]
    assert document["tool_choice"] == {"type": "custom", "name": "p"}
    assert document["input"] == [
        {"type": "custom_tool_call", "call_id": "c", "name": "p", "input": "text"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
    ]
    assert lost == []


def test_elsewhere_a_custom_tool_is_a_function_with_one_input() -> None:
    turns = [
        Turn(Role.ASSISTANT, [ToolCall("c", "p", "text", custom=True)]),
        Turn(Role.USER, [ToolResult("c", [Text("ok")], custom=True)]),
    ]
    choice = ToolChoice(Choice.NAMED, "p")
    document, lost = write(asked(*turns, tools=[CUSTOM, Tool("q", custom=True)], tool_choice=choice))
    schema = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    assert [tool["parameters"] for tool in document["tools"]] == [schema, schema]
    assert document["tool_choice"] == {"type": "function", "name": "p"}
    assert document["input"] == [
        {"type": "function_call", "call_id": "c", "name": "p", "arguments": '{"input":"text"}'},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
    ]
    assert lost == ["custom_tool", "grammar"]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice(Choice.AUTO), "auto"),
        (ToolChoice(Choice.NONE), "none"),
        (ToolChoice(Choice.REQUIRED), "required"),
        (ToolChoice(Choice.NAMED, "f"), {"type": "function", "name": "f"}),
        (ToolChoice(Choice.AUTO, allowed=["f", "p"]),
         {"type": "allowed_tools", "mode": "auto",
          "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "p"}]}),
        (ToolChoice(Choice.REQUIRED, allowed=["f"]),
         {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}),
    ],
)  # fmt: skip
def test_every_choice_of_a_tool_is_written(choice: ToolChoice, sent: Any) -> None:
    document, lost = write(asked(tools=[TOOL, CUSTOM], tool_choice=choice, parallel_calls=False), CLOUD)
    assert document["tool_choice"] == sent
    assert document["parallel_tool_calls"] is False
    assert lost == []


def test_where_no_list_is_taken_the_other_tools_are_left_out() -> None:
    choice = ToolChoice(Choice.REQUIRED, allowed=["f"])
    document, lost = write(asked(tools=[TOOL, Tool("g")], tool_choice=choice))
    assert [tool["name"] for tool in document["tools"]] == ["f"]
    assert document["tool_choice"] == "required"
    assert lost == ["allowed_tools"]


def test_without_tools_there_is_nothing_to_choose() -> None:
    document, lost = write(asked(tool_choice=ToolChoice(Choice.AUTO), parallel_calls=True))
    assert "tool_choice" not in document
    assert lost == ["parallel_calls"]


# -- settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "local", "cloud"), [(0, 1, 16), (5, 5, 16), (100, 100, 100)])
def test_openai_refuses_a_limit_below_16(limit: int, local: int, cloud: int) -> None:
    assert write(asked(max_tokens=limit))[0]["max_output_tokens"] == local
    assert write(asked(max_tokens=limit), CLOUD)[0]["max_output_tokens"] == cloud


def test_a_stream_is_asked_for() -> None:
    assert write(asked(stream=True))[0]["stream"] is True


def test_there_are_no_stop_strings() -> None:
    assert write(asked(stop=["a"]))[1] == ["stop"]
    assert write(asked(stop=[""]))[1] == []


@pytest.mark.parametrize(
    ("format", "sent"),
    [
        (AnswerFormat(), {"type": "json_object"}),
        (AnswerFormat(Raw(b'{"a":1}')), {"type": "json_schema", "name": "answer", "schema": {"a": 1}}),
        (AnswerFormat(Raw(b"{}"), "n", True, "d"),
         {"type": "json_schema", "name": "n", "schema": {}, "strict": True, "description": "d"}),
    ],
)  # fmt: skip
def test_the_form_of_the_answer_is_flat(format: AnswerFormat, sent: dict[str, Any]) -> None:
    document, _ = write(asked(format=format, settings={"verbosity": "low"}))
    assert document["text"] == {"format": sent, "verbosity": "low"}


@pytest.mark.parametrize(
    ("asked_for", "local", "cloud"),
    [
        (Reasoning(effort="high"),
         {"reasoning": {"effort": "high"}, "chat_template_kwargs": {"enable_thinking": True}},
         {"reasoning": {"effort": "high"}, "include": ["reasoning.encrypted_content"]}),
        (Reasoning(enabled=False),
         {"reasoning": {"effort": "none"}, "chat_template_kwargs": {"enable_thinking": False}},
         {"reasoning": {"effort": "none"}}),
        (Reasoning(shown=True),
         {"reasoning": {"summary": "auto"}},
         {"reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"]}),
        (Reasoning(enabled=True),
         {"chat_template_kwargs": {"enable_thinking": True}},
         {"include": ["reasoning.encrypted_content"]}),
    ],
)  # fmt: skip
def test_how_much_to_think(asked_for: Reasoning, local: dict[str, Any], cloud: dict[str, Any]) -> None:
    for serve, expected in ((LOCAL, local), (CLOUD, cloud)):
        document, lost = write(asked(reasoning=asked_for), serve)
        assert {name: document[name] for name in document if name not in ("model", "store", "input")} == expected
        assert lost == []


def test_what_of_thinking_cannot_be_said_is_told() -> None:
    document, lost = write(asked(reasoning=Reasoning(enabled=True, budget=4000, shown=False)))
    assert document["reasoning"] == {"effort": "medium"}
    assert lost == ["budget", "display"]
    mute = Capabilities(Dialect.RESPONSES, thinking_switch="none")
    assert write(asked(reasoning=Reasoning(effort="low")), mute)[1] == ["reasoning"]


def test_settings_that_responses_has_are_sent_and_others_told() -> None:
    kept = {
        "temperature": 0.5, "top_p": 0.9, "top_logprobs": 2, "user": "u", "metadata": {"a": "b"},
        "service_tier": "flex", "prompt_cache_key": "k", "safety_identifier": "s",
    }  # fmt: skip
    document, lost = write(asked(settings={**kept, "seed": 1, "top_k": 5, "logit_bias": {}}))
    assert {name: document[name] for name in kept} == kept
    assert lost == ["seed", "top_k", "logit_bias"]


@pytest.mark.parametrize(("serve", "given", "lost"), [(LOCAL, True, []), (CLOUD, False, []), (CLOUD, True, ["store"])])
def test_a_wish_to_store_is_not_passed_on(serve: Capabilities, given: bool, lost: list[str]) -> None:
    assert write(asked(settings={"store": given}), serve)[1] == lost


# -- together -----------------------------------------------------------------------------------------------------


def everything() -> dict[str, Any]:
    return {
        "model": "m",
        "instructions": "be brief",
        "input": [
            message("developer", "c"),
            message("user", [{"type": "input_text", "text": "a"},
                             {"type": "input_image", "image_url": "https://x/a.png", "detail": "low"}]),
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            message("assistant", "b"),
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "c", "output": "1"},
            message("user", "and?"),
        ],
        "store": False,
        "stream": True,
        "max_output_tokens": 100,
        "tools": [{"type": "function", "name": "f", "description": "d",
                   "parameters": {"type": "object", "properties": {}}, "strict": True}],
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": True,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}, "verbosity": "low"},
        "reasoning": {"effort": "high", "summary": "auto"},
        "temperature": 0.5,
        "metadata": {"a": "b"},
    }  # fmt: skip


def test_what_is_read_is_written_again() -> None:
    prompt = read_prompt(encode(everything()), losses := Losses())
    document, lost = write(prompt, Capabilities(Dialect.RESPONSES, thinking_switch="effort"))
    assert document == everything()
    assert not losses.codes
    assert lost == []


@pytest.mark.parametrize("serve", [LOCAL, CLOUD])
def test_the_request_is_one_by_the_official_sdk(serve: Capabilities) -> None:
    document, _ = write(read_prompt(encode(everything()), Losses()), serve)
    del document["stream"]
    found: Any = TypeAdapter(ResponseCreateParamsNonStreaming).validate_python(document)
    assert found["instructions"] == "be brief"


def test_a_service_tier_of_another_vendor_is_left_out_by_name() -> None:
    prompt = asked(Turn(Role.USER, [Text("hi")]), dialect=Dialect.MESSAGES, settings={"service_tier": "auto"})
    out, losses = write(prompt)
    assert ("service_tier" in out, losses) == (False, ["service_tier"])
