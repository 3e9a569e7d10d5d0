"""A Messages request becomes a Prompt: nothing is lost unnamed, and whatever cannot be read is the client's fault."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from stoker.domain.errors import ClientError
from stoker.domain.prompt import (
    Choice,
    Document,
    Image,
    Prompt,
    Reasoning,
    Redacted,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
)
from stoker.request.translate.messages.read_prompt import read_prompt
from stoker.request.translate.neutral.calls import spelt_id
from stoker.request.translate.neutral.gaps import LOSSY, Losses

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
PDF = base64.b64encode(b"%PDF-1.7" + bytes(40)).decode()
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def read(**fields: Any) -> tuple[Prompt, list[str]]:
    losses = Losses()
    document = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **fields}
    prompt = read_prompt(json.dumps(document).encode(), losses)
    assert set(losses.codes) <= set(LOSSY)
    return prompt, list(losses.codes)


def turns(*messages: dict[str, Any]) -> tuple[list[Turn], list[str]]:
    prompt, lost = read(messages=list(messages))
    return prompt.turns, lost


def said(*blocks: Any, role: str = "user") -> tuple[list[Any], list[str]]:
    (turn,), lost = turns({"role": role, "content": list(blocks)})
    return list(turn.blocks), lost


def refused(**fields: Any) -> ClientError:
    with pytest.raises(ClientError) as told:
        read(**fields)
    assert told.value.status == 400
    return told.value


# -- turns --------------------------------------------------------------------------------------------------------


def test_the_least_request() -> None:
    prompt, lost = read()
    assert prompt.turns == [Turn(Role.USER, [Text("hi")])]
    assert (prompt.model, prompt.max_tokens, prompt.stream, prompt.continues) == ("m", 9, False, False)
    assert (prompt.tools, prompt.tool_choice, prompt.parallel_calls, prompt.format, prompt.reasoning) == (
        [], None, None, None, None,
    )  # fmt: skip
    assert lost == []


@pytest.mark.parametrize("system", ["be brief", [{"type": "text", "text": "be brief"}]])
def test_the_system_prompt_is_the_first_turn(system: Any) -> None:
    prompt, lost = read(system=system)
    assert prompt.turns[0] == Turn(Role.SYSTEM, [Text("be brief")])
    assert lost == []


def test_system_blocks_stay_blocks() -> None:
    prompt, _ = read(system=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    assert prompt.turns[0].blocks == [Text("a"), Text("b")]


@pytest.mark.parametrize("system", ["", [], None])
def test_an_empty_system_prompt_is_none(system: Any) -> None:
    assert read(system=system)[0].turns == [Turn(Role.USER, [Text("hi")])]


def test_vllm_44000_a_system_turn_among_the_messages_is_taken_and_stays_in_its_place() -> None:
    found, lost = turns(
        {"role": "user", "content": "a"},
        {"role": "system", "content": [{"type": "mid_conv_system", "text": "b"}]},
        {"role": "system", "content": "c"},
        {"role": "user", "content": "d"},
    )
    assert [(turn.role, turn.blocks) for turn in found] == [
        (Role.USER, [Text("a")]),
        (Role.SYSTEM, [Text("b")]),
        (Role.SYSTEM, [Text("c")]),
        (Role.USER, [Text("d")]),
    ]
    assert lost == []


def test_turns_of_one_role_in_a_row_are_one() -> None:
    found, _ = turns(
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c"},
        {"role": "assistant", "content": "d"},
    )
    assert found == [Turn(Role.USER, [Text("a"), Text("b")]), Turn(Role.ASSISTANT, [Text("c"), Text("d")])]


def test_results_come_before_the_text_of_their_turn_and_of_the_turns_that_are_one_with_it() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "r"}
    found, lost = turns(
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}, result, {"type": "text", "text": "c"}]},
    )
    assert found == [Turn(Role.USER, [ToolResult("t", [Text("r")]), Text("a"), Text("b"), Text("c")])]
    assert lost == ["result_order"]


def test_results_that_come_first_lose_no_order() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "r"}
    blocks, lost = said(result, {**result, "tool_use_id": "u"}, {"type": "text", "text": "b"})
    assert [type(block) for block in blocks] == [ToolResult, ToolResult, Text]
    assert lost == []


@pytest.mark.parametrize(("last", "continues"), [("assistant", True), ("user", False), ("system", False)])
def test_a_last_turn_of_the_assistant_begins_the_answer(last: str, continues: bool) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": last, "content": "{"}]
    assert read(messages=messages)[0].continues is continues


def test_no_messages_at_all_are_no_turns() -> None:
    prompt, _ = read(messages=[])
    assert (prompt.turns, prompt.continues) == ([], False)


@pytest.mark.parametrize("role", ["tool", "developer", ""])
def test_an_unknown_role_is_named(role: str) -> None:
    error = refused(messages=[{"role": "user", "content": "a"}, {"role": role, "content": "b"}])
    assert (error.code, error.param) == ("bad_field", "messages[1].role")


# -- blocks -------------------------------------------------------------------------------------------------------


def test_a_conversation_with_thinking_calls_and_results() -> None:
    found, lost = turns(
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "text", "text": "look"},
            {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1.0, "a": "ü"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "r"}, PICTURE],
             "is_error": True},
        ]},
    )  # fmt: skip
    assert found[0].blocks == [
        Thinking("hm", "s"),
        Redacted("d"),
        Text("look"),
        ToolCall("t1", "f", json.dumps({"b": 1.0, "a": "ü"})),
    ]
    assert found[1].blocks == [ToolResult("t1", [Text("r"), Image("image/png", PNG)], is_error=True)]
    assert lost == []


def test_arguments_keep_their_bytes() -> None:
    body = (
        b'{"model":"m","messages":[{"role":"assistant","content":'
        b'[{"type":"tool_use","id":"t","name":"f","input": {"n":12345678901234567890123, "x":1.0, "x":2} }]}]}'
    )
    (call,) = read_prompt(body, Losses()).turns[0].blocks
    assert isinstance(call, ToolCall)
    assert call.arguments == '{"n":12345678901234567890123, "x":1.0, "x":2}'


@pytest.mark.parametrize("given", [{}, {"input": None}, {"input": {}}])
def test_a_call_without_input_has_no_arguments(given: dict[str, Any]) -> None:
    blocks, _ = said({"type": "tool_use", "id": "t", "name": "f", **given}, role="assistant")
    assert blocks == [ToolCall("t", "f", "{}")]


def test_ids_that_were_spelt_for_messages_are_themselves_again() -> None:
    blocks, _ = said({"type": "tool_use", "id": spelt_id("functions.f:0"), "name": "f", "input": {}}, role="assistant")
    assert blocks[0].id == "functions.f:0"
    blocks, _ = said({"type": "tool_result", "tool_use_id": spelt_id("functions.f:0")})
    assert blocks == [ToolResult("functions.f:0", [])]


@pytest.mark.parametrize("count", [1, 2])
def test_litellm_25476_images_of_a_result_stay_images(count: int) -> None:
    blocks, _ = said({"type": "tool_result", "tool_use_id": "t", "content": [PICTURE] * count})
    assert blocks == [ToolResult("t", [Image("image/png", PNG)] * count)]


def test_an_image_is_what_its_bytes_are() -> None:
    mislabelled = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": PNG}}
    assert said(mislabelled)[0] == [Image("image/png", PNG)]


def test_an_image_by_its_address() -> None:
    source = {"type": "url", "url": "https://example.com/a.png"}
    assert said({"type": "image", "source": source})[0] == [Image(url="https://example.com/a.png")]


@pytest.mark.parametrize(
    ("source", "param"),
    [
        (None, "messages[0].content[0].source"),
        ({"type": "file", "file_id": "f"}, "messages[0].content[0].source"),
        ({"type": "base64"}, "messages[0].content[0].source.data"),
        ({"type": "base64", "data": "!"}, "messages[0].content[0].source.data"),
        ({"type": "url", "url": 3}, "messages[0].content[0].source.url"),
        ({"type": "url", "url": "file:///etc/passwd"}, "messages[0].content[0].source.url"),
    ],
)
def test_an_image_that_is_none_is_named(source: Any, param: str) -> None:
    error = refused(messages=[{"role": "user", "content": [{"type": "image", "source": source}]}])
    assert error.param == param


@pytest.mark.parametrize(
    ("source", "document"),
    [
        ({"type": "base64", "media_type": "text/plain", "data": PDF}, Document("application/pdf", PDF)),
        ({"type": "base64", "media_type": "text/csv", "data": "YQ=="}, Document("text/csv", "YQ==")),
        ({"type": "text", "media_type": "text/plain", "data": "words"}, Document("text/plain", text="words")),
        ({"type": "url", "url": "https://example.com/a.pdf"}, Document(url="https://example.com/a.pdf")),
        ({"type": "content", "content": "words"}, Document("text/plain", text="words")),
        (
            {"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            Document("text/plain", text="a\nb"),
        ),
    ],
)
def test_documents(source: Any, document: Document) -> None:
    blocks, lost = said({"type": "document", "source": source, "title": "T", "citations": {"enabled": False}})
    document.title = "T"
    assert (blocks, lost) == ([document], [])


def test_images_of_a_document_of_blocks_follow_its_text() -> None:
    source = {"type": "content", "content": [PICTURE, {"type": "text", "text": "a"}]}
    blocks, lost = said({"type": "document", "source": source})
    assert (blocks[:1], [type(block) for block in blocks[1:]], lost) == (
        [Document("text/plain", text="a")],
        [Image],
        [],
    )


@pytest.mark.parametrize("other", ["text", {"type": "text", "text": 3}, 7])
def test_of_a_document_of_blocks_what_is_no_text_is_told(other: Any) -> None:
    source = {"type": "content", "content": [{"type": "text", "text": "a"}, other]}
    blocks, lost = said({"type": "document", "source": source})
    assert (blocks, lost) == ([Document("text/plain", text="a")], ["document"])


def test_a_documents_context_and_citations_are_told() -> None:
    source = {"type": "text", "data": "a"}
    _, lost = said({"type": "document", "source": source, "context": "c", "citations": {"enabled": True}})
    assert lost == ["citations", "document_title"]


@pytest.mark.parametrize("source", [None, {"type": "file", "file_id": "f"}, {"type": "base64", "data": None}])
def test_a_document_that_is_kept_elsewhere_is_refused(source: Any) -> None:
    error = refused(messages=[{"role": "user", "content": [{"type": "document", "source": source}]}])
    assert error.code == "bad_field"
    assert str(error.param).startswith("messages[0].content[0].source")


def test_a_search_result_is_text() -> None:
    content = [{"type": "text", "text": "found"}, {"type": "text", "text": None}]
    blocks, lost = said({"type": "search_result", "title": "T", "source": "S", "content": content})
    assert (blocks, lost) == ([Text("T\nS\nfound")], ["search_result"])


@pytest.mark.parametrize("kind", ["server_tool_use", "web_search_tool_result", "container_upload", "unheard_of"])
def test_blocks_of_the_vendors_own_are_dropped_and_told(kind: str) -> None:
    blocks, lost = said({"type": kind, "id": "s", "name": "n", "input": {}, "content": []}, role="assistant")
    assert (blocks, lost) == ([], ["foreign_block"])


def test_a_tool_reference_in_a_result_names_its_tool() -> None:
    reference = {"type": "tool_reference", "tool_name": "f"}
    blocks, lost = said({"type": "tool_result", "tool_use_id": "t", "content": [reference]})
    assert (blocks, lost) == ([ToolResult("t", [Text("(found the tool f)")])], ["tool_reference"])


CALL = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t"}


@pytest.mark.parametrize(
    ("role", "block"),
    [
        ("user", CALL),
        ("user", {"type": "thinking", "thinking": "hm"}),
        ("user", {"type": "redacted_thinking", "data": "d"}),
        ("assistant", RESULT),
        ("system", PICTURE),
        ("system", CALL),
        ("system", RESULT),
    ],
)
def test_what_a_role_cannot_say_is_refused_rather_than_lost(role: str, block: Any) -> None:
    error = refused(messages=[{"role": role, "content": [{"type": "text", "text": "a"}, block]}])
    assert (error.code, error.param) == ("bad_field", "messages[0].content[1].type")


@pytest.mark.parametrize("block", [CALL, RESULT, {"type": "thinking", "thinking": "hm"}])
def test_a_result_holds_only_what_can_be_shown(block: Any) -> None:
    error = refused(messages=[{"role": "user", "content": [{**RESULT, "content": [block]}]}])
    assert error.param == "messages[0].content[0].content[0].type"


def test_the_system_prompt_is_text() -> None:
    assert refused(system=[PICTURE]).param == "system[0].type"


def test_marks_of_what_to_cache_are_told_wherever_they_stand() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    assert read(system=[{"type": "text", "text": "a", **mark}])[1] == ["cache_control"]
    assert said({"type": "text", "text": "a", **mark})[1] == ["cache_control"]
    assert read(tools=[{"name": "f", "input_schema": {}, **mark}])[1] == ["cache_control"]
    assert read(**mark)[1] == ["cache_control"]


def test_citations_of_a_text_are_told() -> None:
    assert said({"type": "text", "text": "a", "citations": [{"cited_text": "b"}]}, role="assistant")[1] == ["citations"]
    assert said({"type": "text", "text": "a", "citations": None}, role="assistant")[1] == []


# -- tools --------------------------------------------------------------------------------------------------------


def test_tools() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number"}}}
    prompt, lost = read(tools=[
        {"name": "f", "description": "d", "input_schema": schema, "strict": True},
        {"name": "g", "type": "custom", "input_schema": None},
        {"name": "h"},
    ])  # fmt: skip
    f, g, h = prompt.tools
    assert (f.name, f.description, f.strict, f.custom) == ("f", "d", True, False)
    assert f.schema is not None
    assert json.loads(bytes(f.schema)) == schema
    assert (g.name, g.schema, h.schema) == ("g", None, None)
    assert lost == []


def test_tools_that_the_vendor_runs_are_dropped_and_told() -> None:
    prompt, lost = read(tools=[{"type": "web_search_20250305", "name": "web_search"}, {"name": "f"}])
    assert ([tool.name for tool in prompt.tools], lost) == (["f"], ["server_tools"])


@pytest.mark.parametrize("fields", [{"container": "c"}, {"mcp_servers": [{"url": "u"}]}])
def test_containers_and_servers_of_tools_are_told(fields: dict[str, Any]) -> None:
    assert read(**fields)[1] == ["server_tools"]


@pytest.mark.parametrize("field", ["defer_loading", "input_examples", "allowed_callers", "eager_input_streaming"])
def test_fields_of_tools_that_only_messages_has_are_told(field: str) -> None:
    assert read(tools=[{"name": "f", field: True}])[1] == ["tool_fields"]


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ({"type": "auto"}, ToolChoice(Choice.AUTO)),
        ({"type": "any"}, ToolChoice(Choice.REQUIRED)),
        ({"type": "tool", "name": "f"}, ToolChoice(Choice.NAMED, "f")),
        ({"type": "none"}, ToolChoice(Choice.NONE)),
    ],
)
def test_the_choice_of_tools(given: Any, choice: ToolChoice) -> None:
    prompt, lost = read(tools=[{"name": "f"}], tool_choice=given)
    assert (prompt.tool_choice, prompt.parallel_calls, lost) == (choice, None, [])


@pytest.mark.parametrize("serial", [True, False])
def test_vllm_serving_disable_parallel_tool_use_is_read(serial: bool) -> None:
    prompt, _ = read(tool_choice={"type": "auto", "disable_parallel_tool_use": serial})
    assert prompt.parallel_calls is not serial


def test_an_unknown_choice_is_named() -> None:
    assert refused(tool_choice={"type": "required"}).param == "tool_choice.type"


# -- settings -----------------------------------------------------------------------------------------------------


def test_settings_keep_their_names() -> None:
    prompt, lost = read(
        temperature=0.5, top_p=1, top_k=5, service_tier="auto", metadata={"user_id": "u", "other": 1},
        stop_sequences=["a", " "], stream=True,
    )  # fmt: skip
    assert prompt.settings == {"temperature": 0.5, "top_p": 1, "top_k": 5, "service_tier": "auto", "user": "u"}
    assert (prompt.stop, prompt.stream, lost) == (["a", " "], True, [])


@pytest.mark.parametrize("metadata", [None, {}, {"user_id": None}, {"user_id": 7}])
def test_a_user_that_is_not_named_is_none(metadata: Any) -> None:
    assert read(metadata=metadata)[0].settings == {}


def test_no_tokens_at_all_is_a_limit_too() -> None:
    assert read(max_tokens=0)[0].max_tokens == 0


def test_a_limit_may_be_left_out_since_count_tokens_has_none() -> None:
    prompt = read_prompt(b'{"model":"m","messages":[]}', Losses())
    assert prompt.max_tokens is None


def test_an_unknown_field_is_told() -> None:
    assert read(speed="fast")[1] == ["unknown_field"]


def test_a_client_that_has_all_thinking_kept_loses_nothing_and_one_that_has_it_cleared_is_told() -> None:
    edit = {"type": "clear_thinking_20251015", "keep": "all"}
    assert read(context_management={"edits": [edit]})[1] == []
    assert read(context_management=None)[1] == []
    assert read(context_management={"edits": [{**edit, "keep": {"type": "thinking_turns", "value": 1}}]})[1] == [
        "unknown_field"
    ]


def test_fields_of_blocks_that_only_messages_has_are_told() -> None:
    assert said({**PICTURE, "transformations": {"oversize": "error"}})[1] == ["unknown_field"]
    assert said({**CALL, "toolset_name": "s"}, role="assistant")[1] == ["tool_fields"]
    assert said({**CALL, "caller": {"type": "code_execution_20260120"}}, role="assistant")[1] == ["tool_fields"]
    assert said({**CALL, "caller": {"type": "direct"}}, role="assistant")[1] == []


def test_when_to_think_is_told_to_nobody_else() -> None:
    assert read(thinking={"type": "between_tools"})[1] == ["reasoning"]
    assert read(thinking={"type": "adaptive"})[1] == []


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, Reasoning(True, 2048)),
        ({"thinking": {"type": "adaptive"}}, Reasoning(True)),
        ({"thinking": {"type": "between_tools"}}, Reasoning(True)),
        ({"thinking": {"type": "disabled"}}, Reasoning(False)),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, Reasoning(True, shown=False)),
        ({"thinking": {"type": "adaptive", "display": "summarized"}}, Reasoning(True, shown=True)),
        ({"output_config": {"effort": "max"}}, Reasoning(effort="max")),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, Reasoning(True, effort="low")),
        ({"output_config": {}}, None),
    ],
)
def test_how_much_to_think(fields: dict[str, Any], reasoning: Reasoning | None) -> None:
    assert read(**fields)[0].reasoning == reasoning


def test_an_unknown_kind_of_thinking_is_named() -> None:
    assert refused(thinking={"type": "hard"}).param == "thinking.type"


def test_a_schema_for_the_answer() -> None:
    schema = {"type": "object", "additionalProperties": False}
    prompt, _ = read(output_config={"format": {"type": "json_schema", "schema": schema}})
    assert prompt.format is not None
    assert prompt.format.schema is not None
    assert json.loads(bytes(prompt.format.schema)) == schema
    bare, _ = read(output_config={"format": {"type": "json_schema"}})
    assert bare.format is not None
    assert bare.format.schema is None


# -- what is no request -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": 3}, "model"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [3]}, "messages[0]"),
        ({"messages": [{"role": "user"}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"text": "a"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [3]}]}, "messages[0].content[0]"),
        ({"system": [{"type": "text", "text": []}]}, "system[0].text"),
        ({"tools": [{"name": 3}]}, "tools[0].name"),
        ({"tools": {}}, "tools"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"thinking": {}}, "thinking"),
        ({"max_tokens": "9"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"stop_sequences": [3]}, "stop_sequences[0]"),
        ({"metadata": []}, "metadata"),
        ({"output_config": {"format": 3}}, "output_config.format"),
    ],
)
def test_whatever_cannot_be_read_is_named_by_its_place(fields: dict[str, Any], param: str) -> None:
    error = refused(**fields)
    assert (error.code, error.param) == ("bad_field", param)


@pytest.mark.parametrize("body", [b"", b"[", b"[]", b"7", b'{"model":"m"}', b'{"model":"\\ud800","messages":[]}'])
def test_a_body_that_is_no_request_is_the_clients_fault(body: bytes) -> None:
    with pytest.raises(ClientError):
        read_prompt(body, Losses())


def test_a_long_conversation_costs_linear_time() -> None:
    messages = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}, {"type": "text"}]}] * 40_000
    body = json.dumps({"model": "m", "messages": messages}).encode()
    began = time.process_time()
    assert len(read_prompt(body, Losses()).turns[0].blocks) == 80_000
    assert time.process_time() - began < 10


def test_what_a_tool_gave_is_text_or_a_list_and_no_object() -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": {"type": "text", "text": "x"}}
    error = refused(messages=[{"role": "user", "content": [block]}])
    assert (error.code, error.param) == ("bad_field", "messages[0].content[0].content")
