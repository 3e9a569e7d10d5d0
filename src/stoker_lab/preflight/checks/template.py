"""Is the conversation rendered as the model learned it? By counts, and by the rendered text where it can be had."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from stoker_lab.preflight import filler
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    RequestFailed,
    ask,
    chat_request,
    failed,
    not_applicable,
    passed,
    run_concurrently,
    user_turn,
)
from stoker_lab.preflight.checks.context import per_sentence
from stoker_lab.preflight.wordings import weather_tool
from stoker_lab.requests.client import ModelClient

_MARK = re.compile(r"<\|[^|<>\s]{1,40}\|>|<(?:start|end)_of_turn>|</?s>|<bos>|<eos>")
"""What only stands in a prompt as one special token."""
_BOS = re.compile(r"^(?:<s>|<bos>|<\|begin_of_text\|>|<\|startoftext\|>|<｜begin▁of▁sentence｜>|\[BOS\]|<\|bos\|>)")
_LONGEST, _UNKNOWN = 2048, 1000
"""Tokens of the text that each part of a prompt gets: at most, and where the context is not known."""
_SHORT = 800
"""Characters of the text where a longer description is refused: some clouds take 1,024."""
_MOST, _MARGIN = 0.9, 4
"""Which share of them has to be read, and how many may go where texts meet."""
_SYSTEM, _ASKED, _SAID, _AGAIN = "Be brief and calm.", "First question here.", "First answer here.", "Second question."


def _conversations(ctx: CheckContext) -> dict[str, dict[str, Any]]:
    tool = weather_tool(ctx.wording)
    call = {"id": "call_00001", "type": "function",
            "function": {"name": tool.name, "arguments": '{"city": "Paris"}'}}  # fmt: skip
    turns = [user_turn(_ASKED), {"role": "assistant", "content": _SAID}, user_turn(_AGAIN)]
    called = [user_turn(_ASKED), {"role": "assistant", "content": "", "tool_calls": [call]}]
    result = {"role": "tool", "tool_call_id": "call_00001", "content": '{"temp": 20}'}
    system = {"role": "system", "content": _SYSTEM}
    found: dict[str, dict[str, Any]] = {
        "plain": {"messages": [user_turn(_ASKED)]},
        "system": {"messages": [system, user_turn(_ASKED)]},
        "turns": {"messages": turns},
        "unicode": {"messages": [user_turn(_ASKED + " Größe, naïve, 12,345.678 — «déjà vu»")]},
    }
    if "tools" not in ctx.facts.refused_features:
        found["tools"] = {"messages": [user_turn(_ASKED)], "tools": [tool.chat]}
        found["result"] = {"messages": [*called, result], "tools": [tool.chat]}
    return found


_MORE = (
    ("system", "plain", "a system turn"),
    ("turns", "plain", "more turns"),
    ("unicode", "plain", "more text"),
    ("tools", "plain", "tools"),
    ("result", "tools", "a call and its result"),
)


Fields = Mapping[str, Any]


async def _prompt_tokens(client: ModelClient, ctx: CheckContext, fields: Fields) -> int | None:
    return (await ask(client, ctx, fields["messages"], max_tokens=1, tools=fields.get("tools"))).timing.tokens.input


async def _counts(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. counted at all  2. the same twice  3. more in it counts more  4. as recorded"""
    asked = _conversations(ctx)
    twice = [*asked.values(), *asked.values()]
    found = await run_concurrently(ctx, [partial(_prompt_tokens, client, ctx, fields) for fields in twice])
    first = dict(zip(asked, found[: len(asked)], strict=True))
    if None in found:  # 1
        return failed("none", "usage.prompt_tokens is missing")
    numbers = {name: value for name, value in first.items() if value is not None}
    ctx.prompt_tokens |= numbers
    if found[: len(asked)] != found[len(asked) :]:  # 2
        return failed("differs", "the same prompt counts differently when it is sent again", **numbers)
    for larger, smaller, what in _MORE:  # 3
        if larger in numbers and numbers[larger] <= numbers[smaller]:
            text = f"{what} adds no tokens: {numbers[larger]} against {numbers[smaller]}"
            return failed(f"no-{larger}", text, **numbers)
    counts = ", ".join(f"{name} {value}" for name, value in numbers.items())
    recorded = {name: ctx.baseline[name] for name in numbers if name in ctx.baseline}
    changed = [f"{name} {numbers[name]} instead of {value}" for name, value in recorded.items()
               if value != numbers[name]]  # fmt: skip
    if changed:  # 4
        return failed("changed", f"not as recorded: {', '.join(changed)}", **numbers)
    return passed(f"{counts}{'; as recorded' if recorded else ''}", **numbers)


async def _render(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. it can be had  2. everything is in it, in order  3. ends as an answer begins  4. marks are single tokens
    5. one beginning of sequence  6. a chat of these turns costs what their tokens are"""
    engine, look = ctx.facts.engine, ctx.pages
    turns = [{"role": "system", "content": _SYSTEM}, user_turn(_ASKED), {"role": "assistant", "content": _SAID},
             user_turn(_AGAIN)]  # fmt: skip
    asked = chat_request(ctx, turns, max_tokens=1)
    switch = {name: asked[name] for name in ("chat_template_kwargs",) if name in asked}
    document = (await look.post(f"{engine}/apply-template", {"messages": turns, **switch})).document
    if not isinstance(document, dict) or not isinstance(document.get("prompt"), str):  # 1
        return not_applicable("the engine has no /apply-template; the check prompt-tokens covers some of it")
    prompt: str = document["prompt"]
    places = [prompt.find(text) for text in (_SYSTEM, _ASKED, _SAID, _AGAIN)]
    if places[0] < 0:  # 2
        return failed("system", "the system turn is not in the rendered prompt")
    if min(places) < 0 or places != sorted(places):
        return failed("order", "turns are missing in the rendered prompt, or in another order")
    opening = prompt[places[1] + len(_ASKED) : places[2]]
    tail = prompt[places[3] + len(_AGAIN) :]
    least = min(len(opening), len(tail))
    if not least or opening[: max(1, least // 2)] != tail[: max(1, least // 2)]:  # 3
        return failed("generation", f"it ends with {tail!r}, while answers begin with {opening!r}")
    tokens = await _pieces(ctx, prompt)
    if tokens is None:
        return passed("system, order and ending are right; its tokens are not available")
    for mark in dict.fromkeys(_MARK.findall(prompt)):  # 4
        if not any(piece == mark for piece in tokens):
            return failed("foreign", f"the template writes {mark}, which is not a token of this model")
    begins = 0
    while begins < len(tokens) and _BOS.match(tokens[begins]):
        begins += 1
    if begins > 1:  # 5
        return failed("bos", f"the prompt begins with {begins} times {tokens[0]}")
    counted = (await ask(client, ctx, turns, max_tokens=1)).timing.tokens.input
    if counted is not None and counted != len(tokens):  # 6
        text = f"a chat is counted as {counted} tokens, its rendered prompt is {len(tokens)}"
        why = "count" if abs(counted - len(tokens)) > max(2, 0.05 * len(tokens)) else "usage"
        return failed(why, text, tokens=len(tokens), counted=counted)
    return passed(f"{len(tokens)} tokens; begins {tokens[0]!r}, ends {tail[-24:]!r}", tokens=len(tokens))


async def _pieces(ctx: CheckContext, prompt: str) -> list[str] | None:
    """As the engine itself would read it, its own beginning of sequence included."""
    asked = {"content": prompt, "add_special": True, "parse_special": True, "with_pieces": True}
    document = (await ctx.pages.post(f"{ctx.facts.engine}/tokenize", asked)).document
    tokens = document.get("tokens") if isinstance(document, dict) else None
    if not isinstance(tokens, list) or not all(isinstance(one, dict) and "piece" in one for one in tokens):
        return None
    return [one["piece"] if isinstance(one["piece"], str) else "" for one in tokens]


# -- the whole of each part ------------------------------------------------------------------------------------------


def _with_more(fields: Fields, role: str, text: str) -> dict[str, Any]:
    """The same conversation with the text at the end of the first turn of this role."""
    turns = [dict(turn) for turn in fields["messages"]]
    turn = next(turn for turn in turns if turn["role"] == role)
    if role == "tool":
        turn["content"] = json.dumps({"temp": 20, "note": text})
    else:
        turn["content"] = f"{turn['content']} {text}"
    return {**fields, "messages": turns}


_PLACES = (
    ("system", "system", "a system prompt"),
    ("turns", "user", "an earlier question"),
    ("turns", "assistant", "an earlier answer"),
    ("result", "tool", "a tool's result"),
)
"""A conversation, the role whose turn gets more text, and what that is."""


async def _whole(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """The same text costs in each part of a prompt what it costs in a question."""
    asked = _conversations(ctx)
    text, usual = await _long_text(client, ctx)
    if usual <= 0:
        return _UNCOUNTED
    for name, role, what in _PLACES:
        if name in asked:
            grown = await _growth(client, ctx, name, role, _with_more(asked[name], role, text))
            if grown < _MOST * usual - _MARGIN:
                return _lost(what, grown, usual)
    return passed(f"a text of {usual} tokens is read whole wherever it stands", tokens=usual)


async def _descriptions(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """A long one, and where that is refused a shorter one."""
    text, usual = await _long_text(client, ctx)
    if usual <= 0:
        return _UNCOUNTED
    try:
        return await _description(client, ctx, "description", text, usual)
    except RequestFailed as error:
        if not error.is_refusal:
            raise
    text = text[:_SHORT]
    usual = await _growth(client, ctx, "plain", "short", _with_more(_conversations(ctx)["plain"], "user", text))
    try:
        return await _description(client, ctx, "short-description", text, usual)
    except RequestFailed as error:
        if not error.is_refusal:
            raise
        return not_applicable(f"it refuses long descriptions of tools: {error.reply.error_message[:120]}")


async def _description(client: ModelClient, ctx: CheckContext, where: str, text: str, usual: int) -> CheckResult:
    tool = weather_tool(ctx.wording)
    described = tool._replace(description=f"{tool.description} {text}")
    more = {"messages": [user_turn(_ASKED)], "tools": [described.chat]}
    grown = await _growth(client, ctx, "tools", where, more)
    if grown < _MOST * usual - _MARGIN:
        return _lost("a tool's description", grown, usual)
    return passed(f"a description of {usual} tokens is read whole", tokens=usual)


_UNCOUNTED = not_applicable("usage.prompt_tokens is missing or constant: nothing can be compared")


def _lost(what: str, grown: int, usual: int) -> CheckResult:
    text = f"a text that costs {usual} tokens in a question costs {max(0, grown)} in {what}"
    return failed("dropped" if grown <= _MARGIN else "cut", text, tokens=grown)


async def _long_text(client: ModelClient, ctx: CheckContext) -> tuple[str, int]:
    """A text, and what it costs in a question. It is longer than most limits that something may have."""
    each, _ = await per_sentence(client, ctx)
    most = min(_LONGEST, (ctx.facts.context or 3 * _UNKNOWN) // 3)
    text = " ".join(filler.sentences(ctx.dice("whole"), int(most / each) if each else 0))
    plain = _conversations(ctx)["plain"]
    return text, await _growth(client, ctx, "plain", "user", _with_more(plain, "user", text)) if text else 0


async def _growth(client: ModelClient, ctx: CheckContext, name: str, where: str, more: Fields) -> int:
    """Tokens that this conversation costs more than the fixed one that it was made from. Each is asked once."""
    for key, fields in ((name, _conversations(ctx)[name]), (f"{name}+{where}", more)):
        if key not in ctx.prompt_tokens:
            ctx.prompt_tokens[key] = await _prompt_tokens(client, ctx, fields) or 0
    return ctx.prompt_tokens[f"{name}+{where}"] - ctx.prompt_tokens[name]


def _offers_tools(ctx: CheckContext) -> str:
    refused = ctx.facts.refused_features.get("tools")
    return f"it refuses tools: {refused}" if refused else ""


TEMPLATE = (
    PreflightCheck(
        "prompt-tokens",
        "six fixed conversations cost the tokens they should",
        "a template that costs more with each turn and is wrong all the same (template, --baseline)",
        _counts,
    ),
    PreflightCheck(
        "template",
        "one beginning, system and turns in order, ends where the answer begins",
        "engines that do not render for others; turns with tools",
        _render,
    ),
    PreflightCheck(
        "whole-prompt",
        "a long text is read whole in a system prompt, in earlier turns and in a tool's result",
        "text that is counted and then dropped; parts longer than 2,048 tokens or a third of the context",
        _whole,
    ),
    PreflightCheck(
        "tool-descriptions",
        "what a tool is for reaches the model",
        "descriptions of single parameters; descriptions that are counted and then dropped",
        _descriptions,
        _offers_tools,
    ),
)
