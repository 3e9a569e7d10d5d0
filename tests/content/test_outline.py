"""What routing sees of a request, in every dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.dialect import Dialect
from stoker.domain.task import MAX_TEXT, Outline
from stoker_content.outline import MOST_REQUESTS, outline


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


CHAT = [
    {"role": "user", "content": "first"},
    {"role": "assistant", "content": "a"},
    {"role": "user", "content": "<system-reminder>\nx\n</system-reminder>"},
    {"role": "user", "content": "second"},
    {"role": "assistant", "content": "b"},
    {"role": "tool", "content": "c", "tool_call_id": "1"},
    {"role": "user", "content": "<system-reminder>\nx\n</system-reminder>"},
]
ITEMS = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "first"}]},
    {"type": "function_call_output", "call_id": "1", "output": "x"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "second"}]},
    {"type": "function_call", "call_id": "2", "name": "edit", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "2", "output": "x"},
]
MESSAGES = [
    {"role": "user", "content": "first"},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}, {"type": "text", "text": "second"}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "1", "content": "third"},
        {"type": "text", "text": "<system-reminder>\nx\n</system-reminder>"},
    ]},
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (Dialect.CHAT, {"messages": CHAT}),
        (Dialect.RESPONSES, {"input": ITEMS}),
        (Dialect.MESSAGES, {"messages": MESSAGES}),
    ],
)
def test_the_requests_of_a_conversation_are_found_newest_first_in_every_dialect(
    dialect: Dialect, body: dict[str, Any]
) -> None:
    found = seen(body, dialect)
    assert (found.text, found.earlier, found.has_results, found.is_cut) == ("second", ("first",), True, False)


def test_a_conversation_that_is_kept_elsewhere_is_cut() -> None:
    assert seen({"input": "go on", "previous_response_id": "resp_1"}, Dialect.RESPONSES).is_cut
    assert not seen({"input": "go on", "previous_response_id": None}, Dialect.RESPONSES).is_cut


def test_of_a_very_long_conversation_the_newest_requests_are_seen_and_it_is_cut() -> None:
    many = [{"role": "user", "content": f"number {number}"} for number in range(100_000)]
    found = seen({"messages": many})
    assert (found.text, found.is_cut) == ("number 99999", True)
    assert len(found.earlier) == MOST_REQUESTS
    turns = [*many[:10], *({"role": "user", "content": [{"type": "tool_result"}]} for _ in range(3000))]
    assert seen({"messages": turns}).is_cut
    long = [{"role": "user", "content": "x" * 100_000} for _ in range(30)]
    found = seen({"messages": long})
    assert found.is_cut
    assert 1 < len(found.earlier) < 29


@pytest.mark.parametrize("odd", [None, 5, "text", []])
def test_a_turn_that_cannot_be_read_leaves_the_others_and_is_noted(odd: object) -> None:
    found = seen({"messages": [{"role": "user", "content": "first"}, odd, {"role": "user", "content": "second"}]})
    assert (found.text, found.earlier, found.is_cut) == ("second", ("first",), True)


def test_the_examples_of_aider_are_no_part_of_the_conversation() -> None:
    reset = "I switched to a new code base. Please don't consider the above files or try to edit them any longer."
    turns = [{"role": "user", "content": text} for text in ("Refactor hello() into its own file.", reset, "do it")]
    assert (seen({"messages": turns}).text, seen({"messages": turns}).earlier) == ("do it", ())


def test_results_before_the_request_are_not_its_own() -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}, {"role": "user", "content": "c"}]
    assert not seen({"messages": turns}).has_results


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


ASKED = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("dialect", "body", "may_be_empty"),
    [
        (Dialect.CHAT, {"messages": [ASKED]}, False),
        (Dialect.CHAT, {"messages": [ASKED], "stop": None}, False),
        (Dialect.CHAT, {"messages": [ASKED], "stop": ["\n"]}, True),
        (Dialect.CHAT, {"messages": [ASKED], "stop": []}, False),
        (Dialect.MESSAGES, {"messages": [ASKED], "stop_sequences": ["x"]}, True),
        (Dialect.MESSAGES, {"messages": [ASKED, {"role": "assistant", "content": "{"}]}, True),
        (
            Dialect.MESSAGES,
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]},
            True,
        ),
        (
            Dialect.CHAT,
            {"messages": [ASKED, {"role": "assistant", "tool_calls": []}, {"role": "tool", "content": "x"}]},
            True,
        ),
        (Dialect.RESPONSES, {"input": "hi"}, False),
        (Dialect.RESPONSES, {"input": [ASKED, {"type": "function_call_output"}]}, True),
        (Dialect.OLLAMA_CHAT, {"messages": [ASKED], "options": {"stop": ["x"]}}, True),
        (Dialect.OLLAMA_GENERATE, {"prompt": "def f", "suffix": "return"}, True),
    ],
)
def test_the_request_says_whether_a_model_may_have_nothing_to_say(
    dialect: Dialect, body: dict[str, Any], may_be_empty: bool
) -> None:
    assert outline(dialect, json.dumps(body).encode())[0].may_be_empty is may_be_empty


def test_a_text_that_is_no_utf8_says_nothing() -> None:
    assert outline(Dialect.CHAT, b'{"messages":[{"role":"user","content":"\xff"}]}')[0].text == ""
