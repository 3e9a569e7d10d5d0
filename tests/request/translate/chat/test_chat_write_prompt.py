"""A Prompt is written so that the serve can take it: what chat has no place for is moved, told, or refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter
from tests.request.translate.capable import capabilities_of

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import (
    SETTINGS,
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
from stoker.request.translate.chat.read_prompt import read_prompt
from stoker.request.translate.chat.write_prompt import write_prompt
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.neutral.json_text import Raw, encode

LOCAL = capabilities_of("vllm", Dialect.CHAT, cloud=False)
LLAMA = capabilities_of("llama.cpp", Dialect.CHAT, cloud=False)
CLOUD = capabilities_of("openai", Dialect.CHAT, cloud=True)
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
PICTURE = Image("image/png", PNG)
SHOWN = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
OBJECT = Raw(b'{"type":"object","properties":{"a":{"type":"integer"}}}')
ONE = [Tool("f", "d", OBJECT)]


def write(
    *turns: Turn, to: Capabilities = LOCAL, dialect: Dialect = Dialect.MESSAGES, **fields: Any
) -> tuple[dict[str, Any], list[str]]:
    losses = Losses()
    document = write_prompt(Prompt(dialect, "m", list(turns), **fields), to, losses)
    assert set(losses.codes) <= set(LOSSY)
    return msgspec.json.decode(encode(document)), list(losses.codes)


def messages(*turns: Turn, to: Capabilities = LOCAL) -> tuple[list[dict[str, Any]], list[str]]:
    document, codes = write(*turns, to=to)
    return document["messages"], codes


def user(*blocks: Block) -> Turn:
    return Turn(Role.USER, list(blocks))


def assistant(*blocks: Block) -> Turn:
    return Turn(Role.ASSISTANT, list(blocks))


def system(*blocks: Block) -> Turn:
    return Turn(Role.SYSTEM, list(blocks))


# -- messages -----------------------------------------------------------------------------------------------------


def test_blocks_of_the_system_are_one_text() -> None:
    assert messages(system(Text("a"), Text("b")), user(Text("hi"))) == (
        [{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "hi"}], [],
    )  # fmt: skip


def test_an_image_in_the_system_is_not_lost() -> None:
    (message,), codes = messages(system(Text("a"), PICTURE))
    assert message["content"] == [{"type": "text", "text": "a"}, SHOWN]
    assert codes == []


def test_an_empty_turn_stays_a_turn() -> None:
    assert messages(user(), assistant())[0] == [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]


def test_every_kind_of_block_has_a_part() -> None:
    blocks = (Text("a"), Image(url="https://a.b/c", detail="low"), Audio("wav", "UklG"), Refusal("no"))
    (message,), codes = messages(user(*blocks), to=CLOUD)
    assert message["content"] == [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "https://a.b/c", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
        {"type": "text", "text": "no"},
    ]
    assert codes == ["refusal"]


def test_results_come_first_in_their_order_then_the_user() -> None:
    found, codes = messages(user(Text("go on"), ToolResult("b", [Text("1"), Text("2")]), ToolResult("a", [])))
    assert found == [
        {"role": "tool", "tool_call_id": "b", "content": "1\n2"},
        {"role": "tool", "tool_call_id": "a", "content": ""},
        {"role": "user", "content": "go on"},
    ]
    assert codes == []


def test_an_error_is_told_in_the_text_and_read_back() -> None:
    found, codes = messages(user(ToolResult("a", [Text("no such file")], is_error=True)))
    assert found == [{"role": "tool", "tool_call_id": "a", "content": "[tool error] no such file"}]
    assert codes == ["result_error"]
    back = read_prompt(json.dumps({"model": "m", "messages": found}).encode(), Losses())
    assert back.turns == [user(ToolResult("a", [Text("no such file")], is_error=True))]


@pytest.mark.parametrize("count", [1, 2])
def test_litellm_25476_llama_22536_images_of_a_result_stay_images(count: int) -> None:
    turn = user(ToolResult("a", [Text("see"), *[PICTURE] * count]))
    found, codes = messages(turn)
    assert found == [
        {"role": "tool", "tool_call_id": "a", "content": "see"},
        {"role": "user", "content": [{"type": "text", "text": "(image from tool a)"}, *[SHOWN] * count]},
    ]
    assert codes == ["result_image"]
    found, codes = messages(turn, to=LLAMA)
    assert found == [
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "see"}, *[SHOWN] * count]}
    ]
    assert codes == []
    assert messages(user(ToolResult("a", [PICTURE])), to=LLAMA)[0][0]["content"] == [SHOWN]


def test_a_file_of_a_result_is_not_lost() -> None:
    found, codes = messages(user(ToolResult("a", [PICTURE, Document("application/pdf", "QUJD")])), to=LLAMA)
    file = {"type": "file", "file": {"filename": "document", "file_data": "data:application/pdf;base64,QUJD"}}
    assert found == [
        {"role": "tool", "tool_call_id": "a", "content": [SHOWN]},
        {"role": "user", "content": [{"type": "text", "text": "(file from tool a)"}, file]},
    ]
    assert codes == ["result_image"]


def test_a_document_that_is_text_is_put_in_with_its_title() -> None:
    (message,), codes = messages(
        user(Document(text="body", title="a.md"), Document("text/plain", data="QUJD"), Document())
    )
    assert [part["text"] for part in message["content"]] == ["a.md\nbody", "ABC", ""]
    assert codes == ["document"]


def test_a_document_by_its_address_is_refused() -> None:
    with pytest.raises(ClientError, match="as base64"):
        messages(user(Document(url="https://a.b/c.pdf")))


@pytest.mark.parametrize("block", [ToolCall("a", "f", "{}"), Thinking("hm"), Redacted("x")])
def test_what_only_the_model_may_say_is_told_when_somebody_else_says_it(block: Block) -> None:
    assert messages(user(Text("a"), block))[1] == ["foreign_block"]


def test_a_result_among_the_words_of_the_model_is_told() -> None:
    assert messages(assistant(ToolResult("a", [])))[1] == ["foreign_block"]


def test_an_assistant_says_thinking_text_and_calls_in_one_message() -> None:
    turn = assistant(Thinking("h"), Thinking("m"), Text("a"), ToolCall("c1", "f", '{"a":1}'), ToolCall("c2", "g", "{}"))
    (message,), codes = messages(turn)
    assert message == {
        "role": "assistant",
        "content": "a",
        "reasoning_content": "h\n\nm",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
            {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }
    assert codes == []
    TypeAdapter(ChatCompletionMessageParam).validate_python(message)


def test_text_behind_a_call_is_moved_before_it() -> None:
    (message,), codes = messages(assistant(ToolCall("c", "f", "{}"), Text("a")))
    assert message["content"] == "a"
    assert codes == ["order"]


def test_claude_code_router_1041_past_thinking_goes_back_on_tool_turns_even_empty() -> None:
    """Three rounds of a tool loop: DeepSeek refuses a turn whose `reasoning_content` is not there."""
    turns = [user(Text("go"))]
    for at, thought in enumerate(("first", "", "third")):
        turns += [assistant(Thinking(thought), ToolCall(f"c{at}", "f", "{}")), user(ToolResult(f"c{at}", [Text("ok")]))]
    found = [message for message in messages(*turns)[0] if message["role"] == "assistant"]
    assert [message["reasoning_content"] for message in found] == ["first", "", "third"]


@pytest.mark.parametrize(("field", "codes"), [("reasoning", []), ("", ["thinking"])])
def test_past_thinking_goes_where_the_serve_reads_it(field: str, codes: list[str]) -> None:
    (message,), found = messages(
        assistant(Thinking("hm"), Text("a")), to=capabilities_of("vllm", Dialect.CHAT, False, {"thinking_field": field})
    )
    assert {name for name in message if "reasoning" in name} == ({field} if field else set())
    assert found == codes


def test_thinking_that_only_its_maker_can_read_is_lost() -> None:
    assert messages(assistant(Redacted("x"), Text("a")))[1] == ["thinking_redacted"]


def test_vllm_38738_an_assistant_with_calls_and_no_text_has_null_content() -> None:
    (message,), _ = messages(assistant(ToolCall("c", "f", "{}")))
    assert message["content"] is None


def test_a_refusal_is_text_to_a_local_template_which_knows_no_refusals() -> None:
    turn = assistant(Refusal("I "), Refusal("won't"))
    (message,), codes = messages(turn, to=CLOUD)
    assert message == {"role": "assistant", "content": None, "refusal": "I won't"}
    assert codes == []
    (message,), codes = messages(turn)
    assert [part["text"] for part in message["content"]] == ["I ", "won't"]
    assert codes == ["refusal"]


SAID = st.text(min_size=1, max_size=6)
USERS = st.builds(
    lambda ids, texts: user(*(ToolResult(id, [Text(text)]) for id, text in ids.items()), *map(Text, texts)),
    st.dictionaries(SAID, SAID.filter(lambda text: not text.startswith("[tool")), max_size=2),
    st.lists(SAID, min_size=2, max_size=2) | st.just([]),
).filter(lambda turn: turn.blocks != [])
ASSISTANTS = st.builds(
    lambda thought, text, calls: assistant(*map(Thinking, thought), Text(text), *(ToolCall(*call) for call in calls)),
    st.lists(SAID, max_size=1), SAID, st.lists(st.tuples(SAID, SAID, SAID), max_size=2),
)  # fmt: skip


@given(st.lists(st.tuples(USERS, ASSISTANTS), min_size=1, max_size=3), SAID)
def test_what_chat_can_say_comes_back_as_it_was(pairs: list[tuple[Turn, Turn]], brief: str) -> None:
    turns = [system(Text(brief)), *(turn for pair in pairs for turn in pair)]
    document, codes = write(*turns)
    losses = Losses()
    assert read_prompt(encode(document), losses).turns == turns
    assert codes == list(losses.codes) == []


# -- tools --------------------------------------------------------------------------------------------------------


def test_a_tool_keeps_its_schema_byte_for_byte() -> None:
    schema = Raw(b'{"type": "object", "x": 1.0, "big": 12345678901234567890123}')
    document = write_prompt(Prompt(Dialect.CHAT, "m", [], tools=[Tool("f", "d", schema, True)]), LOCAL, Losses())
    function = b'{"name":"f","description":"d","parameters":%b,"strict":true}' % bytes(schema)
    assert encode(document["tools"]) == b'[{"type":"function","function":%b}]' % function


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        (None, {"type": "object", "properties": {}}),
        (Raw(b"{}"), {"type": "object"}),
        (Raw(b'{"properties":{"a":{}}}'), {"type": "object", "properties": {"a": {}}}),
        (Raw(b'{"$ref":"#/x"}'), {"$ref": "#/x"}),
        (Raw(b"true"), True),
    ],
)
def test_a_schema_without_its_type_gets_one(schema: Raw | None, written: Any) -> None:
    (tool,) = write(tools=[Tool("f", None, schema)])[0]["tools"]
    assert tool == {"type": "function", "function": {"name": "f", "parameters": written}}


def test_a_custom_tool_is_a_function_of_one_text_where_the_serve_knows_none() -> None:
    tool = Tool("sh", "d", custom=True, grammar={"type": "grammar"})
    turn = assistant(ToolCall("c", "sh", "ls {", custom=True))
    document, codes = write(turn, tools=[tool], tool_choice=ToolChoice(Choice.NAMED, "sh"))
    assert document["messages"][0]["tool_calls"][0]["function"]["arguments"] == '{"input":"ls {"}'
    assert document["tools"][0]["function"]["parameters"]["required"] == ["input"]
    assert document["tool_choice"] == {"type": "function", "function": {"name": "sh"}}
    assert codes == ["custom_tool", "grammar"]
    document, codes = write(turn, tools=[tool], tool_choice=ToolChoice(Choice.NAMED, "sh"), to=CLOUD)
    assert document["messages"][0]["tool_calls"] == [
        {"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls {"}}
    ]
    assert document["tools"] == [
        {"type": "custom", "custom": {"name": "sh", "description": "d", "format": {"type": "grammar"}}}
    ]
    assert document["tool_choice"] == {"type": "custom", "custom": {"name": "sh"}}
    assert codes == []


def test_a_custom_tool_without_a_grammar_loses_none() -> None:
    assert write(tools=[Tool("sh", custom=True)])[1] == ["custom_tool"]


@pytest.mark.parametrize("mode", [Choice.AUTO, Choice.NONE, Choice.REQUIRED])
def test_a_choice_is_written_in_a_word(mode: Choice) -> None:
    assert write(tools=ONE, tool_choice=ToolChoice(mode))[0]["tool_choice"] == mode.value


def test_one_tool_is_chosen_by_its_name() -> None:
    document, _ = write(tools=ONE, tool_choice=ToolChoice(Choice.NAMED, "f"))
    assert document["tool_choice"] == {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(("mode", "word"), [(Choice.AUTO, "auto"), (Choice.REQUIRED, "required")])
def test_allowed_tools_are_a_list_for_openai_and_all_that_there_is_for_others(mode: Choice, word: str) -> None:
    tools, choice = [*ONE, Tool("g"), Tool("sh", custom=True)], ToolChoice(mode, allowed=["f", "sh"])
    document, codes = write(tools=tools, tool_choice=choice, to=CLOUD)
    listed = [{"type": "function", "function": {"name": "f"}}, {"type": "custom", "custom": {"name": "sh"}}]
    assert document["tool_choice"] == {"type": "allowed_tools", "allowed_tools": {"mode": word, "tools": listed}}
    assert (len(document["tools"]), codes) == (3, [])
    document, codes = write(tools=tools[:2], tool_choice=choice)
    assert document["tool_choice"] == word
    assert ([tool["function"]["name"] for tool in document["tools"]], codes) == (["f"], ["allowed_tools"])


def test_where_no_tool_is_left_nothing_is_said_of_tools() -> None:
    document, codes = write(tools=ONE, tool_choice=ToolChoice(Choice.AUTO, allowed=["x"]), parallel_calls=False)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & document.keys()
    assert codes == ["allowed_tools", "parallel_calls"]
    assert write(tool_choice=ToolChoice(Choice.AUTO))[1] == []


@pytest.mark.parametrize("parallel", [True, False])
def test_calls_in_parallel_may_be_forbidden(parallel: bool) -> None:
    assert write(tools=ONE, parallel_calls=parallel)[0]["parallel_tool_calls"] is parallel


def test_many_tools_and_many_allowed_ones_are_compared_once_each() -> None:
    asked = 0

    class Name(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal asked
            asked += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Name(f"t{at}") for at in range(500)]
    choice = ToolChoice(Choice.AUTO, allowed=[f"t{at}" for at in range(250, 750)])
    losses = Losses()
    document = write_prompt(Prompt(Dialect.CHAT, "m", [], [Tool(name) for name in names], choice), LOCAL, losses)
    assert len(document["tools"]) == 250
    assert asked < 1500


# -- settings -----------------------------------------------------------------------------------------------------


def test_usage_is_always_asked_for_so_that_it_is_known() -> None:
    prompt = {"stream": True, "wants_usage": False}
    assert write(**prompt)[0]["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    document, _ = write(**prompt, to=LLAMA)
    assert (document["stream_options"], document["return_progress"]) == ({"include_usage": True}, True)
    assert write(**prompt, to=CLOUD)[0]["stream_options"] == {"include_usage": True}
    assert "stream" not in write()[0]


@pytest.mark.parametrize(("to", "field"), [(LOCAL, "max_tokens"), (CLOUD, "max_completion_tokens")])
def test_the_output_limit_has_one_name(to: Capabilities, field: str) -> None:
    document, _ = write(max_tokens=5, to=to)
    assert {name: value for name, value in document.items() if name.startswith("max")} == {field: 5}


def test_a_limit_of_nothing_warms_the_cache_with_one_token() -> None:
    assert write(max_tokens=0)[0]["max_tokens"] == 1


def test_litellm_34589_stop_strings_are_translated_and_empty_ones_left_out() -> None:
    assert write(stop=["a", "", " "])[0]["stop"] == ["a", " "]
    assert "stop" not in write(stop=[""])[0]
    assert write(stop=list("abcde")) == ({"model": "m", "messages": [], "stop": list("abcde")}, [])
    document, codes = write(stop=list("abcde"), to=CLOUD)
    assert (document["stop"], codes) == (list("abcd"), ["stop"])
    assert write(stop=["a", "b", "c", "d", ""], to=CLOUD)[1] == []


@pytest.mark.parametrize(
    ("format", "written"),
    [
        (AnswerFormat(), {"type": "json_object"}),
        (AnswerFormat(Raw(b"{}")), {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}}}),
        (AnswerFormat(Raw(b"{}"), "n", False, "d"), {"type": "json_schema", "json_schema": {
            "name": "n", "schema": {}, "strict": False, "description": "d"}}),
    ],
)  # fmt: skip
def test_the_form_of_the_answer_is_written(format: AnswerFormat, written: dict[str, Any]) -> None:
    assert write(format=format)[0]["response_format"] == written


NOTHING: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("asked", "local", "cloud", "codes"),
    [
        (Reasoning(), NOTHING, NOTHING, []),
        (Reasoning(False), {"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "none"}, []),
        (Reasoning(enabled=True), {"chat_template_kwargs": {"enable_thinking": True}}, NOTHING, []),
        (Reasoning(True, 4000), {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "medium"},
         {"reasoning_effort": "medium"}, ["budget"]),
        (Reasoning(effort="max", shown=True),
         {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "high"},
         {"reasoning_effort": "xhigh"}, ["display", "effort"]),
        (Reasoning(effort="none"), {"chat_template_kwargs": {"enable_thinking": False}},
         {"reasoning_effort": "none"}, []),
    ],
)  # fmt: skip
def test_how_much_to_think_is_a_switch_and_an_effort(
    asked: Reasoning, local: dict[str, Any], cloud: dict[str, Any], codes: list[str]
) -> None:
    base = {"model": "m", "messages": []}
    assert write(reasoning=asked) == (base | local, codes)
    assert write(reasoning=asked, to=CLOUD) == (base | cloud, codes)


def test_where_nothing_can_be_said_of_thinking_that_is_told() -> None:
    document, codes = write(reasoning=Reasoning(effort="low"), to=Capabilities(Dialect.CHAT, thinking_switch="none"))
    assert (document, codes) == ({"model": "m", "messages": []}, ["reasoning"])


def test_the_switch_joins_what_the_client_says_to_the_template() -> None:
    document, _ = write(
        reasoning=Reasoning(False), settings={"chat_template_kwargs": {"enable_thinking": True, "x": 1}}
    )
    assert document["chat_template_kwargs"] == {"enable_thinking": False, "x": 1}
    assert write(settings={"chat_template_kwargs": {"x": 1}})[0]["chat_template_kwargs"] == {"x": 1}


@pytest.mark.parametrize(
    ("prefill", "written"),
    [("native", {}), ("continue", {"continue_final_message": True, "add_generation_prompt": False})],
)
def test_a_begun_answer_goes_on(prefill: str, written: dict[str, Any]) -> None:
    to = capabilities_of("sglang", Dialect.CHAT, False, {"prefill": prefill})
    document, _ = write(assistant(Text("Once")), continues=True, to=to)
    assert document == {"model": "m", "messages": [{"role": "assistant", "content": "Once"}]} | written


SILENT = {"user", "safety_identifier", "prompt_cache_key", "store"}
EVERYWHERE = {
    "temperature",
    "top_p",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
}
VENDOR = {"top_k", "min_p", "repetition_penalty", "chat_template_kwargs"}


def test_a_service_tier_of_anthropic_means_nothing_to_openai() -> None:
    document, codes = write(settings={"service_tier": "standard_only"}, to=CLOUD)
    assert ("service_tier" in document, codes) == (False, ["service_tier"])


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_written_told_or_of_no_meaning(name: str) -> None:
    for to, has in ((LOCAL, EVERYWHERE | VENDOR), (CLOUD, set(SETTINGS) - VENDOR - {"n"})):
        document, codes = write(settings={name: 1}, to=to, dialect=Dialect.RESPONSES)
        assert document.get(name) == (1 if name in has else None)
        assert codes == ([] if name in has or (to is LOCAL and name in SILENT) else [name])
