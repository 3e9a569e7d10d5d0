"""Tools in namespaces (Codex groups its own so): any serve may call them, and the client gets its own names back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.request.translate.capable import capabilities_of

from stoker.domain.dialect import Dialect
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.translate import AnswerTranslator, read_prompt, write_prompt

SIGNER = ThinkingSigner((b"k" * 32,))
SPAWN = {"type": "function", "name": "spawn", "parameters": {"type": "object"}}
ASKED = {
    "model": "m",
    "input": [
        {"type": "function_call", "call_id": "c0", "namespace": "agents", "name": "spawn", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c0", "output": "ok"},
    ],
    "tools": [
        {"type": "namespace", "name": "agents", "tools": [SPAWN]},
        {"type": "namespace", "name": "others", "tools": [SPAWN]},
        {"type": "function", "name": "spawn", "parameters": {"type": "object"}},
    ],
}


def translated(**fields: Any) -> tuple[dict[str, Any], AnswerTranslator]:
    """What a chat serve is sent, and what reads its answer."""
    prompt, losses = read_prompt(Dialect.RESPONSES, json.dumps(ASKED | fields).encode())
    written = write_prompt(prompt, losses, capabilities_of("llama.cpp", Dialect.CHAT, False), SIGNER)
    assert list(written.losses.codes) == []
    answer = AnswerTranslator(Dialect.CHAT, written, AnswerContext(prompt, "req_1", 1, SIGNER, "m"))
    return json.loads(written.body), answer


def test_equal_names_in_different_namespaces_stay_apart() -> None:
    sent, _ = translated()
    names = [tool["function"]["name"] for tool in sent["tools"]]
    assert len(set(names)) == 3
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_") for name in names)
    assert sent["messages"][0]["tool_calls"][0]["function"]["name"] == names[0]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_call_comes_back_with_its_own_name_and_namespace(is_streamed: bool) -> None:
    sent, answer = translated(stream=is_streamed)
    names = [tool["function"]["name"] for tool in sent["tools"]]
    calls = [{"index": n, "id": f"c{n}", "function": {"name": name, "arguments": "{}"}} for n, name in enumerate(names)]
    if is_streamed:
        chunk = {"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
        body = answer.feed(b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(chunk).encode())
        last = json.loads(body.rstrip().rpartition(b"data: ")[2])
        output = last["response"]["output"]
        assert b'"namespace":"agents"' in body.partition(b"output_item.done")[0]
    else:
        choice = {"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}
        output = json.loads(answer.translate_whole(json.dumps({"choices": [choice]}).encode()))["output"]
    assert [(item["name"], item.get("namespace")) for item in output] == [
        ("spawn", "agents"),
        ("spawn", "others"),
        ("spawn", None),
    ]
