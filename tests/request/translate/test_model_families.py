"""What each Claude and each GPT takes is data: every writer, and what passes through, asks for no more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.domain.dialect import ENDPOINTS, Dialect
from stoker.domain.serve import Serve, Translation
from stoker.exchange.formatter import Formatter
from stoker.request.codec.body_fields import read_body_fields
from stoker.request.translate.neutral.model_families import (
    CLAUDE,
    GPT,
    LEVELS,
    claude_family,
    gpt_family,
    nearest_effort,
)
from stoker.request.translate.neutral.thinking import ThinkingSigner

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
CLAUDES = (
    "claude-3-5-sonnet-20241022", "claude-3-7-sonnet-20250219", "claude-sonnet-4-20250514", "claude-opus-4-1-20250805",
    "claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-4-5", "claude-opus-4-6", "claude-sonnet-4-6",
    "claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5", "claude-opus-5", "claude-sonnet-5-5", "claude-opus-5-5",
    "claude-fable-5", "claude-mythos-5",
)  # fmt: skip
GPTS = (
    "gpt-4o", "gpt-4.1-mini", "o3", "o4-mini", "gpt-5", "gpt-5-mini", "gpt-5.1", "gpt-5.2", "gpt-5.4-pro",
    "gpt-5.2-codex", "gpt-5-chat-latest",
)  # fmt: skip


def sent(
    model: str, serve: Dialect, client: Dialect, fields: dict[str, Any], is_cloud: bool = True
) -> tuple[dict[str, Any], tuple[str, ...]]:
    one = Serve(
        "claude", "openai", dialects=frozenset((serve,)), translation=Translation(cloud=is_cloud), served_name=model
    )
    turns = {"input": "x"} if client is RESPONSES else {"messages": [{"role": "user", "content": "x"}]}
    body = json.dumps({"model": "claude", **turns, **fields}).encode()
    formatter = Formatter(ThinkingSigner((b"key",)), lambda: 0.0)
    request = formatter.format(one, None, ENDPOINTS[client.spec.path], read_body_fields(body), body)
    return json.loads(request.body), request.notes


# -- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4.5", "claude-sonnet-4-5@20250929",
     "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "Claude-Sonnet-4-5"],
)  # fmt: skip
def test_a_claude_is_known_by_every_spelling_of_its_name(model: str) -> None:
    family = claude_family(model)
    assert family is not None
    assert (family.adaptive, family.efforts, family.budget) == (False, (), True)


@pytest.mark.parametrize("model", ["gpt-5", "gpt-5-2025-08-07", "openai/gpt-5", "GPT-5"])
def test_a_gpt_is_known_by_every_spelling_of_its_name(model: str) -> None:
    family = gpt_family(model)
    assert family is not None
    assert family.efforts == ("minimal", "low", "medium", "high")


@pytest.mark.parametrize(
    "model", ["", "mc", "claude", "claude-sonnet-4-55", "claude-haiku-9", "gpt-6", "gpt-oss-20b", "o33"]
)
def test_other_names_are_those_of_new_models(model: str) -> None:
    assert (claude_family(model), gpt_family(model)) == (None, None)


def test_efforts_are_listed_rising() -> None:
    for efforts in [family.efforts for family in CLAUDE] + [family.efforts for family in GPT]:
        assert list(efforts) == sorted(efforts, key=LEVELS.index)


@pytest.mark.parametrize("effort", LEVELS)
@pytest.mark.parametrize("efforts", sorted({family.efforts for family in (*CLAUDE, *GPT)}))
def test_the_nearest_effort_is_one_that_there_is_and_none_only_if_asked_for(
    effort: str, efforts: tuple[str, ...]
) -> None:
    found = nearest_effort(effort, efforts)
    assert found in efforts if efforts else found is None
    assert found != "none" or effort == "none"
    assert nearest_effort(effort, None) == effort


# -- Claude -------------------------------------------------------------------------------------------------------

ADAPTIVE = {"max_tokens": 32_000, "thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}


def is_legal(body: dict[str, Any], model: str) -> None:
    """No more than the table says, and what holds for every Claude."""
    family = claude_family(model)
    assert family is not None
    thinking = body.get("thinking", {"type": ""})
    modes = {"", family.thinking_off} | ({"adaptive"} if family.adaptive else set())
    modes |= {"enabled"} if family.budget else set()
    assert thinking["type"] in modes
    if thinking["type"] == "enabled":
        assert 1024 <= thinking["budget_tokens"] < body["max_tokens"]
    effort = body.get("output_config", {}).get("effort")
    assert effort is None or effort in family.efforts
    assert body["max_tokens"] <= family.most_output
    thinks = thinking["type"] in ("enabled", "adaptive")
    if thinks or not family.sampling:
        assert body.keys().isdisjoint(("temperature", "top_p", "top_k"))
    assert not {"temperature", "top_p"} <= body.keys()


ASKED: list[tuple[Dialect, dict[str, Any]]] = [
    *((CHAT, {"reasoning_effort": effort}) for effort in LEVELS),
    *((RESPONSES, {"reasoning": {"effort": effort}, "max_output_tokens": 200_000}) for effort in LEVELS),
    (CHAT, {"temperature": 0.2, "top_p": 0.9, "top_k": 5}),
    (CHAT, {"temperature": 0.2, "reasoning_effort": "low", "max_tokens": 1500}),
    (CHAT, {"reasoning_effort": "low", "max_tokens": 20}),
    (MESSAGES, ADAPTIVE),
    (MESSAGES, {**ADAPTIVE, "output_config": {"effort": "xhigh"}}),
    (MESSAGES, {**ADAPTIVE, "max_tokens": 2000}),
    (MESSAGES, {**ADAPTIVE, "max_tokens": 500}),
    (MESSAGES, {"max_tokens": 3000, "thinking": {"type": "enabled", "budget_tokens": 2048}}),
    (MESSAGES, {"max_tokens": 3000, "thinking": {"type": "disabled"}}),
    (MESSAGES, {"max_tokens": 1_000_000}),
]


@pytest.mark.parametrize("model", CLAUDES)
@pytest.mark.parametrize(("client", "fields"), ASKED)
def test_no_claude_is_asked_for_what_it_refuses(model: str, client: Dialect, fields: dict[str, Any]) -> None:
    is_legal(sent(model, MESSAGES, client, fields)[0], model)


def test_claude_code_works_with_the_model_of_the_guide() -> None:
    body, words = sent("claude-sonnet-4-5", MESSAGES, MESSAGES, {**ADAPTIVE, "output_config": {"effort": "high"}})
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 16_000}
    assert "output_config" not in body
    assert set(words) == {"lossy:reasoning", "lossy:effort"}


def test_what_a_claude_takes_passes_byte_for_byte() -> None:
    for model in ("claude-opus-4-7", "claude-new-9"):
        fields = {**ADAPTIVE, "output_config": {"effort": "xhigh", "format": {"type": "json_schema", "schema": {}}}}
        body, words = sent(model, MESSAGES, MESSAGES, fields)
        assert ({name: body[name] for name in fields}, words) == (fields, ())


def test_a_budget_becomes_an_effort_where_there_are_no_budgets() -> None:
    fields = {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 8000, "display": "omitted"}}
    body, words = sent("claude-opus-4-7", MESSAGES, MESSAGES, fields)
    assert body["thinking"] == {"type": "adaptive", "display": "omitted"}
    assert (body["output_config"], words) == ({"effort": "medium"}, ("lossy:budget",))


@pytest.mark.parametrize(("model", "turns"), [("claude-sonnet-4-5", 2), ("claude-opus-4-6", 3), ("claude-opus-5", 3)])
def test_an_answer_is_begun_for_a_claude_only_if_it_goes_on_with_it(model: str, turns: int) -> None:
    begun = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "{"}]
    body, words = sent(model, MESSAGES, CHAT, {"messages": begun})
    assert (len(body["messages"]), "lossy:prefill" in words) == (turns, turns == 3)
    assert body["messages"][-1]["role"] == ("user" if turns == 3 else "assistant")


def test_an_older_claude_keeps_its_temperature() -> None:
    body, words = sent("claude-sonnet-4-5", MESSAGES, CHAT, {"temperature": 0.2})
    assert (body["temperature"], [word for word in words if word.startswith("lossy")]) == (0.2, [])


def test_a_local_serve_by_such_a_name_is_none() -> None:
    fields = {**ADAPTIVE, "temperature": 0.5}
    body, words = sent("claude-sonnet-4-5", MESSAGES, MESSAGES, fields, is_cloud=False)
    assert ({name: body[name] for name in fields}, words) == (fields, ())


# -- GPT ----------------------------------------------------------------------------------------------------------

SAMPLED = {"temperature": 0.3, "top_p": 0.9}


@pytest.mark.parametrize("model", GPTS)
@pytest.mark.parametrize("serve", [CHAT, RESPONSES])
@pytest.mark.parametrize("client", [CHAT, RESPONSES])
@pytest.mark.parametrize("effort", [None, *LEVELS])
def test_no_gpt_is_asked_for_what_it_refuses(model: str, serve: Dialect, client: Dialect, effort: str | None) -> None:
    fields: dict[str, Any] = {**SAMPLED}
    if effort is not None:
        fields |= {"reasoning_effort": effort} if client is CHAT else {"reasoning": {"effort": effort}}
    body, _ = sent(model, serve, client, fields)
    family = gpt_family(model)
    assert family is not None
    found = body.get("reasoning_effort") if serve is CHAT else body.get("reasoning", {}).get("effort")
    assert found is None or found in family.efforts
    takes = family.sampling == "always" or (family.sampling == "none" and found in (None, "none"))
    assert ("temperature" in body, "top_p" in body) == (takes, takes)


def test_a_limit_is_called_as_a_thinking_gpt_wants_it() -> None:
    body, words = sent("gpt-5", CHAT, CHAT, {"max_tokens": 50})
    assert (body["max_completion_tokens"], "max_tokens" in body, words) == (50, False, ("repaired:max_tokens",))
    assert sent("gpt-4o", CHAT, CHAT, {"max_tokens": 50})[0]["max_tokens"] == 50


@pytest.mark.parametrize("model", ["gpt-5.4", "some-model"])
def test_what_a_gpt_takes_passes_byte_for_byte(model: str) -> None:
    fields = {"reasoning_effort": "xhigh", "max_completion_tokens": 50, "temperature": 1}
    body, words = sent(model, CHAT, CHAT, fields)
    assert ({name: body[name] for name in fields}, words) == (fields, ())
