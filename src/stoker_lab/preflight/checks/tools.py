"""Tools: called when they should be, with arguments that fit, in every way that clients ask for it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from stoker.domain.prompt import ToolCall
from stoker_lab.json_schema import schema_violation
from stoker_lab.preflight import text_damage, wire_flaws
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    ask,
    failed,
    is_rate_below,
    passed,
    quoted,
    run_concurrently,
    user_turn,
)
from stoker_lab.preflight.wordings import OfferedTool, ToolQuestion, weather_tool
from stoker_lab.requests.client import ModelClient, ModelReply

BATCH = 8
_COUNTED_ID = re.compile(r"(?:functions\.\w+:)?\d+$")
"""The ids of models that count the calls of a conversation (Kimi K2, Command R7B): the same in each first answer."""
_NAMED = ("index", "ids", "id", "object", "double", "finish")
"""Flaws that keep their name even if only the stream has them."""


def call_flaw(reply: ModelReply, tools: Sequence[OfferedTool], wanted: int = 1) -> tuple[str, str]:
    """(why, sentence) of what is wrong with the form of the calls; ("", ""): nothing."""
    if text_damage.SPECIAL.search(reply.text) is not None or (not reply.calls and '"arguments"' in reply.text):
        return "text", f"the call came as text: {quoted(reply.text)}"
    if (found := wire_flaws.call_flaw(reply))[0]:
        return found
    if not reply.calls:
        return "none", f"no call came, but {quoted(reply.text)}"
    if len(reply.calls) < wanted:
        return "few", f"{len(reply.calls)} call instead of {wanted}"
    by_name = {tool.name: tool for tool in tools}
    for call in reply.calls:
        if call.name not in by_name:
            return "name", f"it called {call.name!r}, which the request did not offer"
        arguments = parsed(call)
        if not isinstance(arguments, dict):
            kind = "double" if isinstance(arguments, str) else "broken"
            return kind, f"the arguments are not a JSON object: {quoted(call.arguments)}"
        if bad := schema_violation(arguments, by_name[call.name].schema, "arguments"):
            return "schema", bad
    if (finish := wire_flaws.finish_reason(reply)) != "tool_calls":
        return "finish", f"the finish reason after a call is {finish!r}"
    return "", ""


def parsed(call: ToolCall) -> Any:
    """None: no JSON."""
    try:
        return json.loads(call.arguments)
    except ValueError:
        return None


def is_right(reply: ModelReply, name: str, arguments: Mapping[str, Any]) -> bool:
    return [(call.name, parsed(call)) for call in reply.calls] == [(name, dict(arguments))]


async def _asked(client: ModelClient, ctx: CheckContext, cases: Sequence[ToolQuestion], **fields: Any) -> CheckResult:
    """Each case streamed and not: form always right (zero failures), values as a rate, both ways the same."""
    both = [partial(ask, client, ctx, case.question, stream=stream, tools=[tool.chat for tool in case.tools], **fields)
            for case in cases for stream in (False, True)]  # fmt: skip
    replies = await run_concurrently(ctx, both)
    right, ignored = 0, list[str]()
    for at, one in enumerate(replies):
        case, way = cases[at // 2], "streamed" if at % 2 else "not streamed"
        why, sentence = call_flaw(one, case.tools)
        if why == "none" and len(cases) > 1 and not replies[at - at % 2].calls and one.text.strip():
            ignored.append(sentence)  # some models do without the tool now and then
            continue
        if why:
            if at % 2 and why not in _NAMED and not call_flaw(replies[at - 1], case.tools)[0]:
                why = "stream"
            return failed(why, f"{way}: {sentence}", passed=right, n=len(replies))
        right += is_right(one, case.name, case.arguments)
    for whole, flow in zip(replies[::2], replies[1::2], strict=True):
        if [(c.name, parsed(c)) for c in whole.calls] != [(c.name, parsed(c)) for c in flow.calls]:
            return failed("stream", "the same question gives another call when it is streamed", n=len(replies))
    numbers = {"passed": right, "n": len(replies)}
    if is_rate_below(right, len(replies), 0.8):
        if len(ignored) == len(replies):
            return failed("none", ignored[0], **numbers)
        return failed("values", f"{right} of {len(replies)} calls had the right tool and values", **numbers)
    return passed(f"{right} of {len(replies)} right, streamed and not", **numbers)


def _weather(ctx: CheckContext, city: str) -> ToolQuestion:
    tool = weather_tool(ctx.wording)
    return ToolQuestion(ctx.wording.weather.format(city=city), (tool,), tool.name, {"city": city})


async def _single(client: ModelClient, ctx: CheckContext) -> CheckResult:
    cities = ctx.dice("single").sample(ctx.wording.cities, 2)
    return await _asked(client, ctx, [*(_weather(ctx, city) for city in cities), *ctx.wording.singles])


async def _batch(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """All at once, whatever the limit is elsewhere: each its own city."""
    cities = ctx.dice("batch").sample(ctx.wording.cities, BATCH)
    cases = [_weather(ctx, city) for city in cities]
    replies = await run_concurrently(
        ctx,
        [partial(ask, client, ctx, case.question, stream=bool(at % 2), tools=[tool.chat for tool in case.tools])
         for at, case in enumerate(cases)],
        at_once=BATCH,
    )  # fmt: skip
    right = 0
    for case, one in zip(cases, replies, strict=True):
        why, sentence = call_flaw(one, case.tools)
        if why:
            return failed(why, f"in a batch of {BATCH}: {sentence}", passed=right, n=BATCH)
        right += is_right(one, case.name, case.arguments)
    ids = {call.id for one in replies for call in one.calls[:1]}
    if len(ids) == 1 and not _COUNTED_ID.match(next(iter(ids))):
        return failed("constant", f"the calls of {BATCH} answers all have the id {next(iter(ids))!r}", n=BATCH)
    if is_rate_below(right, BATCH, 0.8):
        return failed("values", f"in a batch of {BATCH}: {right} calls had the right city", passed=right, n=BATCH)
    return passed(f"{right} of {BATCH} right, all at once", passed=right, n=BATCH)


async def _parallel(client: ModelClient, ctx: CheckContext) -> CheckResult:
    one, two = ctx.dice("parallel").sample(ctx.wording.cities, 2)
    tool = weather_tool(ctx.wording)
    asked = ctx.wording.parallel.format(one=one, two=two)
    asks = [partial(ask, client, ctx, asked, stream=s, tools=[tool.chat], parallel_tool_calls=True)
            for s in (False, True)]  # fmt: skip
    replies = await run_concurrently(ctx, asks)
    for found in replies:
        why, sentence = call_flaw(found, [tool], wanted=2)
        if why:
            return failed(why, sentence)
        if {str(parsed(call)["city"]) for call in found.calls} != {one, two}:
            return failed("values", f"the calls are for {[parsed(call) for call in found.calls]}, not {one} and {two}")
    return passed("two calls in one answer, streamed and not")


async def _abstain(client: ModelClient, ctx: CheckContext) -> CheckResult:
    tools = [tool.chat for tool in ctx.wording.named.tools]
    asked = [partial(ask, client, ctx, text, stream=s, tools=tools)
             for text in ctx.wording.abstains for s in (False, True)]  # fmt: skip
    replies = await run_concurrently(ctx, asked)
    calls = sum(bool(one.calls) for one in replies)
    if is_rate_below(len(replies) - calls, len(replies), 0.8):
        return failed("called", f"{calls} of {len(replies)} questions that need no tool got a call", n=len(replies))
    return passed(f"{len(replies) - calls} of {len(replies)} answered without a call", n=len(replies))


async def _required(client: ModelClient, ctx: CheckContext) -> CheckResult:
    city = ctx.dice("required").choice(ctx.wording.cities)
    return await _asked(client, ctx, [_weather(ctx, city)], tool_choice="required")


async def _named(client: ModelClient, ctx: CheckContext) -> CheckResult:
    case = ctx.wording.named
    choice = {"type": "function", "function": {"name": case.name}}
    return await _asked(client, ctx, [case], tool_choice=choice)


async def _none(client: ModelClient, ctx: CheckContext) -> CheckResult:
    case = ctx.wording.named
    tools = [tool.chat for tool in case.tools]
    asks = [partial(ask, client, ctx, case.question, stream=s, tools=tools, tool_choice="none")
            for s in (False, True)]  # fmt: skip
    replies = await run_concurrently(ctx, asks)
    gap = ctx.wording.known_gaps.get("tool-none: text", "")
    for one in replies:
        if one.calls:
            return failed("called", "tool_choice none, and it called a tool")
        if text_damage.leaked_token(one.text) and not gap:
            return failed("text", f"tool_choice none, and a call came as text: {quoted(one.text)}")
    if gap:
        return passed(f"no call, streamed and not; text that looks like one is let pass: {gap}")
    return passed("text alone, streamed and not")


async def _bare(client: ModelClient, ctx: CheckContext) -> CheckResult:
    case = ctx.wording.bare
    asks = [partial(ask, client, ctx, case.question, stream=s, tools=[tool.chat for tool in case.tools])
            for s in (False, True)]  # fmt: skip
    replies = await run_concurrently(ctx, asks)
    for one in replies:
        if one.calls and one.calls[0].arguments.strip() in ("", "null", '""'):
            return failed("empty", f"the arguments are {one.calls[0].arguments!r}, not {{}}")
        why, sentence = call_flaw(one, case.tools)
        if why:
            return failed(why, sentence)
        if parsed(one.calls[0]) != {}:
            return failed("values", f"a tool without parameters got {quoted(one.calls[0].arguments)}")
    return passed("arguments are {}, streamed and not")


async def _round_trip(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """The result as text and as a list of parts, and in the other dialect; the answer must tell what only it says."""
    tool, dice = weather_tool(ctx.wording), ctx.dice("round trip")
    wrong = []
    for form in ("text", "list", "messages"):
        if form == "messages" and ctx.messages is None:
            continue
        city, degrees = dice.choice(ctx.wording.cities), dice.randint(11, 39)
        tool_result = ctx.wording.tool_result.format(degrees=degrees)
        asked = ctx.wording.weather.format(city=city)
        if form == "messages":
            reply = await _ask_in_messages(ctx, tool, asked, city, tool_result)
        else:
            call = {"id": "call_a1b2c3", "type": "function",
                    "function": {"name": tool.name, "arguments": json.dumps({"city": city})}}  # fmt: skip
            content: Any = tool_result if form == "text" else [{"type": "text", "text": tool_result}]
            turns = [user_turn(asked), {"role": "assistant", "content": "", "tool_calls": [call]},
                     {"role": "tool", "tool_call_id": "call_a1b2c3", "content": content}]  # fmt: skip
            reply = await ask(client, ctx, turns, tools=[tool.chat])
        if str(degrees) not in reply.text:
            wrong.append(f"{form}: {quoted(reply.text or reply.timing.failure)} does not tell {degrees}")
    if wrong:
        return failed("lost", "; ".join(wrong))
    return passed("the answer tells what the tool said, however the result was written")


async def _ask_in_messages(ctx: CheckContext, tool: OfferedTool, asked: str, city: str, tool_result: str) -> ModelReply:
    if ctx.messages is None:
        raise ValueError("the serve does not speak the Messages API")
    use = {"type": "tool_use", "id": "toolu_a1b2c3", "name": tool.name, "input": {"city": city}}
    result = {"type": "tool_result", "tool_use_id": "toolu_a1b2c3", "content": tool_result}
    turns = [user_turn(asked), {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    offered = {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
    asked_for = {"messages": turns, "tools": [offered], "max_tokens": ctx.wording.limit, "temperature": 0}
    return await ctx.messages.ask(asked_for)


def _has_tools(ctx: CheckContext) -> str:
    if "tools" in ctx.facts.refused_features:
        return f"it refuses tools: {ctx.facts.refused_features['tools']}"
    template = ctx.facts.props.get("chat_template")
    if isinstance(template, str) and template and "tool" not in template:
        return "its chat template knows no tools"
    return ""


TOOLS = (
    PreflightCheck(
        "tool-single",
        "the right call with arguments that fit, streamed and not the same",
        "calls that are well-formed and unwise; a fault that only other tools or long arguments show",
        _single,
        _has_tools,
    ),
    PreflightCheck(
        "tool-batch",
        "eight calls at once, each its own",
        "more than eight calls at once",
        _batch,
        _has_tools,
    ),
    PreflightCheck(
        "tool-parallel",
        "two calls in one answer",
        "three or more calls in one answer; a model that never calls two",
        _parallel,
        _has_tools,
    ),
    PreflightCheck(
        "tool-abstain",
        "no call where none is needed",
        "calls that are not needed in longer conversations",
        _abstain,
        _has_tools,
    ),
    PreflightCheck(
        "tool-required",
        "tool_choice required gives a call",
        "tools that do not fit the question",
        _required,
        _has_tools,
    ),
    PreflightCheck(
        "tool-named",
        "a tool chosen by name is called",
        "a choice that is not the obvious one",
        _named,
        _has_tools,
    ),
    PreflightCheck(
        "tool-none",
        "tool_choice none gives text",
        "a tool chosen later in the conversation; a model that would not have called one anyway",
        _none,
        _has_tools,
    ),
    PreflightCheck(
        "tool-bare",
        "a tool without parameters gets {}",
        "tools whose parameters are all optional",
        _bare,
        _has_tools,
    ),
    PreflightCheck(
        "tool-round-trip",
        "a tool's result reaches the answer",
        "results that are long, not text, or several",
        _round_trip,
        _has_tools,
    ),
)
