"""/api/chat: messages become turns, results find their calls, arguments stay as they were written."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import Block, Image, Prompt, Role, Text, Thinking, ToolCall, ToolResult, Turn
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.ollama.read_prompt import read_prompt

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
WEATHER = {"function": {"name": "weather", "arguments": {"city": "Ulm"}}}
CLOCK = {"function": {"name": "clock", "arguments": {}}}


def read(*messages: dict[str, Any], **fields: Any) -> tuple[Prompt, list[str]]:
    return read_bytes(json.dumps({"model": "m", "messages": list(messages)} | fields).encode())


def read_bytes(body: bytes) -> tuple[Prompt, list[str]]:
    losses = Losses()
    prompt = read_prompt(body, losses)
    assert set(losses.codes) <= set(LOSSY)
    return prompt, list(losses.codes)


def refused(*messages: dict[str, Any], **fields: Any) -> ClientError:
    with pytest.raises(ClientError) as caught:
        read(*messages, **fields)
    assert caught.value.status == 400
    return caught.value


def blocks(*messages: dict[str, Any]) -> list[Block]:
    """Of the last turn."""
    return read(*messages)[0].turns[-1].blocks


def results(*messages: dict[str, Any]) -> list[tuple[str, str]]:
    found = [block for block in blocks(*messages) if isinstance(block, ToolResult)]
    return [(result.id, "".join(b.text for b in result.content if isinstance(b, Text))) for result in found]


def test_messages_become_turns_and_a_run_of_one_role_is_one_turn() -> None:
    prompt, lost = read(
        {"role": "system", "content": "be brief"},
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "hello"},
        {"role": "user", "content": "you"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "bye"},
    )
    assert prompt.turns == [
        Turn(Role.SYSTEM, [Text("be brief")]),
        Turn(Role.SYSTEM, [Text("be kind")]),
        Turn(Role.USER, [Text("hello"), Text("you")]),
        Turn(Role.ASSISTANT, [Text("hi")]),
        Turn(Role.USER, [Text("bye")]),
    ]
    assert (prompt.dialect, prompt.model, prompt.continues, lost) == (Dialect.OLLAMA_CHAT, "m", False, [])


@pytest.mark.parametrize(
    ("spelt", "role"), [("User", Role.USER), ("SYSTEM", Role.SYSTEM), ("developer", Role.SYSTEM)]
)  # fmt: skip
def test_roles_are_read_in_any_case(spelt: str, role: Role) -> None:
    assert read({"role": spelt, "content": "x"})[0].turns == [Turn(role, [Text("x")])]


def test_an_unknown_role_is_refused_by_its_place() -> None:
    assert refused({"role": "user", "content": "x"}, {"role": "critic"}).param == "messages[1].role"


@pytest.mark.parametrize(
    "message", [{"role": "user"}, {"role": "user", "content": ""}, {"role": "user", "content": None}]
)
def test_a_message_without_words_is_an_empty_turn(message: dict[str, Any]) -> None:
    assert read(message)[0].turns == [Turn(Role.USER, [])]


def test_an_answer_that_was_begun_is_gone_on_with() -> None:
    assert read({"role": "user", "content": "x"}, {"role": "assistant", "content": "It is"})[0].continues


def test_images_are_what_their_bytes_say_and_stand_before_the_text() -> None:
    assert blocks({"role": "user", "content": "what is it?", "images": [PNG]}) == [
        Image(media_type="image/png", data=PNG), Text("what is it?"),
    ]  # fmt: skip


def test_what_is_no_image_is_refused_by_its_place() -> None:
    error = refused({"role": "user", "content": "x", "images": [PNG, "AAAA"]})
    assert (error.code, error.param) == ("bad_image", "messages[0].images[1]")


def test_images_in_a_system_message_are_refused() -> None:
    assert refused({"role": "system", "content": "x", "images": [PNG]}).param == "messages[0].images"


def test_thinking_comes_first_and_calls_last() -> None:
    assert blocks({"role": "assistant", "thinking": "hm", "content": "so", "tool_calls": [WEATHER, CLOCK]}) == [
        Thinking("hm"),
        Text("so"),
        ToolCall("call_0_0", "weather", '{"city": "Ulm"}'),
        ToolCall("call_0_1", "clock", "{}"),
    ]


def test_an_id_that_the_client_kept_is_the_calls() -> None:
    assert blocks({"role": "assistant", "tool_calls": [WEATHER | {"id": "call_x"}]}) == [
        ToolCall("call_x", "weather", '{"city": "Ulm"}')
    ]


def test_arguments_stay_as_they_were_written() -> None:
    written = '{ "b" :1.50,"a":"\\u00e4", "n":12345678901234567890 }'
    body = '{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":%s}}]}]}'
    assert read_bytes((body % written).encode())[0].turns[0].blocks == [ToolCall("call_0_0", "f", written)]


@pytest.mark.parametrize(("given", "text"), [(None, ""), ('{"a": 1}', '{"a": 1}')])
def test_no_arguments_and_arguments_in_a_string_are_read(given: Any, text: str) -> None:
    assert blocks({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": given}}]}) == [
        ToolCall("call_0_0", "f", text)
    ]
    assert blocks({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}) == [ToolCall("call_0_0", "f", "")]


def test_arguments_that_are_no_object_are_their_text() -> None:
    call = {"function": {"name": "f", "arguments": [1]}}
    assert blocks({"role": "assistant", "tool_calls": [call]}) == [ToolCall("call_0_0", "f", "[1]")]


def test_arguments_in_broken_utf_8_are_refused() -> None:
    calls = b'[{"function":{"name":"f","arguments":{"a":"\xff"}}}]'
    with pytest.raises(ClientError) as caught:
        read_prompt(b'{"model":"m","messages":[{"role":"assistant","tool_calls":%b}]}' % calls, Losses())
    assert caught.value.code == "bad_json"


CALLED = {"role": "assistant", "tool_calls": [WEATHER, CLOCK, WEATHER]}


@pytest.mark.parametrize("field", ["tool_name", "name"])
def test_results_find_their_calls_by_name_then_by_order(field: str) -> None:
    told = [{"role": "tool", field: name, "content": name} for name in ("clock", "weather", "weather")]
    assert results(CALLED, *told) == [("call_0_1", "clock"), ("call_0_0", "weather"), ("call_0_2", "weather")]


def test_results_without_a_name_belong_to_the_calls_in_order() -> None:
    told = [{"role": "tool", "content": text} for text in "abc"]
    assert results(CALLED, *told) == [("call_0_0", "a"), ("call_0_1", "b"), ("call_0_2", "c")]


def test_a_result_may_name_its_call() -> None:
    calls = [WEATHER | {"id": "x"}, WEATHER | {"id": "y"}]
    told = [{"role": "tool", "tool_call_id": id, "tool_name": "weather", "content": id} for id in "yx"]
    assert results({"role": "assistant", "tool_calls": calls}, *told) == [("y", "y"), ("x", "x")]


def test_a_result_belongs_to_the_last_calls_and_never_to_earlier_ones() -> None:
    prompt = read(
        {"role": "assistant", "tool_calls": [CLOCK]},
        {"role": "tool", "content": "12"},
        {"role": "assistant", "tool_calls": [CLOCK]},
        {"role": "user", "content": "and?"},
        {"role": "tool", "tool_name": "clock", "content": "13"},
    )[0]
    assert prompt.turns[1].blocks == [ToolResult("call_0_0", [Text("12")])]
    assert prompt.turns[3].blocks == [Text("and?"), ToolResult("call_2_0", [Text("13")])]


def test_calls_of_one_turn_in_two_messages_all_wait() -> None:
    twice = [{"role": "assistant", "tool_calls": [CLOCK]}] * 2
    assert results(*twice, {"role": "tool", "content": "a"}, {"role": "tool", "content": "b"}) == [
        ("call_0_0", "a"), ("call_1_0", "b"),
    ]  # fmt: skip


def test_a_result_without_a_call_keeps_an_id_that_no_call_has() -> None:
    assert results({"role": "tool", "content": "12"}) == [("result_0", "12")]
    assert results({"role": "tool", "tool_call_id": "x", "content": "12"}) == [("x", "12")]


def test_a_result_may_hold_images() -> None:
    assert blocks(CALLED, {"role": "tool", "images": [PNG], "content": "seen"}) == [
        ToolResult("call_0_0", [Image(media_type="image/png", data=PNG), Text("seen")])
    ]


def test_tools_are_functions_and_their_schemas_stay_as_they_were_written() -> None:
    schema = b'{"type":"object",  "properties":{"b":{},"a":{}}}'
    function = b'{"name":"f","description":"d","parameters":%b}' % schema
    (tool,) = read_bytes(b'{"model":"m","tools":[{"type":"function","function":%b}]}' % function)[0].tools
    assert (tool.name, tool.description, bytes(tool.schema or b""), tool.strict) == ("f", "d", schema, None)
    assert read(tools=[{"function": {"name": "f", "parameters": None}}])[0].tools[0].schema is None


@pytest.mark.parametrize("fields", [{}, {"messages": None}, {"messages": []}, {"keep_alive": 0}])
def test_a_request_without_messages_has_no_turns(fields: dict[str, Any]) -> None:
    prompt, lost = read(**fields)
    assert (prompt.turns, prompt.continues) == ([], False)
    assert lost == (["keep_alive"] if fields.get("keep_alive") is not None else [])


def test_an_unknown_field_is_a_loss() -> None:
    assert read(truncate=True)[1] == ["unknown_field"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"{}", b'{"model":"m","messages":[7]}', b'{"model":"m","messages":[{}]}',
             b'{"model":"m","tools":[{}]}', b'{"model":"m","messages":[{"role":"user","content":["x"]}]}',
             b'{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":"\xff"}}]}]}',
             b'{"model":"m","options":' + b"[" * 100_000],
)  # fmt: skip
def test_a_body_that_is_none_is_a_client_error(body: bytes) -> None:
    with pytest.raises(ClientError):
        read_prompt(body, Losses())


def test_arguments_that_are_no_utf8_are_refused_by_their_place() -> None:
    call = b'{"function":{"name":"f","arguments":{"a":"\xff"}}}'
    body = b'{"model":"m","messages":[{"role":"assistant","content":"","tool_calls":[' + call + b"]}]}"
    with pytest.raises(ClientError) as raised:
        read_bytes(body)
    assert raised.value.code == "bad_json"
