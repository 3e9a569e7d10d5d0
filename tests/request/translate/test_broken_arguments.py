"""A call whose arguments were cut off does not end its conversation: every serve gets arguments that it can read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.request.translate.capable import capabilities_of

from stoker.domain.dialect import Dialect
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.pass_through import adapt_body
from stoker.request.translate.translate import read_prompt, write_prompt

SIGNER = ThinkingSigner((b"key",))
BROKEN: dict[str, dict[str, Any]] = {
    "": {},
    "  ": {},
    "null": {},
    "{": {"_raw": "{"},
    '{"a":': {"_raw": '{"a":'},
    '{"a":1}{"b":2}': {"_raw": '{"a":1}{"b":2}'},
    '{"a":1}}': {"_raw": '{"a":1}}'},
    "[1]": {"_raw": "[1]"},
    "3": {"_raw": "3"},
    "NaN": {"_raw": "NaN"},
    '{"a":NaN}': {"a": None},
    '{"a":1e999}': {"a": None},
    '{"a":"\\ud800"}': {"a": "\ufffd"},
    '"{\\"a\\":1}"': {"a": 1},
    "'x'": {"_raw": "'x'"},
}
"""What clients send back, and what the serve gets."""
SOUND = ('{"a": 1.0, "b":"ü\\u00e9"}', "{}", ' {"a":[1e300]} ', '{"a":123456789012345678901234567890}')


def chat(arguments: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {
        "model": "m",
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
        ],
    }


def old_chat(arguments: Any) -> dict[str, Any]:
    call = {"name": "f", "arguments": arguments}
    return {"model": "m", "messages": [{"role": "assistant", "content": None, "function_call": call}]}


def responses(arguments: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "input": [
            {"role": "user", "content": "q"},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": arguments},
            {"type": "function_call_output", "call_id": "c1", "output": "r"},
        ],
    }


def messages(input: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": input}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "r"}]},
        ],
    }


def ollama(arguments: Any) -> dict[str, Any]:
    call = {"function": {"name": "f", "arguments": arguments}}
    return {
        "model": "m",
        "messages": [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "content": "r"}],
    }


CLIENTS = {
    Dialect.CHAT: chat, Dialect.RESPONSES: responses, Dialect.MESSAGES: messages, Dialect.OLLAMA_CHAT: ollama,
}  # fmt: skip
SERVES = [
    capabilities_of("llama.cpp", dialect, cloud)
    for dialect in (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES)
    for cloud in (False, True)
]


def named(traits: Capabilities) -> str:
    return f"{traits.dialect.value}-{'local' if traits.local else 'cloud'}"


def arguments_in(document: Any) -> Iterator[Any]:
    """The arguments of every call in a body of any dialect."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name == "arguments":
                yield json.loads(value)
            elif name == "input" and document.get("type") == "tool_use":
                yield value
            else:
                yield from arguments_in(value)
    elif isinstance(document, list):
        for value in document:
            yield from arguments_in(value)


# -- translated ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serve", SERVES, ids=named)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("arguments", "got"), BROKEN.items())
def test_a_writer_makes_an_object_and_names_the_repair(
    client: Dialect, serve: Capabilities, arguments: str, got: dict[str, Any]
) -> None:
    prompt, losses = read_prompt(client, json.dumps(CLIENTS[client](arguments)).encode())
    written = write_prompt(prompt, losses, serve, SIGNER)
    assert list(arguments_in(json.loads(written.body))) == [got]
    assert "repaired:arguments" in written.losses.words()
    assert ("lossy:arguments" in written.losses.words()) == ("_raw" in got)


@pytest.mark.parametrize("serve", SERVES, ids=named)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("arguments", [[1], 7, True, None])
def test_arguments_that_are_another_json_value_are_no_dead_end(
    client: Dialect, serve: Capabilities, arguments: Any
) -> None:
    prompt, losses = read_prompt(client, json.dumps(CLIENTS[client](arguments)).encode())
    (found,) = arguments_in(json.loads(write_prompt(prompt, losses, serve, SIGNER).body))
    assert isinstance(found, dict)


@pytest.mark.parametrize("serve", SERVES, ids=named)
@pytest.mark.parametrize("arguments", SOUND)
def test_an_object_comes_through_byte_for_byte(serve: Capabilities, arguments: str) -> None:
    prompt, losses = read_prompt(Dialect.CHAT, json.dumps(chat(arguments)).encode())
    written = write_prompt(prompt, losses, serve, SIGNER)
    text = arguments if serve.dialect is Dialect.MESSAGES else json.dumps(arguments, ensure_ascii=False)
    assert text.encode() in written.body
    assert written.losses.words() == ()


# -- passed through -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_cloud", [False, True])
@pytest.mark.parametrize("body", [chat, old_chat, responses])
@pytest.mark.parametrize(("arguments", "got"), BROKEN.items())
def test_what_passes_through_is_repaired_and_named(
    body: Any, is_cloud: bool, arguments: str, got: dict[str, Any]
) -> None:
    dialect = Dialect.RESPONSES if body is responses else Dialect.CHAT
    given = body(arguments)
    sent, words = adapt_body(json.dumps(given).encode(), capabilities_of("llama.cpp", dialect, is_cloud))
    (found,) = arguments_in(json.loads(sent))
    assert found == got
    assert words == ("repaired:arguments", *(("lossy:arguments",) if "_raw" in got else ()))
    assert json.loads(sent.replace(json.dumps(json.dumps(found)).encode(), b"0"))["model"] == "m"


@pytest.mark.parametrize("is_cloud", [False, True])
@pytest.mark.parametrize(
    ("input", "got"),
    [("", {}), (None, {}), ([1], {"_raw": "[1]"}), ('{"a":', {"_raw": '{"a":'}), ('{"a":1}', {"a": 1})],
)
def test_the_input_of_a_call_in_messages_becomes_an_object(is_cloud: bool, input: Any, got: dict[str, Any]) -> None:
    traits = capabilities_of("llama.cpp", Dialect.MESSAGES, is_cloud)
    sent, words = adapt_body(json.dumps(messages(input)).encode(), traits)
    assert list(arguments_in(json.loads(sent))) == [got]
    assert words[0] == "repaired:arguments"


@pytest.mark.parametrize("arguments", SOUND)
@pytest.mark.parametrize("body", [chat, old_chat, responses])
def test_sound_arguments_keep_every_byte_of_the_body(body: Any, arguments: str) -> None:
    dialect = Dialect.RESPONSES if body is responses else Dialect.CHAT
    given = json.dumps(body(arguments), indent=2).encode()
    assert adapt_body(given, capabilities_of("llama.cpp", dialect, cloud=False)) == (given, ())


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"arguments": {}}}}}]},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"required": ["arguments"]}}}]},
        {"metadata": {"arguments": "{"}},
        {"messages": [{"role": "user", "content": 'write "arguments": "{"'}]},
        {"messages": [{"role": "assistant", "tool_calls": "{", "arguments": "{"}]},
        {"messages": [{"role": "assistant", "tool_calls": [7, {"function": 7, "arguments": "{"}]}]},
        {"messages": "arguments", "arguments": "{"},
        {"input": [{"type": "message", "arguments": "{"}, 7]},
    ],
)
@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.RESPONSES])
def test_only_arguments_of_calls_are_looked_at(dialect: Dialect, fields: dict[str, Any]) -> None:
    given = json.dumps({"model": "m", **fields}, indent=1).encode()
    assert adapt_body(given, capabilities_of("llama.cpp", dialect, cloud=False)) == (given, ())


def test_a_call_without_arguments_beside_a_broken_one_gets_an_empty_object() -> None:
    calls = [{"id": "a", "function": {"name": "f"}}, {"id": "b", "function": {"name": "f", "arguments": "{"}}]
    given = {"messages": [{"role": "assistant", "tool_calls": calls}]}
    sent, _ = adapt_body(json.dumps(given).encode(), capabilities_of("llama.cpp", Dialect.CHAT, cloud=False))
    assert list(arguments_in(json.loads(sent))) == [{}, {"_raw": "{"}]


@pytest.mark.parametrize("size", [1, 5000])
def test_so_does_one_alone_however_long_the_conversation(size: int) -> None:
    turns = [{"role": "user", "content": "x" * size}] * 40
    given = {"messages": [*turns, {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f"}}]}]}
    sent, words = adapt_body(json.dumps(given).encode(), capabilities_of("llama.cpp", Dialect.CHAT, cloud=False))
    assert (list(arguments_in(json.loads(sent))), words) == ([{}], ("repaired:arguments",))


@given(st.text(max_size=30) | st.text(alphabet='{}[]":,aN1e\\ ', max_size=12))
def test_whatever_comes_the_serve_gets_an_object(arguments: str) -> None:
    given = json.dumps(chat(arguments)).encode()
    sent, _ = adapt_body(given, capabilities_of("llama.cpp", Dialect.CHAT, cloud=False))
    (found,) = arguments_in(json.loads(sent))
    assert isinstance(found, dict)
    prompt, losses = read_prompt(Dialect.CHAT, given)
    written = write_prompt(prompt, losses, capabilities_of("llama.cpp", Dialect.CHAT, cloud=False), SIGNER)
    assert list(arguments_in(json.loads(written.body))) == [found]
