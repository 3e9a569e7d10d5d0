"""Bugs of other translators, between a chat serve and clients of Messages: none of them is ours."""

from __future__ import annotations

import json
from typing import Any

from tests.request.translate.capable import capabilities_of

from stoker.domain.dialect import Dialect
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.translate import AnswerTranslator, Written, read_prompt, write_prompt

SIGNER = ThinkingSigner((b"k",))
SERVE = capabilities_of("vllm", Dialect.CHAT, cloud=False)
TOOL = {"name": "f", "input_schema": {"type": "object"}}


def ask(client: Dialect = Dialect.MESSAGES, to: Capabilities = SERVE, **fields: Any) -> tuple[Written, dict[str, Any]]:
    given = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]} | fields
    written = write_prompt(*read_prompt(client, json.dumps(given).encode()), to, SIGNER)
    return written, json.loads(written.body)


def use(id: str, given: Any, name: str = "f") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


# -- answers ------------------------------------------------------------------------------------------------------


def test_a_call_cut_off_by_the_limit_is_never_an_empty_object() -> None:
    written, _ = ask()
    translator = AnswerTranslator(Dialect.CHAT, written, AnswerContext(written.prompt, "req_1", 1, SIGNER, "m"))
    cut = {"id": "c", "function": {"name": "f", "arguments": '{"path": "/tmp/x", "te'}}
    payload = {"choices": [{"message": {"tool_calls": [cut]}, "finish_reason": "length"}]}
    made = json.loads(translator.translate_whole(json.dumps(payload).encode()))
    assert (made["content"], made["stop_reason"]) == ([use("c", {"path": "/tmp/x"})], "max_tokens")


# -- requests -----------------------------------------------------------------------------------------------------


def test_inspect_ai_4683_arguments_of_a_megabyte_in_the_history_are_sent() -> None:
    big = {"text": "x" * 1_100_000}
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [use("c", big)]}]
    _, document = ask(messages=history)
    assert json.loads(document["messages"][1]["tool_calls"][0]["function"]["arguments"]) == big


# -- a chat client of a serve that speaks Messages ------------------------------------------------------------------


def test_a_chat_request_to_messages_keeps_what_both_can_say() -> None:
    history = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "functions.f:0", "function": {"name": "f", "arguments": ""}}],
        },
        {"role": "tool", "tool_call_id": "functions.f:0", "content": "[tool error] no"},
        {"role": "user", "content": "so"},
    ]
    function = {"type": "function", "function": {"name": "f"}}
    fields: dict[str, Any] = {
        "tools": [function],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "stop": "END",
    }
    to = capabilities_of("vllm", Dialect.MESSAGES, cloud=False)
    written, document = ask(Dialect.CHAT, to, messages=history, temperature=1.5, **fields)
    assert "be brief" in json.dumps(document["system"])
    calling, answered = document["messages"][1:]
    (block,) = calling["content"]
    result, text = answered["content"]
    assert (block["type"], block["input"]) == ("tool_use", {})
    assert (result["tool_use_id"], result["is_error"], text["text"]) == (block["id"], True, "so")
    assert document["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert document["stop_sequences"] == ["END"]
    assert document["temperature"] == 1
    assert set(written.losses.codes) == {"temperature"}
