"""Each rule of Anthropic's API refuses what breaks it, and lets its right neighbour pass."""

from __future__ import annotations

import base64
from typing import Any, get_args, get_type_hints

import anthropic.types as at
import pytest
from anthropic.types import beta, message_count_tokens_params, message_create_params
from anthropic.types.beta import message_create_params as beta_params
from tests.lab.testing.strictly import COUNT, HELLO, MESSAGES, TEXT, VERSION, changed, hints, refusal, strict

from stoker_lab.testing.dialects.rich_messages import SIGNATURE, minted
from stoker_lab.testing.script.record import RecordedRequest
from stoker_lab.testing.strict import fields
from stoker_lab.testing.strict.messages import RULES
from stoker_lab.testing.strict.rules import StrictRequest, first

CALL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": minted("hm")}
TOOL = {"name": "look", "input_schema": {"type": "object"}}
ENABLED = {"type": "enabled", "budget_tokens": 1024}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
BYTES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\0\0\0\0WEBPVP8 ",
}


def asking(*turns: Any, **more: Any) -> dict[str, Any]:
    given = {"model": "m", "max_tokens": 4096, "messages": list(turns) or [HELLO]} | more
    return {name: value for name, value in given.items() if value is not ...}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def own(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def image(data: str, kind: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


WRONG: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    # what is wrong, a request, what is said to it, its right neighbour
    ("no max_tokens", asking(max_tokens=...), "max_tokens: Field required", asking(max_tokens=0)),
    ("no model", asking(model=...), "model: Field required", asking()),
    ("unknown field", asking(n=1), "n: Extra inputs", asking(top_k=1, metadata={"user_id": "u"})),
    ("beta field", asking(context_management={}), "context_management: Extra inputs", asking(output_config={})),
    ("no messages", asking(messages=[]), "at least one message", asking()),
    ("messages are text", asking(messages="hello"), "at least one message", asking()),
    ("role", asking({"role": "tool", "content": "x"}), "messages.0.role",
     asking(HELLO, {"role": "system", "content": "x"})),
    ("field of a message", asking(HELLO | {"name": "x"}), "messages.0.name: Extra", asking(HELLO)),
    ("no content", asking({"role": "user"}), "messages.0.content: Input should", asking(HELLO)),
    ("untyped block", asking(user({"text": "x"})), "object with a `type`", asking(user(TEXT))),
    ("unknown block", asking(user({"type": "image_url"})), "messages.0.content.0: Input tag 'image_url'",
     asking(user(TEXT))),
    ("field of a block", asking(user(TEXT | {"id": 1})), "content.0.text.id: Extra",
     asking(user(TEXT | {"citations": None}))),
    ("missing in a block", asking(user({"type": "text"})), "content.0.text.text: Field required", asking(user(TEXT))),
    ("block in a system turn", asking(HELLO, {"role": "system", "content": [CALL]}), "messages.1.content.0: Input tag",
     asking(HELLO, {"role": "system", "content": [TEXT]})),
    ("call by the user", asking(user(CALL)), "`tool_use` blocks can only be in `assistant`",
     asking(HELLO, own(CALL), user(RESULT))),
    ("result by the model", asking(HELLO, own(CALL), own(RESULT)), "can only be in `user`",
     asking(HELLO, own(CALL), user(RESULT))),
    ("input is text", asking(HELLO, own(CALL | {"input": "{}"}), user(RESULT)), "tool_use.input: Input should",
     asking(HELLO, own(CALL | {"input": {"a": 1}}), user(RESULT))),
    ("block in a result",
     asking(HELLO, own(CALL), user(RESULT | {"content": [CALL]})), "tool_result.content.0: Input tag",
     asking(HELLO, own(CALL), user(RESULT | {"content": [TEXT]}))),
    ("empty text", asking(user(TEXT | {"text": ""})), "text content blocks must be non-empty", asking(user(TEXT))),
    ("blank text", asking(user(TEXT | {"text": " \n"})), "non-whitespace text", asking(user(TEXT | {"text": " a"}))),
    ("empty text in a result", asking(HELLO, own(CALL), user(RESULT | {"content": [TEXT | {"text": ""}]})), "non-empty",
     asking(HELLO, own(CALL), user(RESULT | {"content": []}))),
    ("empty system", asking(system=[TEXT | {"text": ""}]), "system: text content blocks", asking(system=[TEXT])),
    ("empty turn", asking({"role": "user", "content": ""}), "non-empty content",
     asking(HELLO, {"role": "assistant", "content": ""})),
    ("empty turn of blocks", asking(HELLO, own(), HELLO), "non-empty content", asking(HELLO, own(TEXT), HELLO)),
    ("blank at the end", asking(HELLO, own(TEXT | {"text": "so "})), "trailing whitespace", asking(HELLO, own(TEXT))),
    ("blank stop", asking(stop_sequences=["END", "\n"]), "non-whitespace", asking(stop_sequences=["END"])),
    ("empty stop", asking(stop_sequences=[""]), "non-whitespace", asking(stop_sequences=[])),
    ("temperature", asking(temperature=1.5), "temperature: range", asking(temperature=1)),
    ("negative limit", asking(max_tokens=-1), "max_tokens: Input should", asking(max_tokens=1)),
    ("no result", asking(HELLO, own(CALL), user(TEXT)), "messages.1: `tool_use` ids were found without `tool_result`",
     asking(HELLO, own(CALL), user(RESULT, TEXT))),
    ("no turn after a call", asking(HELLO, own(CALL)), "immediately after: toolu_1", asking(HELLO, own(TEXT))),
    ("result in the turn after the next", asking(HELLO, own(CALL), user(TEXT), user(RESULT)), "immediately after",
     asking(HELLO, own(CALL), user(RESULT), user(TEXT))),
    ("something between",
     asking(HELLO, own(CALL), {"role": "system", "content": "x"}, user(RESULT)), "immediately after",
     asking(HELLO, own(CALL), user(RESULT), {"role": "system", "content": "x"})),
    ("one of two results", asking(HELLO, own(CALL, CALL | {"id": "b"}), user(RESULT)), "immediately after: b",
     asking(HELLO, own(CALL, CALL | {"id": "b"}), user(RESULT, RESULT | {"tool_use_id": "b"}))),
    ("orphan result", asking(user(RESULT)), "messages.0.content.0: unexpected `tool_use_id`",
     asking(HELLO, own(CALL), user(RESULT))),
    ("result twice", asking(HELLO, own(CALL), user(RESULT, RESULT)), "must have a single result",
     asking(HELLO, own(CALL), user(RESULT))),
    ("result not first", asking(HELLO, own(CALL), user(TEXT, RESULT)), "must come first",
     asking(HELLO, own(CALL), user(RESULT, TEXT))),
    ("id twice", asking(HELLO, own(CALL, CALL), user(RESULT)), "ids must be unique",
     asking(HELLO, own(CALL), user(RESULT))),
    ("letters of an id", asking(HELLO, own(CALL | {"id": "f.x:0"}), user(RESULT | {"tool_use_id": "f.x:0"})),
     "tool_use.id: String should match",
     asking(HELLO, own(CALL | {"id": "f-x_0"}), user(RESULT | {"tool_use_id": "f-x_0"}))),
    ("long name of a call", asking(HELLO, own(CALL | {"name": "f" * 201}), user(RESULT)), "at most 200",
     asking(HELLO, own(CALL | {"name": "f" * 200}), user(RESULT))),
    ("letters of a tool", asking(tools=[TOOL | {"name": "a.b"}]), "tools.0.custom.name: String should match",
     asking(tools=[TOOL | {"name": "a-b"}])),
    ("long name of a tool", asking(tools=[TOOL | {"name": "f" * 129}]), "at most 128",
     asking(tools=[TOOL | {"name": "f" * 128}])),
    ("tool of another dialect", asking(tools=[{"type": "function", "function": {}}]), "tools.0: Input tag 'function'",
     asking(tools=[{"type": "web_search_20250305", "name": "web_search"}])),
    ("field of a tool", asking(tools=[TOOL | {"parameters": {}}]), "custom.parameters: Extra", asking(tools=[TOOL])),
    ("schema is no object", asking(tools=[TOOL | {"input_schema": {}}]), "input_schema.type", asking(tools=[TOOL])),
    ("tool twice", asking(tools=[TOOL, TOOL]), "names must be unique", asking(tools=[TOOL, TOOL | {"name": "tell"}])),
    ("tools are no list", asking(tools=TOOL), "tools: Input should", asking(tools=[])),
    ("other's signature", asking(HELLO, own(THOUGHT | {"signature": "c2ln"}, TEXT), HELLO),
     "messages.1.content.0: Invalid `signature` in `thinking` block", asking(HELLO, own(THOUGHT, TEXT), HELLO)),
    ("changed thinking", asking(HELLO, own(THOUGHT | {"thinking": "changed"}, TEXT), HELLO), "Invalid `signature`",
     asking(HELLO, own(THOUGHT | {"signature": f"{SIGNATURE}of-a-script"}, TEXT), HELLO)),
    ("forced with thinking", asking(tools=[TOOL], thinking=ENABLED, tool_choice={"type": "any"}), "tool_choice forces",
     asking(tools=[TOOL], thinking=ENABLED, tool_choice={"type": "auto"})),
    ("forced with adaptive",
     asking(tools=[TOOL], thinking={"type": "adaptive"}, tool_choice={"type": "tool", "name": "look"}),
     "tool_choice forces",
     asking(tools=[TOOL], thinking={"type": "disabled"}, tool_choice={"type": "tool", "name": "look"})),
    ("choice of another dialect", asking(tool_choice="required"), "tool_choice: Input should",
     asking(tool_choice={"type": "none"})),
    ("unknown thinking", asking(thinking={"type": "on"}), "thinking: Input tag 'on'",
     asking(thinking={"type": "adaptive"})),
    ("small budget", asking(thinking=ENABLED | {"budget_tokens": 1023}), "greater than or equal to 1024",
     asking(thinking=ENABLED)),
    ("large budget", asking(thinking=ENABLED, max_tokens=1024), "must be greater than",
     asking(thinking=ENABLED, max_tokens=1025)),
    ("temperature with thinking", asking(thinking=ENABLED, temperature=0), "only be set to 1",
     asking(thinking=ENABLED, temperature=1)),
    ("top_k with thinking", asking(thinking=ENABLED, top_k=4), "`top_k` must be unset", asking(top_k=4)),
    ("thinking not brought back", asking(HELLO, own(CALL), user(RESULT), thinking=ENABLED), "Expected `thinking`",
     asking(HELLO, own(THOUGHT, CALL), user(RESULT), thinking=ENABLED)),
    ("no such source", asking(user({"type": "image", "source": {"type": "path"}})), "image.source: Input tag 'path'",
     asking(user({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}))),
    ("no such image", asking(user(image(PNG, "image/bmp"))), "media_type: Input should",
     asking(user(image(PNG, "image/png")))),
    ("no image at all", asking(user(image("AAAA" * 9, "image/png"))), "Could not process",
     asking(user(image(PNG, "image/png")))),
    ("a data URI", asking(user(image(f"data:image/png;base64,{PNG}", "image/png"))), "Could not process",
     asking(user(image(PNG, "image/png")))),
    ("image in a result",
     asking(HELLO, own(CALL), user(RESULT | {"content": [image(PNG, "image/gif")]})), "appears to be",
     asking(HELLO, own(CALL), user(RESULT | {"content": [image(PNG, "image/png")]}))),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "says", "right"), [one[1:] for one in WRONG], ids=[one[0] for one in WRONG])
async def test_anthropics_rules(wrong: dict[str, Any], says: str, right: dict[str, Any]) -> None:
    assert says in (await refusal(MESSAGES, wrong) or "")
    assert await refusal(MESSAGES, right) is None


@pytest.mark.parametrize("said", BYTES)
@pytest.mark.parametrize("real", BYTES)
async def test_an_image_is_what_it_says(said: str, real: str) -> None:
    body = asking(user(image(base64.b64encode(BYTES[real] + bytes(16)).decode(), said)))
    found = await refusal(MESSAGES, body)
    assert found == (
        None
        if said == real
        else "messages.0.content.0.image.source.base64: The image was specified using the"
        f" {said} media type, but the image appears to be a {real} image"
    )


@pytest.mark.parametrize("path", [MESSAGES, COUNT])
async def test_the_version_is_wanted(path: str) -> None:
    body = asking(max_tokens=... if path == COUNT else 9)
    assert await refusal(path, body, {}) == "anthropic-version: header is required"
    assert await refusal(path, body) is None


async def test_a_count_wants_no_limit_and_keeps_the_other_rules() -> None:
    assert await refusal(COUNT, asking(max_tokens=...)) is None
    assert await refusal(COUNT, asking()) == "max_tokens: Extra inputs are not permitted"
    assert await refusal(COUNT, asking(max_tokens=..., thinking=ENABLED)) is None
    assert "orphan" not in (await refusal(COUNT, asking(user(RESULT), max_tokens=...)) or "orphan")


async def test_beta_fields_and_blocks_want_a_header() -> None:
    body = asking(HELLO, own({"type": "compaction", "content": "x"}, TEXT), HELLO, context_management={})
    assert await refusal(MESSAGES, body) is not None
    assert await refusal(MESSAGES, body, VERSION | {"anthropic_beta": "context-management-2025-06-27"}) is None
    assert await refusal(f"{MESSAGES}?beta=true", asking()) is None


@pytest.mark.parametrize("header", [{"x_api_key": "k"}, {"authorization": "Bearer k"}])
async def test_a_key_is_wanted_in_either_header(header: dict[str, str]) -> None:
    async with strict(api_key="k") as client:
        assert (await client.ask("POST", MESSAGES, asking(), **VERSION, **header)).status == 200
        refused = await client.ask("POST", MESSAGES, asking(), **VERSION, **dict.fromkeys(header, "other"))
    assert (refused.status, refused.json()["error"]["type"]) == (401, "authentication_error")


async def test_what_the_server_thinks_it_takes_back() -> None:
    answers = [{"blocks": [{"type": "thinking", "text": "hm"}, {"type": "call", "name": "look"}]}, {"blocks": [TEXT]}]
    async with strict(answers=answers) as client:
        first = (await client.ask("POST", MESSAGES, asking(thinking=ENABLED), **VERSION)).json()
        result = RESULT | {"tool_use_id": first["content"][1]["id"]}
        body = asking(HELLO, own(*first["content"]), user(result), thinking=ENABLED)
        assert (await client.ask("POST", MESSAGES, body, **VERSION)).json()["content"] == [TEXT]


def test_the_fields_are_those_of_anthropics_sdk() -> None:
    create = message_create_params.MessageCreateParamsStreaming
    assert hints(create) | {"temperature", "top_k", "top_p"} == fields.MESSAGES
    assert hints(message_count_tokens_params.MessageCountTokensParams) == fields.COUNT
    assert hints(beta_params.MessageCreateParamsStreaming) - hints(create) - {"betas"} == fields.BETA
    assert hints(at.ToolParam) == set(" ".join(fields.TOOL).split())


def test_the_blocks_are_those_of_anthropics_sdk() -> None:
    found = {get_args(get_type_hints(one)["type"])[0]: hints(one) for one in get_args(at.ContentBlockParam)}
    assert {name: set(" ".join(both).split()) | {"type"} for name, both in fields.BLOCKS.items()} == found
    more = [one for one in get_args(beta.BetaContentBlockParam) if isinstance(one, type)]
    assert {get_args(get_type_hints(one)["type"])[0] for one in more} - set(found) == fields.BETA_BLOCKS


def test_an_odd_request_is_refused_or_not_but_never_fails() -> None:
    whole = asking(
        *(HELLO, own(THOUGHT, CALL), user(RESULT | {"content": [TEXT]}, image(PNG, "image/png"))),
        tools=[TOOL],
        thinking=ENABLED,
        tool_choice={"type": "auto"},
        system=[TEXT],
        stop_sequences=["a"],
        temperature=1,
    )
    for body in (whole, *changed(whole)):
        asked = StrictRequest(body, RecordedRequest("POST", "/", (("anthropic-version", "2023-06-01"),), b""))
        assert isinstance(first(RULES, asked), str | None)
    assert first(RULES, StrictRequest(whole, asked.request)) is None
