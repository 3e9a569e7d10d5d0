"""A chat request means the same as a Prompt; what is lost is told, what is no request is refused with its place."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from stoker.request.translate.chat.read_prompt import SETTINGS, read_prompt
from stoker.request.translate.neutral.calls import spelt_id
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.neutral.json_text import Raw

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
PDF = base64.b64encode(b"%PDF-1.7" + bytes(40)).decode()
USER = {"role": "user", "content": "hi"}
WEATHER = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Ulm"}'}}
CLOCK = {"id": "call_2", "type": "function", "function": {"name": "clock", "arguments": ""}}


def read(*messages: dict[str, Any], **fields: Any) -> tuple[Prompt, list[str]]:
    return read_bytes(json.dumps({"model": "m", "messages": list(messages)} | fields).encode())


def read_bytes(body: bytes) -> tuple[Prompt, list[str]]:
    losses = Losses()
    prompt = read_prompt(body, losses)
    assert set(losses.codes) <= set(LOSSY)
    return prompt, list(losses.codes)


def blocks(*messages: dict[str, Any]) -> list[Block]:
    (turn,) = read(*messages)[0].turns
    return turn.blocks


def part(**fields: Any) -> list[Block]:
    return blocks({"role": "user", "content": [fields]})


def refused(*messages: dict[str, Any], **fields: Any) -> str | None:
    """The place at fault."""
    with pytest.raises(ClientError) as caught:
        read(*messages, **fields)
    assert caught.value.status == 400
    return caught.value.param


# -- messages -----------------------------------------------------------------------------------------------------


def test_a_plain_request_is_one_turn_and_loses_nothing() -> None:
    prompt, codes = read(USER)
    assert (prompt.dialect, prompt.model, prompt.turns) == (Dialect.CHAT, "m", [Turn(Role.USER, [Text("hi")])])
    assert (prompt.stream, prompt.wants_usage, prompt.continues, prompt.max_tokens) == (False, False, False, None)
    assert codes == []


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_and_developer_are_system_turns_where_they_stand(role: str) -> None:
    prompt, codes = read({"role": role, "content": "be brief"}, USER, {"role": role, "content": "be kind"})
    assert [turn.role for turn in prompt.turns] == [Role.SYSTEM, Role.USER, Role.SYSTEM]
    assert codes == []


def test_a_run_of_one_role_is_one_turn_but_system_turns_stay_apart() -> None:
    brief = {"role": "system", "content": "brief"}
    prompt, _ = read(
        brief, brief, USER, USER, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}
    )
    assert [(turn.role, len(turn.blocks)) for turn in prompt.turns] == [
        (Role.SYSTEM, 1), (Role.SYSTEM, 1), (Role.USER, 2), (Role.ASSISTANT, 2),
    ]  # fmt: skip


def test_xuan_191_a_list_of_parts_is_kept_for_every_role() -> None:
    given = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    for role in ("system", "user", "assistant"):
        assert blocks({"role": role, "content": given}) == [Text("a"), Text("b")]
    assert blocks({"role": "tool", "tool_call_id": "c", "content": given}) == [ToolResult("c", [Text("a"), Text("b")])]


@pytest.mark.parametrize("content", ["", None, []])
def test_no_content_is_no_block(content: Any) -> None:
    assert blocks({"role": "user", "content": content}) == []


def test_every_kind_of_part_has_a_block() -> None:
    assert part(type="text", text="a") == part(type="input_text", text="a") == [Text("a")]
    assert part(type="output_text") == [Text("")]
    assert part(type="refusal", refusal="no") == [Refusal("no")]
    assert part(type="refusal") == [Refusal("")]
    assert part(type="input_audio", input_audio={"format": "wav", "data": "UklG"}) == [Audio("wav", "UklG")]


@pytest.mark.parametrize("image_url", [{"url": f"data:image/jpeg;base64,{PNG}"}, f"data:image/png;base64,{PNG}"])
def test_an_image_is_what_its_bytes_are(image_url: Any) -> None:
    assert part(type="image_url", image_url=image_url) == [Image("image/png", PNG)]


def test_an_image_keeps_its_address_and_how_closely_to_look() -> None:
    url = {"url": "https://a.b/c.png", "detail": "high"}
    assert part(type="image_url", image_url=url) == [Image(url="https://a.b/c.png", detail="high")]
    assert part(type="image_url", image_url=url | {"detail": 3}) == [Image(url="https://a.b/c.png")]


def test_a_file_is_a_document_with_its_name() -> None:
    uri = f"data:application/x-thing;base64,{PDF}"
    assert part(type="file", file={"file_data": uri, "filename": "a.pdf"}) == [
        Document("application/pdf", PDF, title="a.pdf")
    ]
    assert part(type="file", file={"file_data": "data:text/csv;base64,YSxi"}) == [Document("text/csv", "YSxi")]
    assert part(type="file", file={"file_data": "YSxi", "filename": 7}) == [Document("application/pdf", "YSxi")]


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"type": "image_url"}, "image_url.url"),
        ({"type": "image_url", "image_url": {"url": 3}}, "image_url.url"),
        ({"type": "image_url", "image_url": "file:///etc/passwd"}, "image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}, "image_url.url"),
        ({"type": "input_audio"}, "input_audio.format"),
        ({"type": "input_audio", "input_audio": {"format": "wav"}}, "input_audio.data"),
        ({"type": "file", "file": {"file_id": "file-1"}}, "file"),
        ({"type": "file"}, "file"),
        ({"type": "file", "file": {"file_data": "data:application/pdf,raw"}}, "file"),
        ({"type": "video_url", "video_url": {"url": "x"}}, "type"),
    ],
)
def test_a_part_that_cannot_be_read_is_refused_with_its_place(given: dict[str, Any], place: str) -> None:
    content = [{"type": "text", "text": "look"}, given]
    assert refused(USER, {"role": "user", "content": content}) == f"messages[1].content[1].{place}"


@pytest.mark.parametrize("mark", ["prompt_cache_breakpoint", "cache_control"])
def test_a_mark_of_what_to_cache_is_lost(mark: str) -> None:
    text = {"type": "text", "text": "a"}
    assert read({"role": "user", "content": [text | {mark: {"mode": "explicit"}}, text]})[1] == ["cache_control"]


def test_the_name_of_a_participant_is_lost_and_the_name_of_a_tool_is_not() -> None:
    assert read(USER | {"name": "Ada"})[1] == ["name"]
    call = {"role": "assistant", "tool_calls": [WEATHER]}
    assert read(call, {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": "x"})[1] == []


def test_an_unknown_role_is_refused() -> None:
    assert refused(USER, {"role": "narrator", "content": "x"}) == "messages[1].role"


# -- thinking, calls and results ----------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_claude_code_router_1041_past_thinking_stays_with_its_turn_even_empty(field: str) -> None:
    for text in ("hm", ""):
        message = {"role": "assistant", field: text, "content": None, "tool_calls": [WEATHER]}
        assert blocks(message)[0] == Thinking(text)


def test_vllm_38738_an_assistant_with_calls_needs_no_content() -> None:
    for content in ({}, {"content": None}, {"content": ""}, {"content": []}):
        found = blocks({"role": "assistant", "tool_calls": [WEATHER, CLOCK]} | content)
        assert found == [ToolCall("call_1", "weather", '{"city": "Ulm"}'), ToolCall("call_2", "clock", "")]


def test_an_assistant_says_thinking_text_refusal_calls_in_this_order() -> None:
    message = {"role": "assistant", "tool_calls": [CLOCK], "refusal": "no", "content": "a", "reasoning": "hm"}
    assert blocks(message) == [Thinking("hm"), Text("a"), Refusal("no"), ToolCall("call_2", "clock", "")]


@pytest.mark.parametrize("arguments", ['{"a":1.0, "ü": 12345678901234567890123}', "{bad", "null", "7"])
def test_arguments_are_kept_as_they_were_written(arguments: str) -> None:
    call = '{"id":"c","function":{"name":"f","arguments":%s}}'
    body = '{"model":"m","messages":[{"role":"assistant","tool_calls":[' + call + "]}]}"
    for spelt in (json.dumps(arguments), arguments):
        if spelt != "{bad":
            assert read_bytes((body % spelt).encode())[0].turns[0].blocks == [ToolCall("c", "f", arguments)]


def test_a_call_without_arguments_has_none() -> None:
    assert blocks({"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}) == [
        ToolCall("c", "f", "")
    ]


def test_a_call_of_a_custom_tool_holds_any_text() -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls {"}}
    assert blocks({"role": "assistant", "tool_calls": [call]}) == [ToolCall("c", "sh", "ls {", custom=True)]


def test_a_call_of_nothing_is_refused() -> None:
    place = refused({"role": "assistant", "tool_calls": [WEATHER, {"id": "c"}]})
    assert place == "messages[0].tool_calls[1].function"


def test_an_id_that_we_spelt_is_itself_again() -> None:
    id = "functions.weather:0"
    call = WEATHER | {"id": spelt_id(id)}
    prompt, _ = read(
        {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": spelt_id(id), "content": ""}
    )
    assert prompt.turns[0].blocks[0] == ToolCall(id, "weather", '{"city": "Ulm"}')
    assert prompt.turns[1].blocks == [ToolResult(id, [])]


def test_results_in_a_row_and_what_the_user_says_then_are_one_turn() -> None:
    prompt, codes = read(
        {"role": "assistant", "tool_calls": [WEATHER, CLOCK]},
        {"role": "tool", "tool_call_id": "call_2", "content": "noon"},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        USER,
    )
    assert prompt.turns[1] == Turn(
        Role.USER, [ToolResult("call_2", [Text("noon")]), ToolResult("call_1", [Text("rain")]), Text("hi")]
    )
    assert codes == []


def test_results_go_before_what_the_user_said_between_them() -> None:
    prompt, codes = read(
        {"role": "assistant", "tool_calls": [WEATHER, CLOCK]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        USER,
        {"role": "tool", "tool_call_id": "call_2", "content": "noon"},
    )
    assert prompt.turns[1].blocks == [
        ToolResult("call_1", [Text("rain")]),
        ToolResult("call_2", [Text("noon")]),
        Text("hi"),
    ]
    assert codes == ["result_order"]


def test_our_own_mark_of_an_error_is_an_error_again() -> None:
    tool = {"role": "tool", "tool_call_id": "c"}
    assert blocks(tool | {"content": "[tool error] no such file"}) == [
        ToolResult("c", [Text("no such file")], is_error=True)
    ]
    assert blocks(tool | {"content": "see [tool error] 3"}) == [ToolResult("c", [Text("see [tool error] 3")])]
    assert blocks(tool | {"content": None}) == [ToolResult("c", [])]


def test_an_image_in_a_result_stays_an_image() -> None:
    content = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]
    tool = {"role": "tool", "tool_call_id": "c", "content": content}
    assert blocks(tool) == [ToolResult("c", [Image("image/png", PNG)])]


def test_the_old_spelling_of_calls_is_read_too() -> None:
    prompt, codes = read(
        {"role": "assistant", "function_call": {"name": "clock", "arguments": "{}"}},
        {"role": "function", "name": "clock", "content": "noon"},
        functions=[{"name": "clock", "parameters": {"type": "object"}}],
        function_call={"name": "clock"},
    )
    assert prompt.turns[0].blocks == [ToolCall("call_clock", "clock", "{}")]
    assert prompt.turns[1].blocks == [ToolResult("call_clock", [Text("noon")])]
    assert prompt.tools == [Tool("clock", None, Raw(b'{"type": "object"}'))]
    assert prompt.tool_choice == ToolChoice(Choice.NAMED, "clock")
    assert codes == []


def test_a_result_that_names_no_call_is_an_orphan_and_no_error() -> None:
    assert blocks({"role": "tool", "content": "x"}) == [ToolResult("call_", [Text("x")])]


def test_an_assistant_at_the_end_is_the_beginning_of_the_answer() -> None:
    assert read(USER, {"role": "assistant", "content": "Once"})[0].continues
    assert not read(USER)[0].continues
    assert not read()[0].continues


# -- tools --------------------------------------------------------------------------------------------------------


def test_a_tool_keeps_its_schema_byte_for_byte() -> None:
    tools = b'[{"type":"function","function":{"name":"f","description":"d","strict":true,"parameters":{"x": 1.0}}}]'
    prompt, _ = read_bytes(b'{"model":"m","messages":[],"tools":%b}' % tools)
    (tool,) = prompt.tools
    assert tool.schema is not None
    assert (tool.name, tool.description, tool.strict, bytes(tool.schema)) == ("f", "d", True, b'{"x": 1.0}')


@pytest.mark.parametrize("function", [{"name": "f"}, {"name": "f", "parameters": None}])
def test_a_tool_may_have_no_schema(function: dict[str, Any]) -> None:
    assert read(tools=[{"type": "function", "function": function}])[0].tools == [Tool("f")]


def test_a_custom_tool_keeps_its_grammar() -> None:
    custom = {"name": "sh", "description": "d", "format": {"type": "text"}}
    found = read(tools=[{"type": "custom", "custom": custom}])[0].tools
    assert found == [Tool("sh", "d", custom=True, grammar={"type": "text"})]


@pytest.mark.parametrize("tool", [{"type": "function"}, {"type": "custom"}, {}])
def test_a_tool_without_its_function_is_refused(tool: dict[str, Any]) -> None:
    assert refused(tools=[tool]) == "tools[0].function"


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ("none", ToolChoice(Choice.NONE)),
        ("auto", ToolChoice(Choice.AUTO)),
        ("required", ToolChoice(Choice.REQUIRED)),
        ("any", ToolChoice(Choice.REQUIRED)),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice(Choice.NAMED, "f")),
        ({"type": "function", "name": "f"}, ToolChoice(Choice.NAMED, "f")),
        ({"type": "custom", "custom": {"name": "f"}}, ToolChoice(Choice.NAMED, "f")),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                {"type": "function", "function": {"name": "f"}}, {"type": "custom", "custom": {"name": "g"}}]}},
            ToolChoice(Choice.REQUIRED, allowed=["f", "g"]),
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"name": "f"}]}, ToolChoice(Choice.AUTO, allowed=["f"])),
        (None, None),
    ],
)  # fmt: skip
def test_every_choice_of_tools_is_read(given: Any, choice: ToolChoice | None) -> None:
    assert read(tool_choice=given)[0].tool_choice == choice


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("sometimes", "tool_choice"),
        ({"type": "function"}, "tool_choice.function.name"),
        ({"type": "function", "function": "f"}, "tool_choice.function.name"),
        ({"type": []}, "tool_choice.type"),
        ({"type": "allowed_tools", "allowed_tools": 3}, "tool_choice.allowed_tools"),
        ({"type": "allowed_tools"}, "tool_choice.allowed_tools"),
        ({"type": "allowed_tools", "tools": ["f"]}, "tool_choice.allowed_tools.tools[0]"),
        ({"type": "allowed_tools", "tools": [{"type": []}]}, "tool_choice.allowed_tools.tools[0]"),
        ({"type": "allowed_tools", "tools": [{"function": 3}]}, "tool_choice.allowed_tools.tools[0]"),
    ],
)
def test_a_choice_that_cannot_be_read_is_refused_with_its_place(given: Any, place: str) -> None:
    assert refused(tool_choice=given) == place


def test_calls_in_parallel_may_be_forbidden() -> None:
    assert [read(parallel_tool_calls=x)[0].parallel_calls for x in (True, False, None)] == [True, False, None]


# -- settings -----------------------------------------------------------------------------------------------------

GIVEN: dict[str, Any] = {
    "temperature": 0.5, "top_p": 1, "top_k": 40, "min_p": 0.1, "seed": 7, "frequency_penalty": 0.1,
    "presence_penalty": -1, "repetition_penalty": 1.1, "logit_bias": {"50256": -100}, "logprobs": True,
    "top_logprobs": 3, "user": "u", "metadata": {"a": "b"}, "service_tier": "flex", "store": True,
    "prediction": {"type": "content", "content": "x"}, "verbosity": "low", "prompt_cache_key": "k",
    "safety_identifier": "s", "chat_template_kwargs": {"x": 1},
}  # fmt: skip


def test_every_setting_is_kept_under_its_name() -> None:
    prompt, codes = read(USER, **GIVEN)
    assert prompt.settings == GIVEN
    assert set(SETTINGS) == set(GIVEN)
    assert codes == []


@pytest.mark.parametrize(
    ("fields", "limit"),
    [({"max_tokens": 5}, 5), ({"max_completion_tokens": 6}, 6), ({"max_tokens": 5, "max_completion_tokens": 6}, 6)],
)
def test_the_output_limit_has_two_names(fields: dict[str, int], limit: int) -> None:
    assert read(**fields)[0].max_tokens == limit


@pytest.mark.parametrize(("stop", "found"), [("END", ["END"]), (["a", "b"], ["a", "b"]), (None, [])])
def test_stop_strings_are_a_list(stop: Any, found: list[str]) -> None:
    assert read(stop=stop)[0].stop == found


def test_a_stream_tells_its_usage_only_where_asked() -> None:
    assert read(stream=True)[0].stream
    asked = [
        read(stream_options=x)[0].wants_usage for x in (None, {}, {"include_usage": False}, {"include_usage": True})
    ]
    assert asked == [False, False, False, True]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({}, None),
        ({"type": "json_object"}, AnswerFormat()),
        ({"type": "json_schema"}, AnswerFormat()),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1}, "strict": True, "description": "d"}},
         AnswerFormat(Raw(b'{"a": 1}'), "n", True, "d")),
    ],
)  # fmt: skip
def test_the_form_of_the_answer_is_read(given: Any, found: AnswerFormat | None) -> None:
    assert read(response_format=given)[0].format == found


@pytest.mark.parametrize("given", [{"type": "grammar"}, {"type": 3}, {"type": None}])
def test_a_form_that_nobody_knows_is_refused(given: Any) -> None:
    assert refused(response_format=given) == "response_format.type"


OTHER, UNCLEAR = {"x": 1}, {"enable_thinking": "yes"}


@pytest.mark.parametrize(
    ("fields", "found", "kept"),
    [
        ({}, None, {}),
        ({"reasoning_effort": "high"}, Reasoning(effort="high"), {}),
        ({"chat_template_kwargs": {"enable_thinking": False}}, Reasoning(enabled=False), {}),
        ({"chat_template_kwargs": {"thinking": True} | OTHER}, Reasoning(True), {"chat_template_kwargs": OTHER}),
        ({"chat_template_kwargs": UNCLEAR}, None, {"chat_template_kwargs": UNCLEAR}),
        ({"chat_template_kwargs": OTHER, "reasoning_effort": "low"}, Reasoning(effort="low"),
         {"chat_template_kwargs": OTHER}),
    ],
)  # fmt: skip
def test_how_much_to_think_is_an_effort_or_a_switch(fields: Any, found: Reasoning | None, kept: dict[str, Any]) -> None:
    prompt, _ = read(**fields)
    assert (prompt.reasoning, prompt.settings) == (found, kept)


@pytest.mark.parametrize("n", [0, 2])
def test_several_answers_are_refused(n: int) -> None:
    assert refused(n=n) == "n"
    assert read(n=1)[1] == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"audio": {"voice": "alloy"}}, "audio"),
        ({"modalities": ["text", "audio"]}, "audio"),
        ({"web_search_options": {}}, "server_tools"),
        ({"moderation": {"model": "x"}}, "unknown_field"),
        ({"messages": [{"role": "assistant", "audio": {"id": "a"}}]}, "audio"),
    ],
)
def test_what_no_other_dialect_has_is_lost(fields: dict[str, Any], code: str) -> None:
    assert read(**fields)[1] == [code]


def test_text_alone_loses_no_modality() -> None:
    assert read(modalities=["text"])[1] == []


# -- hostile input ------------------------------------------------------------------------------------------------

KEYS = [
    "type", "function", "custom", "name", "tools", "allowed_tools", "arguments", "input", "text", "image_url", "url",
    "file", "file_data", "input_audio", "format", "data", "json_schema", "schema", "parameters", "id",
]  # fmt: skip
HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["function", "custom", "text"]),
    lambda x: st.lists(x, max_size=2) | st.dictionaries(st.sampled_from(KEYS), x, max_size=4),
    max_leaves=8,
)
IN_MESSAGES = ("content", "tool_calls", "tool_call_id", "name", "refusal", "function_call", "reasoning")
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool", "function"])},
    optional=dict.fromkeys(IN_MESSAGES, HOSTILE),
)
FIELDS = [
    "tools", "tool_choice", "response_format", "stop", "functions", "function_call", "stream_options",
    "chat_template_kwargs", "modalities", "max_tokens", "n",
]  # fmt: skip


@given(st.lists(MESSAGES, max_size=3), st.dictionaries(st.sampled_from(FIELDS), HOSTILE, max_size=3))
def test_whatever_a_client_sends_it_is_read_or_refused(messages: list[Any], fields: dict[str, Any]) -> None:
    try:
        found: object = read(*messages, **fields)[0]
    except ClientError as error:
        found = error
    assert getattr(found, "model", None) == "m" or getattr(found, "status", None) == 400


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"model":"m"}', b'{"model":"m","messages":[3]}'])
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(ClientError):
        read_bytes(body)
