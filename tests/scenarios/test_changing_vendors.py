"""A conversation whose model changes vendor at every turn, by each official SDK: each turn thinks and calls a tool.

The servers in the clouds' places refuse what Anthropic's and OpenAI's APIs refuse: a signature or a sealed reasoning
item that they did not make, a call id that is too long, a turn with calls that does not begin with its thinking.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from tests.scenarios.plane import Plane, running, serve

from stoker_lab.testing.script.script import Script

VENDORS = {
    "claude": ("messages", True, {"strict_messages": True}),
    "gpt": ("responses", True, {}),
    "gpt-chat": ("chat", True, {"strict_chat": True}),
    "local": ("chat", False, {}),
}
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
SEAL = "gAAAAsealed"
"""What the reasoning that OpenAI's server seals begins with."""
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ORDERS = (
    ("claude", "gpt", "local", "gpt-chat", "claude", "local", "gpt", "claude"),
    ("gpt", "claude", "gpt", "local", "claude", "gpt-chat", "gpt"),
    ("local", "claude", "local", "gpt", "local", "gpt-chat", "claude"),
)


def answer(name: str, turn: int) -> dict[str, Any]:
    thinking: dict[str, Any] = {"type": "thinking", "text": f"{name} thinks of turn {turn}."}
    if name == "gpt":
        thinking["signature"] = SEAL
    calls = {"type": "call", "name": "get_weather", "arguments": {"city": name}, "id": f"call_{name}_{turn}"}
    return {"blocks": [thinking, {"type": "text", "text": f"{name} looks."}, calls]}


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        *(
            serve(
                name,
                Script(answers=[answer(name, turn) for turn in range(8)], **script),
                slot=None,
                dialects=[dialect],
                translation={"cloud": is_cloud},
            )
            for name, (dialect, is_cloud, script) in VENDORS.items()
        ),
        keeps_engines=True,
    ) as plane:
        yield plane


def chat(client: openai.OpenAI, model: str, history: list[Any], streamed: bool) -> str:
    tool: Any = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
    history.append({"role": "user", "content": f"And at {model}?"})
    asked: dict[str, Any] = {"model": model, "messages": history, "tools": [tool], "reasoning_effort": "high"}
    if streamed:
        with client.chat.completions.stream(**asked) as stream:
            message: Any = stream.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(**asked).choices[0].message
    turn = message.model_dump(exclude_none=True, exclude={"parsed"})
    for call in turn["tool_calls"]:
        call["function"].pop("parsed_arguments", None)
    history.append(turn)
    history.extend({"role": "tool", "tool_call_id": call["id"], "content": "sun"} for call in turn["tool_calls"])
    return json.loads(turn["tool_calls"][0]["function"]["arguments"])["city"]


def responses(client: openai.OpenAI, model: str, history: list[Any], streamed: bool) -> str:
    tool: Any = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": False}
    history.append({"role": "user", "content": f"And at {model}?"})
    asked: dict[str, Any] = {"model": model, "input": history, "tools": [tool], "reasoning": {"effort": "high"}}
    asked |= {"store": False, "include": ["reasoning.encrypted_content"]}
    if streamed:
        with client.responses.stream(**asked) as stream:
            response: Any = stream.get_final_response()
    else:
        response = client.responses.create(**asked)
    items = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output]
    for item in items:
        for part in item.get("content") or ():
            part.pop("parsed", None)
    (call,) = (item for item in items if item["type"] == "function_call")
    history += [*items, {"type": "function_call_output", "call_id": call["call_id"], "output": "sun"}]
    return json.loads(call["arguments"])["city"]


def messages(client: anthropic.Anthropic, model: str, history: list[Any], streamed: bool) -> str:
    tool: Any = {"name": "get_weather", "input_schema": PARAMETERS}
    question = {"type": "text", "text": f"And at {model}?"}
    if history:
        history[-1]["content"].append(question)
    else:
        history.append({"role": "user", "content": [question]})
    asked: dict[str, Any] = {"model": model, "messages": history, "tools": [tool], "max_tokens": 3000}
    asked["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    if streamed:
        with client.messages.stream(**asked) as stream:
            message: Any = stream.get_final_message()
    else:
        message = client.messages.create(**asked)
    blocks = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in message.content]
    (call,) = (block for block in blocks if block["type"] == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "sun"}
    history += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
    return str(call["input"]["city"])


@pytest.mark.parametrize(("order", "streamed"), list(zip(ORDERS, (False, True, True), strict=True)))
@pytest.mark.parametrize("sdk", ["chat", "responses", "messages"])
def test_a_conversation_goes_on_when_its_model_changes_vendor(
    plane: Plane, sdk: str, order: tuple[str, ...], streamed: bool
) -> None:
    url = f"http://127.0.0.1:{plane.port}"
    history: list[Any] = []
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as ours,
        anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as theirs,
    ):
        for model in order:
            if sdk == "chat":
                said = chat(ours, model, history, streamed)
            elif sdk == "responses":
                said = responses(ours, model, history, streamed)
            else:
                said = messages(theirs, model, history, streamed)
            assert said == model
    for name, (dialect, _, _) in VENDORS.items():
        seen = plane.received(name, PATHS[dialect]) if name in order else []
        for request in seen:
            assert name == "gpt" or SEAL not in request["body"], "sealed reasoning goes only to who sealed it"
            assert name == "claude" or "scripted-sig-" not in request["body"], "so does a signature"
