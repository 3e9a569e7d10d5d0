"""Each rule of OpenAI's API for Chat Completions refuses what breaks it, and lets its right neighbour pass."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai.types.chat import completion_create_params
from tests.lab.testing.strictly import CHAT, HELLO, MESSAGES, TEXT, changed, hints, refusal, strict

from stoker_lab.testing.script.record import RecordedRequest
from stoker_lab.testing.scripted import Script, ScriptedServer
from stoker_lab.testing.strict import fields
from stoker_lab.testing.strict.chat import RULES
from stoker_lab.testing.strict.rules import StrictRequest, first

CALL_F = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLS = {"role": "assistant", "tool_calls": [CALL_F]}
DONE = {"role": "tool", "tool_call_id": "a", "content": "sunny"}
FUNCTION = {"type": "function", "function": {"name": "f"}}
IMAGE_PART = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}


def chat(*turns: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(turns) or [HELLO], **more}


def named(name: str) -> dict[str, Any]:
    return CALLS | {"tool_calls": [CALL_F | {"function": {"name": name, "arguments": "{}"}}]}


WRONG_CHAT: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("unknown field", chat(top_k=1), "Unrecognized request argument supplied: top_k", chat(top_p=1, seed=1)),
    ("both limits", chat(max_tokens=1, max_completion_tokens=1), "at the same time", chat(max_completion_tokens=1)),
    ("five stops", chat(stop=list("abcde")), "maximum length 4", chat(stop=list("abcd"))),
    ("no messages", chat(messages="x"), "Invalid type for 'messages'", chat()),
    ("result without calls", chat(HELLO, DONE), "must be a response to a preceding message", chat(HELLO, CALLS, DONE)),
    ("result of nothing", chat(HELLO, CALLS, DONE, DONE | {"tool_call_id": "b"}), "'tool_call_id' of 'b' not found",
     chat(HELLO, CALLS, DONE, HELLO)),
    ("result after another turn", chat(HELLO, CALLS, DONE, HELLO, DONE), "must be a response",
     chat(HELLO, CALLS, DONE, HELLO)),
    ("no result", chat(HELLO, CALLS, HELLO), "did not have response messages: a", chat(HELLO, CALLS, DONE, HELLO)),
    ("no result at the end", chat(HELLO, CALLS), "did not have response messages: a", chat(HELLO, CALLS, DONE)),
    ("image in a result", chat(HELLO, CALLS, DONE | {"content": [IMAGE_PART]}), "holds text only",
     chat(HELLO, CALLS, DONE | {"content": [TEXT]})),
    ("no content of a result", chat(HELLO, CALLS, DONE | {"content": None}), "holds text only",
     chat(HELLO, CALLS, DONE | {"content": ""})),
    ("name of a tool", chat(tools=[{"type": "function", "function": {"name": "a.b"}}]), "'tools[0].function.name'",
     chat(tools=[FUNCTION])),
    ("long name of a tool",
     chat(tools=[{"type": "function", "function": {"name": "f" * 65}}]), "does not match pattern",
     chat(tools=[{"type": "function", "function": {"name": "f" * 64}}])),
    ("name of a call", chat(HELLO, named("a b"), DONE), "'messages[1].tool_calls[0].function.name'",
     chat(HELLO, named("a-b"), DONE)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "says", "right"), [one[1:] for one in WRONG_CHAT], ids=[one[0] for one in WRONG_CHAT]
)
async def test_openais_rules(wrong: dict[str, Any], says: str, right: dict[str, Any]) -> None:
    assert says in (await refusal(CHAT, wrong) or "")
    assert await refusal(CHAT, right) is None


def test_the_fields_are_those_of_openais_sdk() -> None:
    assert hints(completion_create_params.CompletionCreateParamsStreaming) == fields.CHAT


async def test_a_refusal_is_an_error_to_the_sdk() -> None:
    async with (
        ScriptedServer(Script(strict_chat=True)) as server,
        openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client,
    ):
        with pytest.raises(openai.BadRequestError, match="holds text only"):
            await client.chat.completions.create(model="m", messages=[HELLO, CALLS, DONE | {"content": [IMAGE_PART]}])


@pytest.mark.parametrize(
    ("path", "body"), [(MESSAGES, {"messages": "x", "n": 1}), (CHAT, {"messages": [DONE], "x": 1})]
)
async def test_without_the_switch_nothing_is_refused(path: str, body: dict[str, Any]) -> None:
    async with strict(strict_messages=False, strict_chat=False) as client:
        assert (await client.ask("POST", path, body)).status == 200


def test_an_odd_request_is_refused_or_not_but_never_fails() -> None:
    whole = chat(HELLO, CALLS, DONE, HELLO, tools=[FUNCTION], stop=["a"])
    for body in (whole, *changed(whole)):
        asked = StrictRequest(body, RecordedRequest("POST", "/", (("anthropic-version", "2023-06-01"),), b""))
        assert isinstance(first(RULES, asked), str | None)
    assert first(RULES, StrictRequest(whole, asked.request)) is None
