"""`bench.conformance`: what is not there is skipped and named; its model says what the request tells it to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.conformance.__main__ import main
from bench.conformance.model import answer, chunks, whole
from bench.conformance.suites import SUITES


def test_without_suites_each_is_skipped_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STOKER_SUITES", raising=False)
    assert main([]) == 0
    assert capsys.readouterr().out.count("no folder of suites") == len(SUITES)
    monkeypatch.setenv("STOKER_SUITES", str(tmp_path))
    assert main([]) == 0
    said = capsys.readouterr().out
    assert said.count("skipped") == len(SUITES)
    assert f"no folder *openresponses in {tmp_path}" in said


def asked(*turns: tuple[str, str], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": role, "content": text} for role, text in turns], **more}


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (asked(("user", "Reply with exactly OK")), "OK"),
        (asked(("system", "Reply with exactly HELLO and nothing else."), ("user", "go")), "HELLO"),
        (asked(("user", "Remember: code=7. Reply OK"), ("assistant", "OK"), ("user", "What is the code?")), "7"),
        (asked(("user", "What is the code?")), "I know no code."),
        (asked(("user", "add"), ("tool", '{"result": 42}'), ("user", "Reply with just the number.")), "42"),
        (asked(("assistant", "It is four."), ("user", "Repeat only the number.")), "four"),
    ],
)
def test_the_model_says_what_it_is_told(request_: dict[str, Any], text: str) -> None:
    assert answer(request_).text == text


def test_the_model_fills_in_tools_and_schemas_from_the_request() -> None:
    number = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    tools = [{"type": "function", "function": {"name": "add", "parameters": number}}]
    called = answer(asked(("user", "Call add with a=40 and b=2."), tools=tools)).call
    assert called == ("add", '{"a": 40, "b": 2}')
    event = {"properties": {"name": {"type": "string"}, "date": {"type": "string"}, "who": {"type": "array"}}}
    format = {"type": "json_schema", "json_schema": {"schema": event}}
    said = answer(asked(("user", "Ann and Bob are going to a fair on Friday."), response_format=format))
    assert json.loads(said.text) == {"name": "Fair", "date": "Friday", "who": ["Ann", "Bob"]}


def test_a_streamed_answer_is_the_whole_one() -> None:
    request = asked(("user", "Say good morning to you"), reasoning_effort="low", stream_options={"include_usage": True})
    message = whole(request, answer(request))["choices"][0]["message"]
    *pieces, last = chunks(request, answer(request))
    deltas = [choice["delta"] for piece in pieces for choice in piece["choices"]]
    for name in ("content", "reasoning_content"):
        assert "".join(delta.get(name) or "" for delta in deltas) == message[name]
    assert last["usage"]["total_tokens"] > 0
