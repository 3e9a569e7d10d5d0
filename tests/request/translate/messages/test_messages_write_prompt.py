"""A Prompt becomes a request that Anthropic's API takes; what it cannot say is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
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
    Raw,
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
from stoker.request.translate.messages.write_prompt import write_prompt
from stoker.request.translate.neutral.calls import read_id
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.neutral.json_text import encode

LOCAL = capabilities_of("vllm", Dialect.MESSAGES, cloud=False)
CLOUD = capabilities_of("openai", Dialect.MESSAGES, cloud=True)
USER = Turn(Role.USER, [Text("hi")])
TOOL = Tool("f", "d", Raw(b'{"type":"object", "n":1.0}'))


def write(*turns: Turn, serve: Capabilities = CLOUD, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    losses = Losses()
    prompt = Prompt(Dialect.CHAT, "m", list(turns) or [USER], **fields)
    found = json.loads(encode(write_prompt(prompt, serve, losses)))
    assert set(losses.codes) <= set(LOSSY)
    return found, list(losses.codes)


def blocks(role: Role, *said: Block) -> tuple[Any, list[str]]:
    found, lost = write(Turn(role, list(said)))
    return found["messages"][0]["content"], lost


def test_the_least_request_has_a_limit() -> None:
    assert write() == ({"model": "m", "max_tokens": 32_000, "messages": [{"role": "user", "content": "hi"}]}, [])
    assert write(serve=LOCAL)[0]["max_tokens"] == 4096
    assert write(max_tokens=0)[0]["max_tokens"] == 0
    assert write(serve=Capabilities(Dialect.MESSAGES, default_limit=7))[0]["max_tokens"] == 7


def test_system_turns_in_front_are_the_system_prompt_and_later_ones_stay_in_place() -> None:
    system, later = Turn(Role.SYSTEM, [Text("a")]), Turn(Role.SYSTEM, [Text("c")])
    found, lost = write(system, Turn(Role.SYSTEM, [Text("b"), Text("")]), USER, later)
    assert found["system"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert found["messages"] == [{"role": "user", "content": "hi"}, {"role": "system", "content": "c"}]
    assert lost == []
    assert write(system, USER)[0]["system"] == "a"
    assert write(system)[0]["messages"] == []


def test_ai_5576_empty_texts_are_left_out_and_a_turn_of_nothing_else_says_so() -> None:
    assert blocks(Role.USER, Text(""), Text("a"))[0] == "a"
    assert blocks(Role.USER, Text(""), Refusal(""))[0] == "(no content)"
    assert blocks(Role.USER)[0] == "(no content)"


def test_vllm_38738_a_turn_of_calls_alone_has_no_text() -> None:
    content, _ = blocks(Role.ASSISTANT, Text(""), ToolCall("t", "f", "{}"))
    assert content == [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]


def test_what_an_assistant_says() -> None:
    content, lost = blocks(
        Role.ASSISTANT, Thinking("hm", "s"), Redacted("d"), Text("a"), Refusal("no"), ToolCall("t", "f", '{"b":1.0}')
    )
    assert content == [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "a"},
        {"type": "text", "text": "no"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"b": 1.0}},
    ]
    assert lost == ["refusal"]


def test_what_a_user_says() -> None:
    content, lost = blocks(
        Role.USER,
        ToolResult("t", [Text("r")], is_error=True),
        ToolResult("u", [Text("r"), Image("image/png", "AAAA", detail="high")]),
        ToolResult("v", [Text("")]),
        Image(url="https://example.com/a.png", detail="auto"),
        Audio("wav", "AAAA"),
    )
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    assert content == [
        {"type": "tool_result", "tool_use_id": "t", "content": "r", "is_error": True},
        {"type": "tool_result", "tool_use_id": "u", "content": [{"type": "text", "text": "r"}, image]},
        {"type": "tool_result", "tool_use_id": "v"},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
    ]
    assert lost == ["detail", "audio"]


@pytest.mark.parametrize("count", [1, 2])
def test_litellm_25476_images_of_a_result_are_written_as_images(count: int) -> None:
    content, _ = blocks(Role.USER, ToolResult("t", [Image("image/png", "AAAA")] * count))
    assert [piece["type"] for piece in content[0]["content"]] == ["image"] * count


@pytest.mark.parametrize(
    ("document", "source"),
    [
        (Document(url="https://example.com/a.pdf"), {"type": "url", "url": "https://example.com/a.pdf"}),
        (
            Document("application/pdf", "AAAA"),
            {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
        ),
        (Document("text/plain", text="w"), {"type": "text", "media_type": "text/plain", "data": "w"}),
    ],
)
def test_documents(document: Document, source: Any) -> None:
    assert blocks(Role.USER, document)[0] == [{"type": "document", "source": source}]
    document.title = "T"
    assert blocks(Role.USER, document)[0] == [{"type": "document", "source": source, "title": "T"}]


def test_ids_are_spelt_as_messages_takes_them_and_the_same_in_call_and_result() -> None:
    call, _ = blocks(Role.ASSISTANT, ToolCall("functions.f:0", "f", "{}"))
    result, _ = blocks(Role.USER, ToolResult("functions.f:0", []))
    assert call[0]["id"] == result[0]["tool_use_id"]
    assert read_id(call[0]["id"]) == "functions.f:0"


def test_a_call_of_a_custom_tool_has_its_text_as_input() -> None:
    content, lost = blocks(Role.ASSISTANT, ToolCall("t", "f", "any text", custom=True))
    assert (content[0]["input"], lost) == ({"input": "any text"}, ["custom_tool"])


# -- tools --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        (b'{"type":"object", "n":1.0}', {"type": "object", "n": 1.0}),
        (None, {"type": "object", "properties": {}}),
        (b'{"properties":{}}', {"type": "object", "properties": {}}),
        (b'{"type":["object","null"]}', {"type": "object"}),
        (b"true", {"type": "object"}),
    ],
)
def test_a_schema_is_an_objects(schema: bytes | None, written: Any) -> None:
    found, _ = write(tools=[Tool("f", schema=None if schema is None else Raw(schema))])
    assert found["tools"] == [{"name": "f", "input_schema": written}]


def test_a_tool_keeps_its_words() -> None:
    tool = {"name": "f", "description": "d", "input_schema": {"type": "object", "n": 1.0}, "strict": False}
    assert write(tools=[Tool("f", "d", TOOL.schema, strict=False)])[0]["tools"] == [tool]


@pytest.mark.parametrize(("grammar", "lost"), [(None, ["custom_tool"]), ({"a": 1}, ["custom_tool", "grammar"])])
def test_a_custom_tool_takes_one_text(grammar: Any, lost: list[str]) -> None:
    found, told = write(tools=[Tool("f", custom=True, grammar=grammar)])
    assert found["tools"][0]["input_schema"]["required"] == ["input"]
    assert told == lost


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        (ToolChoice(Choice.AUTO), {"type": "auto"}),
        (ToolChoice(Choice.REQUIRED), {"type": "any"}),
        (ToolChoice(Choice.NAMED, "f"), {"type": "tool", "name": "f"}),
        (ToolChoice(Choice.NONE), {"type": "none"}),
    ],
)
def test_the_choice_of_tools(choice: ToolChoice, written: Any) -> None:
    assert write(tools=[TOOL], tool_choice=choice)[0]["tool_choice"] == written
    assert "tool_choice" not in write(tool_choice=choice)[0]


def test_allowed_tools_are_the_only_ones() -> None:
    choice = ToolChoice(Choice.REQUIRED, allowed=["f"])
    found, lost = write(tools=[TOOL, Tool("g")], tool_choice=choice)
    assert ([tool["name"] for tool in found["tools"]], found["tool_choice"]) == (["f"], {"type": "any"})
    assert lost == ["allowed_tools"]


@pytest.mark.parametrize(
    ("choice", "parallel", "written"),
    [
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (None, True, None),
        (None, None, None),
        (ToolChoice(Choice.AUTO), True, {"type": "auto", "disable_parallel_tool_use": False}),
        (ToolChoice(Choice.REQUIRED), False, {"type": "any", "disable_parallel_tool_use": True}),
        (ToolChoice(Choice.NONE), False, {"type": "none"}),
    ],
)
def test_one_call_at_a_time_is_part_of_the_choice(choice: Any, parallel: bool | None, written: Any) -> None:
    assert write(tools=[TOOL], tool_choice=choice, parallel_calls=parallel)[0].get("tool_choice") == written


def test_one_call_at_a_time_means_nothing_without_tools() -> None:
    assert write(parallel_calls=False)[1] == ["parallel_calls"]
    assert write()[1] == []


# -- settings -----------------------------------------------------------------------------------------------------


def test_litellm_34589_stop_strings_have_their_own_name_and_blank_ones_are_left_out() -> None:
    found, lost = write(stop=["a", " ", ""])
    assert (found["stop_sequences"], "stop" in found, lost) == (["a"], False, ["stop"])
    assert "stop_sequences" not in write(stop=[" "])[0]


def test_a_stream_is_asked_for() -> None:
    assert write(stream=True)[0]["stream"] is True


@pytest.mark.parametrize(
    ("serve", "asked", "thinking", "effort"),
    [
        (CLOUD, Reasoning(enabled=False), {"type": "disabled"}, None),
        (CLOUD, Reasoning(effort="none"), {"type": "disabled"}, None),
        (CLOUD, Reasoning(effort="minimal"), {"type": "adaptive"}, "low"),
        (CLOUD, Reasoning(effort="xhigh"), {"type": "adaptive"}, "xhigh"),
        (CLOUD, Reasoning(True), {"type": "adaptive"}, None),
        (CLOUD, Reasoning(True, shown=True), {"type": "adaptive", "display": "summarized"}, None),
        (CLOUD, Reasoning(True, shown=False), {"type": "adaptive", "display": "omitted"}, None),
        (CLOUD, Reasoning(shown=True), None, None),
        (CLOUD, Reasoning(True, 500), {"type": "enabled", "budget_tokens": 1024}, None),
        (CLOUD, Reasoning(True, 99_999), {"type": "enabled", "budget_tokens": 31_999}, None),
        (LOCAL, Reasoning(effort="low"), {"type": "enabled", "budget_tokens": 2048}, None),
        (LOCAL, Reasoning(True, effort="low"), {"type": "adaptive"}, "low"),
        (LOCAL, Reasoning(True), {"type": "adaptive"}, None),
    ],
)
def test_how_much_to_think(serve: Capabilities, asked: Reasoning, thinking: Any, effort: str | None) -> None:
    found, lost = write(serve=serve, reasoning=asked)
    assert found.get("thinking") == thinking
    assert found.get("output_config") == (None if effort is None else {"effort": effort})
    assert lost == ([] if asked.effort in (None, "none", effort) else ["effort"])


def test_a_great_effort_leaves_half_of_the_limit_to_the_answer() -> None:
    found, _ = write(serve=LOCAL, reasoning=Reasoning(effort="max"), max_tokens=8000)
    assert found["thinking"] == {"type": "enabled", "budget_tokens": 4000}


@pytest.mark.parametrize("limit", [0, 1024])
def test_below_the_least_budget_there_is_no_thinking(limit: int) -> None:
    found, lost = write(serve=LOCAL, reasoning=Reasoning(effort="high"), max_tokens=limit)
    assert ("thinking" in found, lost) == (False, ["reasoning", "effort"])


@pytest.mark.parametrize("mode", [Choice.REQUIRED, Choice.NAMED])
def test_anthropic_takes_no_forced_call_together_with_thinking(mode: Choice) -> None:
    choice = ToolChoice(mode, "f")
    found, lost = write(tools=[TOOL], tool_choice=choice, reasoning=Reasoning(effort="high"))
    assert ("thinking" in found, "output_config" in found, lost) == (False, False, ["reasoning"])
    found, lost = write(tools=[TOOL], tool_choice=choice, reasoning=Reasoning(effort="none"))
    assert (found["thinking"], lost) == ({"type": "disabled"}, [])
    found, lost = write(tools=[TOOL], tool_choice=choice, reasoning=Reasoning(effort="high"), serve=LOCAL)
    assert (found["thinking"]["type"], lost) == ("enabled", ["effort"])


def test_the_form_of_the_answer() -> None:
    found, lost = write(format=AnswerFormat(Raw(b'{"type":"object"}'), name="n"), reasoning=Reasoning(effort="low"))
    form = {"type": "json_schema", "schema": {"type": "object"}}
    assert (found["output_config"], lost) == ({"effort": "low", "format": form}, [])


@pytest.mark.parametrize(
    ("form", "lost"),
    [
        (AnswerFormat(Raw(b"{}"), strict=True), []),
        (AnswerFormat(Raw(b"{}"), strict=False), ["format_fields"]),
        (AnswerFormat(Raw(b"{}"), description="d"), ["format_fields"]),
    ],
)
def test_what_messages_cannot_say_of_a_form_is_told(form: AnswerFormat, lost: list[str]) -> None:
    assert write(format=form)[1] == lost


def test_any_json_object_is_asked_for_in_words_behind_the_system_prompt() -> None:
    found, lost = write(Turn(Role.SYSTEM, [Text("a")]), USER, format=AnswerFormat())
    assert [text["text"] for text in found["system"]] == ["a", "Answer with one JSON object and nothing else."]
    assert ("output_config" in found, lost) == (False, ["json_object"])


def test_settings_of_a_serve_that_takes_sampling() -> None:
    found, lost = write(serve=LOCAL, settings={"temperature": 1.7, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "n": 2})
    assert (found["temperature"], found["top_p"], found["top_k"], found["min_p"]) == (1, 0.5, 3, 0.1)
    assert lost == ["temperature", "n"]
    found, lost = write(serve=LOCAL, settings={"temperature": 0.2})
    assert (found["temperature"], lost) == (0.2, [])


def test_settings_of_anthropics_own_models() -> None:
    given = {"temperature": 0.2, "top_p": 0.5, "seed": 1, "user": "u", "store": True, "verbosity": "low"}
    found, lost = write(settings=given)
    assert set(found) == {"model", "max_tokens", "messages", "metadata"}
    assert (found["metadata"], lost) == ({"user_id": "u"}, ["temperature", "top_p", "seed", "verbosity"])
