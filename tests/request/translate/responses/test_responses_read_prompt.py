"""What a Responses client asks, as a Prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.linear import assert_linear

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import (
    AnswerFormat,
    Audio,
    Block,
    Choice,
    Document,
    Image,
    Prompt,
    Reasoning,
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
from stoker.request.translate.neutral.calls import spelt_id
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.neutral.json_text import Raw
from stoker.request.translate.responses.read_prompt import read_prompt

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def read(**fields: Any) -> tuple[Prompt, list[str]]:
    losses = Losses()
    prompt = read_prompt(json.dumps({"model": "m", "input": "hi", **fields}).encode(), losses)
    assert set(losses.codes) <= set(LOSSY)
    return prompt, list(losses.codes)


def turns(*items: Any) -> list[Turn]:
    prompt, lost = read(input=list(items))
    assert lost == []
    return prompt.turns


def refused(**fields: Any) -> ClientError:
    with pytest.raises(ClientError) as caught:
        read(**fields)
    assert caught.value.status == 400
    return caught.value


def call(id: str = "call_1", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": id, "name": "f", "arguments": '{"a": 1}', **more}


def output(id: str = "call_1", given: Any = "12", **more: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": given, **more}


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


# -- turns --------------------------------------------------------------------------------------------------------


def test_a_string_is_what_the_user_says() -> None:
    prompt, lost = read(input="hello")
    assert prompt.dialect is Dialect.RESPONSES
    assert prompt.model == "m"
    assert prompt.turns == [Turn(Role.USER, [Text("hello")])]
    assert not prompt.stream
    assert not prompt.continues
    assert lost == []


def test_instructions_are_the_first_turn_of_the_system() -> None:
    prompt, lost = read(instructions="be brief", input=[said("also this", "developer"), said("hi")])
    assert prompt.turns == [
        Turn(Role.SYSTEM, [Text("be brief")]),
        Turn(Role.SYSTEM, [Text("also this")]),
        Turn(Role.USER, [Text("hi")]),
    ]
    assert lost == []


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("named", [{"type": "message"}, {}])
def test_a_system_turn_in_mid_conversation_stays_in_its_place(role: str, named: dict[str, str]) -> None:
    found = turns(said("hi"), {**said("now this", role), **named}, said("go"))
    assert [turn.role for turn in found] == [Role.USER, Role.SYSTEM, Role.USER]


def test_content_of_every_role_may_be_parts_xuan_191() -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b", "annotations": []}]
    for role in ("user", "assistant", "system", "developer"):
        assert turns({"role": role, "content": parts})[0].blocks == [Text("a"), Text("b")]


def test_empty_content_is_none() -> None:
    assert turns(said(""), {"role": "assistant", "content": None}) == [Turn(Role.USER, []), Turn(Role.ASSISTANT, [])]
    assert read(input="")[0].turns == [Turn(Role.USER, [])]


def test_what_the_assistant_did_in_a_row_is_one_turn() -> None:
    found = turns(
        said("hi"),
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
        call("call_1"),
        call("call_2", arguments="{}"),
        output("call_1"),
        output("call_2", "13"),
        said("and?"),
    )
    assert found == [
        Turn(Role.USER, [Text("hi")]),
        Turn(
            Role.ASSISTANT,
            [Thinking("hm"), Text("ok"), ToolCall("call_1", "f", '{"a": 1}'), ToolCall("call_2", "f", "{}")],
        ),
        Turn(Role.USER, [ToolResult("call_1", [Text("12")]), ToolResult("call_2", [Text("13")]), Text("and?")]),
    ]


def test_results_come_before_what_else_the_user_says() -> None:
    prompt, lost = read(input=[call(), said("wait"), output()])
    assert prompt.turns[1].blocks == [ToolResult("call_1", [Text("12")]), Text("wait")]
    assert lost == ["result_order"]


def test_a_last_turn_of_the_assistant_is_the_beginning_of_the_answer() -> None:
    assert read(input=[said("hi"), said("It", "assistant")])[0].continues


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"content": [{"type": "reasoning_text", "text": "a"}, {"text": "b"}], "summary": [{"text": "s"}]}, "a\n\nb"),
        ({"content": None, "summary": [{"type": "summary_text", "text": "s"}, {"text": "t"}]}, "s\n\nt"),
        ({"summary": []}, ""),
    ],
)
def test_thinking_is_its_own_words_else_their_summary(item: dict[str, Any], text: str) -> None:
    assert turns({"type": "reasoning", "id": "rs_1", **item})[0].blocks == [Thinking(text)]


def test_what_is_sealed_is_kept_for_whoever_may_open_it() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAsealed"}
    assert turns(item)[0].blocks == [Thinking("", "gAAAAsealed")]


def test_a_call_is_known_by_its_call_id_not_by_the_items() -> None:
    assert turns(call())[0].blocks == [ToolCall("call_1", "f", '{"a": 1}')]
    assert turns({**call(), "call_id": None})[0].blocks == [ToolCall("fc_1", "f", '{"a": 1}')]


def test_an_id_that_was_spelt_anew_is_itself_again() -> None:
    id = "functions.f:0"
    found = turns(call(spelt_id(id)), output(spelt_id(id)))
    assert found[0].blocks == [ToolCall(id, "f", '{"a": 1}')]
    assert found[1].blocks == [ToolResult(id, [Text("12")])]


def test_arguments_are_the_text_that_was_written() -> None:
    text = '{"big": 12345678901234567890, "b": 1.0, "b": 2}'
    assert turns(call(arguments=text))[0].blocks == [ToolCall("call_1", "f", text)]
    assert turns(call(arguments={"a": [1]}))[0].blocks == [ToolCall("call_1", "f", '{"a": [1]}')]


def test_calls_of_custom_tools_hold_any_text() -> None:
    found = turns(
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
    )
    assert found[0].blocks == [ToolCall("c", "patch", "*** Begin", custom=True)]
    assert found[1].blocks == [ToolResult("c", [Text("done")], custom=True)]


def test_a_result_may_hold_images_and_files() -> None:
    parts = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": f"data:image/jpeg;base64,{PNG}", "detail": "low"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"},
    ]
    result = turns(call(), output(given=parts))[1].blocks[0]
    assert result == ToolResult(
        "call_1",
        [Text("see"), Image("image/png", PNG, detail="low"), Document("application/pdf", "JVBERi0x", title="a.pdf")],
    )


def test_a_result_that_begins_with_our_mark_is_an_errors() -> None:
    assert turns(call(), output(given="[tool error] no"))[1].blocks == [
        ToolResult("call_1", [Text("no")], is_error=True)
    ]
    assert turns(call(), output(given="[tool error] "))[1].blocks == [ToolResult("call_1", [], is_error=True)]


def test_a_result_without_an_output_is_empty() -> None:
    assert turns({**output(None, None), "name": None})[0].blocks == [ToolResult("", [])]


# -- parts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"type": "text", "text": "a"}, Text("a")),
        ({"type": "input_text"}, Text("")),
        ({"type": "refusal", "refusal": "no"}, Refusal("no")),
        ({"type": "refusal"}, Refusal("")),
        ({"type": "input_image", "image_url": "https://x/a.png", "detail": "high"},
         Image(url="https://x/a.png", detail="high")),
        ({"type": "input_image", "image_url": {"url": "https://x/a.png"}}, Image(url="https://x/a.png")),
        ({"type": "input_file", "file_data": "JVBERi0x"}, Document("application/pdf", "JVBERi0x")),
        ({"type": "input_file", "file_data": "DATA:text/plain;base64,aGk=", "filename": "a"},
         Document("text/plain", "aGk=", title="a")),
        ({"type": "input_file", "file_data": "aGk="}, Document("application/pdf", "aGk=")),
        ({"type": "input_file", "file_url": "https://x/a.pdf"}, Document(url="https://x/a.pdf")),
        ({"type": "input_audio", "input_audio": {"format": "wav", "data": "aGk="}}, Audio("wav", "aGk=")),
    ],
)  # fmt: skip
def test_every_part_is_a_block(part: dict[str, Any], block: Block) -> None:
    assert turns({"role": "user", "content": [part]}) == [Turn(Role.USER, [block])]


@pytest.mark.parametrize(
    ("part", "where"),
    [
        ({"type": "input_image", "file_id": "file_1", "detail": "auto"}, "input[0].content[0]"),
        ({"type": "input_image"}, "input[0].content[0].image_url"),
        ({"type": "input_image", "image_url": "ftp://x"}, "input[0].content[0].image_url"),
        ({"type": "input_file", "file_id": "file_1"}, "input[0].content[0]"),
        ({"type": "input_audio"}, "input[0].content[0].input_audio.format"),
        ({"type": "input_text", "text": 1}, "input[0].content[0].text"),
    ],
)
def test_a_part_that_cannot_be_had_is_refused_by_its_place(part: dict[str, Any], where: str) -> None:
    assert refused(input=[{"role": "user", "content": [part]}]).param == where


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ({"type": "output_text", "text": "a", "annotations": [{"type": "url_citation"}]}, "annotations"),
        ({"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}, "cache_control"),
        ({"type": "computer_screenshot"}, "foreign_block"),
    ],
)
def test_what_a_part_loses_is_told(part: dict[str, Any], code: str) -> None:
    assert read(input=[{"role": "user", "content": [part]}])[1] == [code]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "item_reference", "id": "msg_1"},
        {"id": "msg_1"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {"type": "computer_call", "call_id": "c", "action": {}, "output": {}},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
        {"type": "mcp_call", "id": "m", "arguments": "{}", "name": "x", "server_label": "s", "output": "a"},
        {"type": "tool_search_call", "arguments": {"q": 1}, "name": 3},
        {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "of_next_year"},
    ],
)
def test_items_that_only_their_vendor_can_read_are_dropped(item: dict[str, Any]) -> None:
    prompt, lost = read(input=[said("hi"), item])
    assert prompt.turns == [Turn(Role.USER, [Text("hi")])]
    assert lost == ["foreign_block"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": 3}, "input"),
        ({"input": [said("x", "tool")]}, "input[0].role"),
        ({"input": ["x"]}, "input[0]"),
        ({"input": [{"type": 3}]}, "input[0].type"),
        ({"input": [{**call(), "name": 3}]}, "input[0].name"),
        ({"model": None}, "model"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_place(fields: dict[str, Any], param: str) -> None:
    assert refused(**fields).param == param


# -- what needs a store -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("previous_response_id", "resp_1"),
        ("conversation", "conv_1"),
        ("conversation", {"id": "conv_1"}),
        ("background", True),
        ("prompt", {"id": "pmpt_1"}),
    ],
)
def test_what_needs_a_store_is_refused_never_ignored(field: str, value: Any) -> None:
    error = refused(**{field: value, "input": None})
    assert error.code == "stateful"
    assert error.param == field
    assert f"'{field}'" in error.message
    assert ": " in error.message


def test_what_says_that_nothing_is_stored_is_understood() -> None:
    prompt, lost = read(previous_response_id=None, conversation=None, background=False, prompt=None, store=False)
    assert prompt.settings == {}
    assert lost == []
    assert read(store=True)[0].settings == {"store": True}


# -- tools --------------------------------------------------------------------------------------------------------


def test_schemas_are_kept_byte_for_byte() -> None:
    schema = b'{"type":"object",  "properties":{"n":{"maximum":12345678901234567890}}}'
    body = (
        b'{"model":"m","input":"x","tools":[{"type":"function","name":"f","description":"d","strict":true,"parameters":'
    )
    prompt = read_prompt(body + schema + b"}]}", losses := Losses())
    assert prompt.tools == [Tool("f", "d", Raw(schema), strict=True)]
    assert bytes(prompt.tools[0].schema or b"") == schema
    assert not losses.codes


def test_a_function_may_have_no_schema() -> None:
    tools = [{"type": "function", "name": "f", "parameters": None, "strict": None, "defer_loading": False}]
    prompt, lost = read(tools=tools)
    assert prompt.tools == [Tool("f")]
    assert lost == []


def test_a_custom_tool_keeps_its_grammar_as_chat_nests_it() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}
    tools = [
        {"type": "custom", "name": "p", "description": "d", "format": grammar},
        {"type": "custom", "name": "q", "format": {"type": "text"}},
        {"type": "custom", "name": "r"},
    ]
    nested = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}}
    assert read(tools=tools)[0].tools == [
        Tool("p", "d", custom=True, grammar=nested),
        Tool("q", custom=True, grammar={"type": "text"}),
        Tool("r", custom=True),
    ]


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search"}, {"type": "mcp", "server_label": "s", "name": 3}, {"type": "local_shell"},
        {"type": "file_search", "vector_store_ids": []}, {"name": "f"},
    ],
)  # fmt: skip
def test_tools_that_the_vendor_runs_are_dropped(tool: dict[str, Any]) -> None:
    prompt, lost = read(tools=[tool])
    assert prompt.tools == []
    assert lost == ["server_tools"]


def test_fields_of_a_tool_that_exist_nowhere_else_are_told() -> None:
    prompt, lost = read(tools=[{"type": "function", "name": "f", "parameters": {}, "defer_loading": True}])
    assert [tool.name for tool in prompt.tools] == ["f"]
    assert lost == ["tool_fields"]


def test_the_tools_of_a_namespace_and_calls_of_them_are_named_with_it() -> None:
    inner = [{"type": "function", "name": "f", "parameters": {}}, {"type": "custom", "name": "g"}]
    tools = [
        {"type": "namespace", "name": "n", "description": "d", "tools": inner},
        {"type": "namespace", "name": "empty", "description": "d"},
    ]
    prompt, lost = read(tools=tools, input=[call(namespace="n")])
    assert [(tool.name, tool.namespace) for tool in prompt.tools] == [("n.f", "n"), ("n.g", "n")]
    (called,) = prompt.turns[0].blocks
    assert isinstance(called, ToolCall)
    assert called.name.startswith("n.")
    assert lost == []


def test_a_namespace_holds_no_other() -> None:
    tool: dict[str, Any] = {"type": "function", "name": "f", "parameters": {}}
    for _ in range(2):
        tool = {"type": "namespace", "name": "n", "description": "d", "tools": [tool]}
    assert read(tools=[tool])[1] == ["server_tools"]


def test_a_tool_without_a_name_is_refused() -> None:
    assert refused(tools=[{"type": "function", "function": {"name": "f"}}]).param == "tools[0].name"


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ("none", ToolChoice(Choice.NONE)),
        ("auto", ToolChoice(Choice.AUTO)),
        ("required", ToolChoice(Choice.REQUIRED)),
        ({"type": "function", "name": "f"}, ToolChoice(Choice.NAMED, "f")),
        ({"type": "custom", "name": "f"}, ToolChoice(Choice.NAMED, "f")),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
         ToolChoice(Choice.AUTO, allowed=["f"])),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "f"}]},
         ToolChoice(Choice.REQUIRED, allowed=["f"])),
    ],
)  # fmt: skip
def test_every_choice_of_a_tool_is_read(given: Any, choice: ToolChoice) -> None:
    prompt, lost = read(tool_choice=given)
    assert prompt.tool_choice == choice
    assert lost == []


def test_a_choice_of_what_the_vendor_runs_cannot_be_had() -> None:
    assert read(tool_choice={"type": "file_search"}) == (read(tool_choice="auto")[0], ["server_tools"])
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}, {"type": "function", "name": "f"}]}
    prompt, lost = read(tool_choice=allowed)
    assert prompt.tool_choice == ToolChoice(Choice.AUTO, allowed=["f"])
    assert lost == ["server_tools"]


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ("sometimes", "tool_choice"),
        ({"type": "function"}, "tool_choice.name"),
        ({"type": "allowed_tools"}, "tool_choice.tools"),
        ({"type": "allowed_tools", "tools": ["f"]}, "tool_choice.tools"),
        ({"type": "allowed_tools", "tools": [{"type": "function"}]}, "tool_choice.tools[0].name"),
    ],
)
def test_a_choice_that_cannot_be_read_is_refused(given: Any, param: str) -> None:
    assert refused(tool_choice=given).param == param


# -- settings -----------------------------------------------------------------------------------------------------


def test_every_setting_that_responses_has_is_kept() -> None:
    settings = {
        "temperature": 0.5, "top_p": 1, "top_logprobs": 3, "user": "u", "metadata": {"a": "b"}, "service_tier": "flex",
        "prompt_cache_key": "k", "safety_identifier": "s",
    }  # fmt: skip
    prompt, lost = read(
        **settings, text={"verbosity": "low"}, max_output_tokens=5, stream=True, parallel_tool_calls=False,
        stream_options={"include_obfuscation": False}, truncation="disabled", include=["reasoning.encrypted_content"],
    )  # fmt: skip
    assert prompt.settings == {**settings, "verbosity": "low"}
    assert prompt.max_tokens == 5
    assert prompt.stream
    assert prompt.parallel_calls is False
    assert lost == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"truncation": "auto"}, "unknown_field"),
        ({"max_tool_calls": 3}, "unknown_field"),
        ({"reasoning": {"mode": "pro"}}, "unknown_field"),
    ],
)
def test_what_is_asked_beyond_is_told(fields: dict[str, Any], code: str) -> None:
    assert read(**fields)[1] == [code]


def test_a_field_that_says_nothing_loses_nothing() -> None:
    assert read(max_tool_calls=None, reasoning={"mode": None}, include=None, text=None, truncation=None)[1] == []


@pytest.mark.parametrize(
    ("given", "reasoning"),
    [
        (None, None),
        ({}, None),
        ({"effort": "high"}, Reasoning(effort="high")),
        ({"effort": None, "summary": "auto"}, Reasoning(shown=True)),
        ({"effort": "low", "generate_summary": "concise"}, Reasoning(effort="low", shown=True)),
    ],
)
def test_how_much_to_think(given: Any, reasoning: Reasoning | None) -> None:
    assert read(reasoning=given)[0].reasoning == reasoning


def test_an_effort_is_a_word() -> None:
    assert refused(reasoning={"effort": 3}).param == "reasoning.effort"


@pytest.mark.parametrize(
    ("given", "format"),
    [
        (None, None),
        ({"format": None}, None),
        ({"format": {"type": "text"}}, None),
        ({"format": {"type": "json_object"}}, AnswerFormat()),
        ({"format": {"type": "json_schema", "name": "n", "schema": None}}, AnswerFormat(None, "n")),
    ],
)
def test_every_form_of_an_answer_is_read(given: Any, format: AnswerFormat | None) -> None:
    assert read(text=given)[0].format == format


def test_a_schema_of_the_answer_is_kept_byte_for_byte() -> None:
    body = (
        b'{"model":"m","input":"x","text":{"format":{"type":"json_schema","name":"n","strict":true,'
        b'"description":"d","schema":{"b":1,  "a":2}}}}'
    )
    format = read_prompt(body, Losses()).format
    assert format == AnswerFormat(Raw(b'{"b":1,  "a":2}'), "n", strict=True, description="d")


def test_an_unknown_form_is_refused() -> None:
    assert refused(text={"format": {"type": "grammar"}}).param == "text.format.type"


def test_reading_takes_time_in_proportion_to_the_items() -> None:
    def body(count: int) -> bytes:
        return json.dumps(
            {"model": "m", "input": [item for _ in range(count) for item in (said("x"), output())]}
        ).encode()

    assert_linear(body, lambda given: read_prompt(given, Losses()), 20_000)
