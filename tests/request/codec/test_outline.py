"""What routing sees of a request, in every dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.dialect import Dialect
from stoker.domain.task import MAX_TEXT, Outline
from stoker.request.codec.outline import outline


def seen(body: dict[str, Any], dialect: Dialect = Dialect.CHAT) -> Outline:
    return outline(dialect, json.dumps(body).encode())[0]


def user(content: object, **more: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}], **more}


@pytest.mark.parametrize(
    "body",
    [
        user("do it"),
        user([{"type": "text", "text": "do it"}]),
        {"input": "do it"},
        {"input": [{"role": "user", "content": "do it"}]},
        {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]}]},
        {"prompt": "do it"},
    ],
)
def test_the_last_user_text_is_found_in_every_dialect(body: dict[str, Any]) -> None:
    assert seen(body).text == "do it"


def test_it_is_the_last_that_says_something_and_not_what_a_tool_gave() -> None:
    chat = [
        {"role": "user", "content": "first"},
        {"role": "user", "content": "fix it"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "long output", "tool_call_id": "1"},
    ]
    found = seen({"messages": chat})
    assert (found.text, found.has_results, found.turns) == ("fix it", True, 2)
    messages = [
        {"role": "user", "content": "fix it"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "long output"}]},
    ]
    found = seen({"messages": messages}, Dialect.MESSAGES)
    assert (found.text, found.has_results) == ("fix it", True)
    items = [{"role": "user", "content": "fix it"}, {"type": "function_call_output", "output": "x"}]
    found = seen({"input": items}, Dialect.RESPONSES)
    assert (found.text, found.has_results) == ("fix it", True)


def test_what_a_harness_says_in_the_users_name_is_left_out() -> None:
    parts = [{"type": "text", "text": "<system-reminder>\nplan it"}, {"type": "text", "text": "hello"}]
    assert seen(user(parts)).text == "hello"


def test_short_system_prompts_are_seen_and_long_ones_are_not() -> None:
    long = "word " * 151
    body = {
        "system": [{"type": "text", "text": "Answer in verse."}, {"type": "text", "text": long}],
        "instructions": "Be kind.",
        "messages": [{"role": "system", "content": long}, {"role": "developer", "content": "Be brief."}],
    }
    assert seen(body).systems == ("Be brief.", "Answer in verse.", "Be kind.")


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    found = seen(user("begin " + "x" * 100_000 + " end"))
    assert len(found.text) == MAX_TEXT + 1
    assert (found.text[:6], found.text[-4:]) == ("begin ", " end")


@pytest.mark.parametrize(
    ("body", "attribute", "value"),
    [
        (user("x", tools=[{}, {}]), "tools", 2),
        (user("x", tools="none"), "tools", 0),
        (user("x", tool_choice="required"), "forces_tool", True),
        (user("x", tool_choice={"type": "tool", "name": "a"}), "forces_tool", True),
        (user("x", tool_choice="auto"), "forces_tool", False),
        (user("x", response_format={"type": "json_schema"}), "wants_json", True),
        (user("x", response_format={"type": "text"}), "wants_json", False),
        (user("x", text={"format": {"type": "json_object"}}), "wants_json", True),
        (user("x", output_config={"format": {"type": "json_schema"}}), "wants_json", True),
        (user("x", format="json"), "wants_json", True),
        (user([{"type": "image_url", "image_url": {"url": "u"}}, {"type": "text", "text": "y"}]), "images", 1),
        (user([{"type": "image", "source": {"data": "A" * 100_000}}]), "images", 1),
        (user("x", thinking={"type": "enabled"}), "wants_thinking", True),
        (user("x", reasoning={"effort": "high"}), "wants_thinking", True),
        (user("x", reasoning_effort="low"), "wants_thinking", False),
        (user("x", think=True), "wants_thinking", True),
    ],
)
def test_outward_signs(body: dict[str, Any], attribute: str, value: object) -> None:
    assert getattr(seen(body), attribute) == value


def test_the_body_may_declare_its_class() -> None:
    assert outline(Dialect.CHAT, b'{"metadata":{"stoker_class":"planning"}}')[1] == "planning"
    assert outline(Dialect.CHAT, b'{"metadata":{"stoker_class":7}}')[1] is None
    assert outline(Dialect.CHAT, b'{"metadata":[]}')[1] is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["messages", "role", "content", "type", "text", "input", "tools", "system", "metadata"]), inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["messages", "input", "prompt", "system", "tools", "text", "format"]), JSON))
def test_whatever_a_body_holds_nothing_is_raised(body: dict[str, Any]) -> None:
    found = seen(body)
    assert found.size > 0
    assert found.turns >= 1


@given(st.binary(max_size=60))
def test_not_even_of_what_is_no_json(body: bytes) -> None:
    assert outline(Dialect.CHAT, body)[0].size == len(body)
