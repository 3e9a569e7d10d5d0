"""A history that one vendor or client made is written so that the next one takes it: ids, blank texts, schemas."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.dialect import ENDPOINTS, Dialect
from stoker.domain.serve import Serve, Translation
from stoker.exchange.formatter import Formatter
from stoker.request.codec.body_fields import read_body_fields
from stoker.request.translate.neutral.thinking import ThinkingSigner

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
LONGEST = {CHAT: 40, MESSAGES: 64, RESPONSES: 64}
PLAIN = re.compile(r"[A-Za-z0-9_-]+")
WAYS = [(client, serve) for client in LONGEST for serve in LONGEST]


def sent(
    client: Dialect, serve: Dialect, fields: dict[str, Any], is_cloud: bool = True
) -> tuple[dict[str, Any], tuple[str, ...]]:
    one = Serve("s", "openai", dialects=frozenset((serve,)), translation=Translation(cloud=is_cloud))
    body = json.dumps({"model": "s", **({"max_tokens": 9} if client is MESSAGES else {}), **fields}).encode()
    formatter = Formatter(ThinkingSigner((b"key",)), lambda: 0.0)
    request = formatter.format(one, None, ENDPOINTS[client.spec.path], read_body_fields(body), body)
    return json.loads(request.body), request.notes


# -- ids ----------------------------------------------------------------------------------------------------------


def calls(client: Dialect, *ids: str) -> dict[str, Any]:
    """Turns of one call and its result each."""
    turns: list[Any] = [{"role": "user", "content": "x"}]
    for id in ids:
        if client is CHAT:
            call = {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            turns += [{"role": "assistant", "content": None, "tool_calls": [call]}]
            turns += [{"role": "tool", "tool_call_id": id, "content": "r"}]
        elif client is MESSAGES:
            turns += [{"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "f", "input": {}}]}]
            turns += [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "r"}]}]
        else:
            turns += [{"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}]
            turns += [{"type": "function_call_output", "call_id": id, "output": "r"}]
    return {"input" if client is RESPONSES else "messages": turns}


def ids_in(document: Any) -> list[str]:
    if isinstance(document, dict):
        own = [value for name, value in document.items() if name in ("id", "call_id", "tool_call_id", "tool_use_id")]
        return own + [id for value in document.values() for id in ids_in(value)]
    return [id for value in document for id in ids_in(value)] if isinstance(document, list) else []


@pytest.mark.parametrize(("client", "serve"), WAYS)
def test_a_vendor_gets_no_id_that_it_refuses_and_the_same_in_call_and_result(client: Dialect, serve: Dialect) -> None:
    given = ["call_1", "x" * 41, "x" * 65, "y" * 300, "functions.get:0"]
    ids = ids_in(sent(client, serve, calls(client, *given))[0])
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == len(given)
    assert all(len(id) <= LONGEST[serve] for id in ids)
    assert serve is not MESSAGES or all(PLAIN.fullmatch(id) for id in ids)
    assert "call_1" in ids
    assert ids_in(sent(client, serve, calls(client, *given[:3]))[0]) == ids[:6]


@pytest.mark.parametrize("dialect", LONGEST)
def test_what_passes_through_says_so_and_changes_nothing_else(dialect: Dialect) -> None:
    fitting = calls(dialect, "call_1", "x" * LONGEST[dialect])
    body, words = sent(dialect, dialect, fitting)
    assert ({name: body[name] for name in fitting}, words) == (fitting, ())
    assert sent(dialect, dialect, calls(dialect, "x" * 65))[1] == ("repaired:call_ids",)


@pytest.mark.parametrize(("client", "serve"), [(client, serve) for client, serve in WAYS if serve is not MESSAGES])
def test_a_serve_of_ones_own_gets_every_id_as_it_is(client: Dialect, serve: Dialect) -> None:
    assert ids_in(sent(client, serve, calls(client, "x" * 300), is_cloud=False)[0]) == ["x" * 300] * 2


@given(st.lists(st.text(min_size=1, max_size=100), min_size=2, max_size=4, unique=True))
def test_different_ids_stay_different(given: list[str]) -> None:
    for client, serve in WAYS:
        ids = ids_in(sent(client, serve, calls(client, *given))[0])
        assert ids[::2] == ids[1::2]
        assert len(set(ids)) == len(given)
        assert all(len(id) <= LONGEST[serve] for id in ids)


# -- blank texts --------------------------------------------------------------------------------------------------

BLANKS = [" ", "\n\n", "\t \r\n", ""]


def texts_in(body: dict[str, Any]) -> list[str]:
    found: list[str] = [body["system"]] if isinstance(body.get("system"), str) else []
    blocks: list[Any] = body["system"] if isinstance(body.get("system"), list) else []
    for turn in body["messages"]:
        blocks += [{"type": "text", "text": turn["content"]}] if isinstance(turn["content"], str) else turn["content"]
    for block in blocks:
        blocks += block["content"] if isinstance(block.get("content"), list) else []
    return found + [block["text"] for block in blocks if block["type"] == "text"]


@pytest.mark.parametrize("blank", BLANKS)
def test_a_turn_of_blanks_never_gets_to_anthropic(blank: str) -> None:
    turns = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": blank},
        {"role": "user", "content": "y"},
    ]
    part = [{"type": "text", "text": blank}, {"type": "text", "text": "z"}]
    for client in (CHAT, MESSAGES):
        body, words = sent(client, MESSAGES, {"messages": [*turns, {"role": "user", "content": part}]})
        assert all(text.strip() for text in texts_in(body))
        assert [turn["role"] for turn in body["messages"]][:2] == ["user", "assistant"]
        assert ("repaired:blank_text" in words) or not blank


@pytest.mark.parametrize("blank", BLANKS)
def test_nor_do_blanks_in_results_and_system_prompts(blank: str) -> None:
    text = {"type": "text", "text": blank}
    history = calls(MESSAGES, "c")["messages"]
    history[-1]["content"][0]["content"] = [text, {"type": "text", "text": "r"}]
    body, words = sent(MESSAGES, MESSAGES, {"system": [text], "messages": history})
    assert ("system" in body, texts_in(body), words) == (False, ["x", "r"], ("repaired:blank_text",))


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
def test_a_begun_answer_ends_with_a_letter(client: Dialect) -> None:
    begun = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "It is \n"}]
    body, words = sent(client, MESSAGES, {"messages": begun})
    assert (body["messages"][-1]["content"], "repaired:blank_text" in words) == ("It is", True)
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "It is \n"}]
    body, _ = sent(client, MESSAGES, {"messages": [begun[0], {"role": "assistant", "content": parts}]})
    assert [block["text"] for block in body["messages"][-1]["content"]] == ["a ", "It is"]


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": " x\n"}, {"role": "assistant", "content": " y"}],
        [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y \n"}, {"role": "user", "content": "z "}],
        [*calls(MESSAGES, "c")["messages"][:2],
         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": ""}]}],
    ],
)  # fmt: skip
def test_other_blanks_stay_where_they_are(messages: list[Any]) -> None:
    body, words = sent(MESSAGES, MESSAGES, {"messages": messages})
    assert (body["messages"], words) == (messages, ())


# -- strict schemas -----------------------------------------------------------------------------------------------

STRICT = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "object", "properties": {},
                                                                             "additionalProperties": False}}},
    "required": ["a", "b"],
    "additionalProperties": False,
}  # fmt: skip
LOOSE: list[dict[str, Any]] = [
    {**STRICT, "required": ["a"]},
    {**STRICT, "additionalProperties": True},
    {name: value for name, value in STRICT.items() if name != "additionalProperties"},
    {"anyOf": [STRICT, {"type": "object"}]},
]


def format_at(serve: Dialect, body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["response_format"]["json_schema"] if serve is CHAT else body["text"]["format"]
    return found


def asked(schema: dict[str, Any]) -> dict[str, Any]:
    output = {"format": {"type": "json_schema", "schema": schema}}
    return {"messages": [{"role": "user", "content": "x"}], "output_config": output}


@pytest.mark.parametrize("serve", [CHAT, RESPONSES])
def test_what_messages_always_holds_openai_is_asked_to_hold(serve: Dialect) -> None:
    body, words = sent(MESSAGES, serve, asked(STRICT))
    assert (format_at(serve, body)["strict"], [word for word in words if "strict" in word]) == (True, [])


@pytest.mark.parametrize("schema", LOOSE)
@pytest.mark.parametrize("serve", [CHAT, RESPONSES])
def test_a_schema_that_openai_cannot_hold_is_named(serve: Dialect, schema: dict[str, Any]) -> None:
    body, words = sent(MESSAGES, serve, asked(schema))
    assert ("strict" in format_at(serve, body), "lossy:strict_schema" in words) == (False, True)
    assert "lossy:strict_schema" not in sent(MESSAGES, serve, asked(schema), is_cloud=False)[1]


# -- tools that were found ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("serve", [CHAT, MESSAGES, RESPONSES])
def test_tools_that_a_search_found_are_offered_once(serve: Dialect) -> None:
    tool = {"type": "function", "name": "get", "description": "d", "parameters": {"type": "object"}}
    found = {
        "type": "tool_search_output",
        "call_id": "c",
        "execution": "client",
        "tools": [tool, {**tool, "name": "put"}],
    }
    asked = {"input": [{"role": "user", "content": "x"}, found, found], "tools": [tool]}
    body, _ = sent(RESPONSES, serve, asked, is_cloud=False)
    assert [one.get("function", one)["name"] for one in body["tools"]] == ["get", "put"]


def test_they_are_offered_where_there_were_none_before() -> None:
    tool = {"type": "function", "name": "get", "parameters": {"type": "object"}}
    found = [{"role": "user", "content": "x"}, {"type": "additional_tools", "tools": [tool]}]
    body, words = sent(RESPONSES, RESPONSES, {"input": found}, is_cloud=False)
    assert (body["tools"], body["input"], words) == ([tool], found[:1], ("repaired:tools",))
    assert sent(RESPONSES, RESPONSES, {"input": found})[0]["input"] == found
