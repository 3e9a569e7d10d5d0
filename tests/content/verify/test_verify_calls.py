"""Behaviour 45: a call that cannot be right is found before a byte of it is sent."""

from __future__ import annotations

import pytest
from tests.content.verify.expected import READ, answer, call, expected, noted, proofs, proved

from stoker.domain.answer import StopReason
from stoker.domain.prompt import Choice, Image, Raw, Role, Text, Tool, ToolCall, ToolChoice, ToolResult, Turn
from stoker_content.verify.check_calls import MAX_IDS
from stoker_content.verify.verifier import check_whole_answer

PATCH = Tool("patch", custom=True)
NOW = Tool("now")


@pytest.mark.parametrize("arguments", ['{"path":"a"}', ' {"lines":3,"path":"\\ud800"}\n', '{"path":"a","lines":1.0}'])
def test_a_valid_call_passes(arguments: str) -> None:
    assert proved(call(arguments), tools=[READ]) == []


def test_a_tool_that_was_not_offered_cannot_be_called() -> None:
    assert proved(call(name="write"), tools=[READ]) == ["unknown_tool"]
    assert proved(call()) == ["unknown_tool"]


@pytest.mark.parametrize(
    "arguments", ["[]", '"{}"', "7", '{"path":"a"', '{"path":"a"}}', "x", '{"path":NaN}', "{'path':1}"]
)
def test_arguments_have_to_be_an_object(arguments: str) -> None:
    assert proved(call(arguments), tools=[READ]) == ["arguments"]


@pytest.mark.parametrize("arguments", ["{}", "", " \n", "null", '{"lines":3}'])
def test_a_required_key_has_to_be_there(arguments: str) -> None:
    assert proved(call(arguments), tools=[READ]) == ["missing_key"]


@pytest.mark.parametrize("arguments", ['{"path":1}', '{"path":"a","lines":"3"}', '{"path":"a","more":1}'])
def test_arguments_keep_to_the_schema(arguments: str) -> None:
    assert proved(call(arguments), tools=[READ]) == ["schema"]


@pytest.mark.parametrize("arguments", ["", "{}", "null", '{"any":1}'])
def test_a_tool_without_a_schema_takes_any_object_and_nothing_at_all(arguments: str) -> None:
    assert proved(call(arguments, "now"), tools=[NOW]) == []


def test_a_custom_tool_takes_any_text() -> None:
    assert proved(call("*** Begin {", "patch", custom=True), tools=[PATCH]) == []
    assert proved(call("*** Begin {", "patch"), tools=[PATCH]) == []


def test_two_calls_have_two_ids_and_no_id_is_none_twice() -> None:
    assert proved(call(id="a"), call(id="b"), tools=[READ]) == []
    assert proved(call(id="a"), call(id="a"), tools=[READ]) == ["duplicate_id"]
    assert proved(call(id=""), call(id=""), tools=[READ]) == []


def test_the_choice_none_allows_no_call() -> None:
    assert proved(call(), tools=[READ], tool_choice=ToolChoice(Choice.NONE)) == ["call_forbidden"]


def test_a_named_tool_is_the_only_one_that_may_be_called() -> None:
    named = ToolChoice(Choice.NAMED, "read")
    assert proved(call(), tools=[READ, NOW], tool_choice=named) == []
    assert proved(call("{}", "now"), tools=[READ, NOW], tool_choice=named) == ["call_forbidden"]


def test_tools_beside_the_allowed_ones_may_not_be_called() -> None:
    some = ToolChoice(Choice.AUTO, allowed=["now"])
    assert proved(call(), tools=[READ, NOW], tool_choice=some) == ["call_forbidden"]
    assert proved(call("{}", "now"), tools=[READ, NOW], tool_choice=some) == []


@pytest.mark.parametrize("choice", [ToolChoice(Choice.REQUIRED), ToolChoice(Choice.NAMED, "read")])
def test_a_demanded_call_has_to_come(choice: ToolChoice) -> None:
    assert proved("No.", tools=[READ], tool_choice=choice) == ["call_missing"]
    assert proved(call(), tools=[READ], tool_choice=choice) == []


def test_a_demanded_call_may_be_refused_or_cut_by_the_caller() -> None:
    must = ToolChoice(Choice.REQUIRED)
    assert proved("No.", stop=StopReason.FILTERED, tools=[READ], tool_choice=must) == []
    assert proved("So", stop=StopReason.LENGTH, tools=[READ], tool_choice=must, max_tokens=8) == []
    assert "call_missing" in noted("So", stop=StopReason.LENGTH, tools=[READ], tool_choice=must, max_tokens=8)
    assert proved("So", tools=[READ], tool_choice=must, stop=StopReason.SEQUENCE) == ["call_missing"]


def test_several_calls_are_wrong_only_where_one_at_a_time_was_asked_for() -> None:
    two = call(id="a"), call(id="b")
    assert proved(*two, tools=[READ], parallel_calls=False) == ["parallel_calls"]
    assert proved(*two, tools=[READ], parallel_calls=True) == []


def test_the_same_call_as_in_the_last_two_turns_is_only_noted() -> None:
    def turns(*made: ToolCall) -> list[Turn]:
        said = [[Turn(Role.ASSISTANT, [one]), Turn(Role.USER, [ToolResult(one.id, [Text("")])])] for one in made]
        return [Turn(Role.USER, [Text("u")]), *(turn for pair in said for turn in pair)]

    again = call('{"path": "a"}')
    assert noted(again, tools=[READ], turns=turns(call())) == ["repeated_call"]
    assert proved(again, tools=[READ], turns=turns(call())) == []
    assert noted(again, tools=[READ], turns=turns(call('{"path":"b"}'))) == []
    later = call('{"path":"b"}'), call('{"path":"c"}')
    assert noted(again, tools=[READ], turns=turns(call(), *later)) == []


def test_what_the_model_only_said_in_the_last_turns_is_no_call() -> None:
    turns = [Turn(Role.ASSISTANT, [Text("read")]), Turn(Role.USER, [Image(url="u"), ToolResult("c", [Text("caf")])])]
    assert noted(call(), "caf\ufffd\n", tools=[READ], turns=turns) == []
    assert proved(call(), "caf\ufffd\n", tools=[READ], turns=turns) == ["replacement"]


def test_what_cannot_be_checked_of_a_schema_is_noted_and_passes() -> None:
    tool = Tool("read", schema=Raw(b'{"type":"object","properties":{"p":{"type":"string","pattern":"^a"}}}'))
    found = check_whole_answer(expected(tools=[tool]), answer(call('{"p":"b"}')))
    assert [(one.check, one.is_proved, one.text) for one in found] == [
        ("schema_unchecked", False, "read: not checked: pattern")
    ]


@pytest.mark.parametrize("schema", [b"", b"null", b"[", b"7", b'{"type":"wrong"}', b'"\xff"', b'{"required":7}'])
def test_a_schema_that_is_none_fails_no_call(schema: bytes) -> None:
    assert proved(call(), tools=[Tool("read", schema=Raw(schema))]) == []


def test_of_two_tools_with_one_name_the_schema_is_not_known() -> None:
    assert proved(call("{}"), tools=[READ, READ]) == []
    assert proved(call("x", "patch"), tools=[PATCH, Tool("patch", schema=READ.schema)]) == []


def test_findings_name_nothing_but_offered_tools() -> None:
    texts = [
        one.text
        for one in check_whole_answer(expected(tools=[READ]), answer(call('{"secret":1}'), call("{}", "secret")))
    ]
    assert texts
    assert not any("secret" in text for text in texts)


def test_ids_are_remembered_up_to_a_bound() -> None:
    many = [call("", "now", f"c{at}") for at in range(MAX_IDS)]
    found = check_whole_answer(
        expected(tools=[NOW]), answer(*many, call("", "now", "c0"), call("", "now", "x"), call("", "now", "x"))
    )
    assert proofs(found) == ["duplicate_id"]
