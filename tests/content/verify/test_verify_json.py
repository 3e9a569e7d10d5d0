"""Wanted JSON is JSON, after its schema; nobody else is asked for any."""

from __future__ import annotations

import pytest
from tests.content.verify.expected import READ, call, noted, proved

from stoker.domain.answer import StopReason
from stoker.domain.prompt import AnswerFormat, Raw, Refusal
from stoker_content.verify.check_text import MAX_JSON
from stoker_content.verify.schema import InvalidJson, read_json

ANY = AnswerFormat()
AFTER = AnswerFormat(Raw(b'{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'))


def test_json_after_the_schema_passes() -> None:
    assert proved(' {"n": 1}\n', format=AFTER) == []
    assert noted('{"n": 1}', format=AFTER) == []


@pytest.mark.parametrize("text", ['{"n":1', '```json\n{"n":1}\n```', 'Here: {"n":1}', "{'n':1}", '{"n":1} done'])
def test_what_a_parser_refuses_is_no_json(text: str) -> None:
    assert "json" in proved(text, format=AFTER)
    assert "json" in proved(text, format=ANY)


def test_json_that_breaks_the_schema_is_wrong() -> None:
    assert proved('{"n":"1"}', format=AFTER) == ["json_schema"]


def test_any_object_will_do_without_a_schema_and_another_value_is_noted() -> None:
    assert (proved('{"x":[]}', format=ANY), noted('{"x":[]}', format=ANY)) == ([], [])
    assert (proved("[1]", format=ANY), noted("[1]", format=ANY)) == ([], ["json"])


def test_a_schema_that_cannot_be_checked_is_noted() -> None:
    assert noted('{"n":1}', format=AnswerFormat(Raw(b'{"$ref":"https://example.org/x"}'))) == ["schema_unchecked"]


def test_json_that_the_caller_cut_or_began_is_only_noted() -> None:
    assert proved('{"n":', stop=StopReason.LENGTH, format=AFTER, max_tokens=4) == []
    assert proved('"n":1}', format=AFTER, continues=True) == []
    assert proved('{"n":', format=AFTER, stop=StopReason.SEQUENCE) == ["json"]


def test_calls_and_refusals_need_no_json() -> None:
    assert proved("Let me see.", call(), format=AFTER, tools=[READ]) == []
    assert proved(Refusal("No."), format=AFTER) == []


def test_json_that_nobody_asked_for_is_text() -> None:
    assert proved('{"n":') == []


def test_json_that_is_too_long_to_keep_is_noted() -> None:
    assert noted('"' + "word " * (MAX_JSON // 5 + 2) + '"', format=ANY)[0] == "too_large"


def test_json_that_is_too_deep_is_said_so() -> None:
    assert proved("[" * 5000 + "]" * 5000, format=ANY) == ["too_deep"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9" * 5000, float("inf")),
        ("12345678901234567890123", 12345678901234567890123),
        ('"\\ud800"', "\ud800"),
        ('"\ud800"', "\ud800"),
        ("Infinity", InvalidJson.SYNTAX),
        ("", InvalidJson.SYNTAX),
        ("\ufeff{}", InvalidJson.SYNTAX),
        ('{"a":' * 100_000, InvalidJson.DEPTH),
        ('"\\ud800' + '"' + "[" * 9, InvalidJson.SYNTAX),
        ('["\\ud800",' + "[" * 100_000, InvalidJson.DEPTH),
        ("[1e400]", [float("inf")]),
    ],
)
def test_json_is_read_after_the_standard_whatever_python_thinks(text: str, value: object) -> None:
    assert read_json(text) == value
