"""What Anthropic's API refuses in a single request: fields, names, sampling. The words are nearly its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker_lab.testing.strict import blocks, fields, turns
from stoker_lab.testing.strict.blocks import EXTRA, MISSING, known, unknown
from stoker_lab.testing.strict.rules import Rule, StrictRequest

_LETTERS = re.compile(r"[a-zA-Z0-9_-]+")
_SERVER_TOOL = re.compile(r"[a-z_]+_\d{8}")
_MIN_BUDGET = 1024


def headers(asked: StrictRequest) -> Iterator[str]:
    if not asked.request.header("anthropic-version"):
        yield "anthropic-version: header is required"


def top_level(asked: StrictRequest) -> Iterator[str]:
    there = fields.COUNT if asked.is_count else fields.MESSAGES
    if asked.request.header("anthropic-beta"):
        there |= fields.BETA
    yield from (f"{name}: {EXTRA}" for name in asked.document if name not in there)
    needed = ("model", "messages") if asked.is_count else ("model", "max_tokens", "messages")
    yield from (f"{name}: {MISSING}" for name in needed if name not in asked.document)


def names(asked: StrictRequest) -> Iterator[str]:
    """Of tools at most 128 letters, of calls 200; the API has no known bound for ids."""
    for at, tool in enumerate(asked.document.get("tools", [])):
        if tool.get("type") not in (None, "custom"):
            if not _SERVER_TOOL.fullmatch(str(tool["type"])):
                yield unknown(f"tools.{at}", tool["type"])
            continue
        yield from known(f"tools.{at}.custom", tool, fields.TOOL)
        yield from _name(f"tools.{at}.custom.name", tool["name"], 128)
        schema = tool["input_schema"]
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield f"tools.{at}.custom.input_schema.type: Input should be 'object'"
    given = [str(tool["name"]) for tool in asked.document.get("tools", []) if "name" in tool]
    if len(set(given)) < len(given):
        yield "tools: Tool names must be unique."
    for turn in asked.turns:
        for at, block in enumerate(turn.blocks):
            place = f"messages.{turn.at}.content.{at}.{block['type']}"
            if block["type"] == "tool_use":
                yield from _name(f"{place}.id", block["id"], None)
                yield from _name(f"{place}.name", block["name"], 200)
            if block["type"] == "tool_result":
                yield from _name(f"{place}.tool_use_id", block["tool_use_id"], None)


def sampling(asked: StrictRequest) -> Iterator[str]:
    limit, heat = asked.document.get("max_tokens", 0), asked.document.get("temperature")
    if type(limit) is not int or limit < 0:
        yield "max_tokens: Input should be a whole number of 0 or more"
    if heat is not None and (isinstance(heat, bool) or not isinstance(heat, int | float) or not 0 <= heat <= 1):
        yield "temperature: range: 0..1"
    stops = asked.document.get("stop_sequences") or []
    if not isinstance(stops, list) or not all(isinstance(one, str) and one.strip() for one in stops):
        yield "stop_sequences: each stop sequence must contain non-whitespace"


def thinking(asked: StrictRequest) -> Iterator[str]:
    given, choice = asked.document.get("thinking"), asked.document.get("tool_choice") or {}
    config = given if isinstance(given, dict) else {}
    kind = config.get("type")
    if given is not None and kind not in ("enabled", "adaptive", "disabled"):
        yield unknown("thinking", kind)
    if not isinstance(choice, dict) or choice.get("type", "auto") not in ("auto", "any", "tool", "none"):
        yield "tool_choice: Input should be an object of type auto, any, tool or none"
        return
    if kind not in ("enabled", "adaptive"):
        return
    if choice.get("type") in ("any", "tool"):
        yield "Thinking may not be enabled when tool_choice forces tool use."
    if kind == "enabled":
        yield from _budget(config.get("budget_tokens"), asked)
        yield from turns.starts_with_thinking(asked)
    if asked.document.get("temperature") not in (None, 1):
        yield "`temperature` may only be set to 1 when thinking is enabled."
    if asked.document.get("top_k") is not None:
        yield "`top_k` must be unset when thinking is enabled."


RULES: tuple[Rule, ...] = (
    headers,
    top_level,
    blocks.form,
    blocks.blocks,
    blocks.texts,
    names,
    turns.ids_are_unique,
    turns.calls_are_answered,
    turns.results_have_calls,
    turns.results_come_first,
    turns.signatures_are_ours,
    turns.last_text_ends,
    blocks.images_are_what_they_say,
    sampling,
    thinking,
)


def _name(place: str, name: object, most: int | None) -> Iterator[str]:
    if not isinstance(name, str) or not _LETTERS.fullmatch(name):
        yield f"{place}: String should match pattern '^[a-zA-Z0-9_-]+$'"
    elif most is not None and len(name) > most:
        yield f"{place}: String should have at most {most} characters"


def _budget(budget: object, asked: StrictRequest) -> Iterator[str]:
    if type(budget) is not int or budget < _MIN_BUDGET:
        yield f"thinking.enabled.budget_tokens: Input should be greater than or equal to {_MIN_BUDGET}"
    elif not asked.is_count and asked.document["max_tokens"] <= budget:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."
