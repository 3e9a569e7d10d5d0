"""Tools: called when they should be, with arguments that fit, in every way that clients ask for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from stoker.domain.prompt import Call
from stoker.measure.json_schema import schema_violation
from stoker.measure.preflight import text_damage, wire_flaws
from stoker.measure.preflight.check import (
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
from stoker.measure.preflight.wordings import OfferedTool, ToolQuestion, weather_tool
from stoker.measure.requests.client import ModelClient, ModelReply

BATCH = 8
_NAMED = ("index", "ids", "id", "object", "double", "finish")
"""What is told as it is, also where only the stream has it."""


def call_flaw(heard: ModelReply, tools: Sequence[OfferedTool], wanted: int = 1) -> tuple[str, str]:
    """(why, sentence) of what is wrong with the form of the calls; ("", ""): nothing."""
    if text_damage.SPECIAL.search(heard.text) is not None or (not heard.calls and '"arguments"' in heard.text):
        return "text", f"the call came as text: {quoted(heard.text)}"
    if (found := wire_flaws.call_flaw(heard))[0]:
        return found
    if not heard.calls:
        return "none", f"no call came, but {quoted(heard.text)}"
    if len(heard.calls) < wanted:
        return "few", f"{len(heard.calls)} call instead of {wanted}"
    by_name = {tool.name: tool for tool in tools}
    for call in heard.calls:
        if call.name not in by_name:
            return "name", f"it called {call.name!r}, which nobody offered"
        arguments = parsed(call)
        if not isinstance(arguments, dict):
            kind = "double" if isinstance(arguments, str) else "broken"
            return kind, f"the arguments are no JSON object: {quoted(call.arguments)}"
        if bad := schema_violation(arguments, by_name[call.name].schema, "arguments"):
            return "schema", bad
    if (finish := wire_flaws.finish_reason(heard)) != "tool_calls":
        return "finish", f"the finish reason after a call is {finish!r}"
    return "", ""


def parsed(call: Call) -> Any:
    """None: no JSON."""
    try:
        return json.loads(call.arguments)
    except ValueError:
        return None


def is_right(heard: ModelReply, name: str, arguments: Mapping[str, Any]) -> bool:
    return [(call.name, parsed(call)) for call in heard.calls] == [(name, dict(arguments))]


async def _asked(talk: ModelClient, about: CheckContext, cases: Sequence[ToolQuestion], **fields: Any) -> CheckResult:
    """Each case streamed and not: form always right (zero failures), values as a rate, both ways the same."""
    both = [partial(ask, talk, about, case.asked, stream=stream, tools=[tool.chat for tool in case.tools], **fields)
            for case in cases for stream in (False, True)]  # fmt: skip
    heard = await run_concurrently(about, both)
    right, ignored = 0, list[str]()
    for at, one in enumerate(heard):
        case, way = cases[at // 2], "streamed" if at % 2 else "not streamed"
        why, sentence = call_flaw(one, case.tools)
        if why == "none" and len(cases) > 1 and not heard[at - at % 2].calls and one.text.strip():
            ignored.append(sentence)  # some models do without the tool now and then
            continue
        if why:
            if at % 2 and why not in _NAMED and not call_flaw(heard[at - 1], case.tools)[0]:
                why = "stream"
            return failed(why, f"{way}: {sentence}", passed=right, n=len(heard))
        right += is_right(one, case.name, case.arguments)
    for whole, flow in zip(heard[::2], heard[1::2], strict=True):
        if [(c.name, parsed(c)) for c in whole.calls] != [(c.name, parsed(c)) for c in flow.calls]:
            return failed("stream", "the same question gives another call when it is streamed", n=len(heard))
    numbers = {"passed": right, "n": len(heard)}
    if is_rate_below(right, len(heard), 0.8):
        if len(ignored) == len(heard):
            return failed("none", ignored[0], **numbers)
        return failed("values", f"{right} of {len(heard)} calls had the right tool and values", **numbers)
    return passed(f"{right} of {len(heard)} right, streamed and not", **numbers)


def _weather(about: CheckContext, city: str) -> ToolQuestion:
    tool = weather_tool(about.wording)
    return ToolQuestion(about.wording.weather.format(city=city), (tool,), tool.name, {"city": city})


async def _single(talk: ModelClient, about: CheckContext) -> CheckResult:
    cities = about.dice("single").sample(about.wording.cities, 2)
    return await _asked(talk, about, [*(_weather(about, city) for city in cities), *about.wording.singles])


async def _batch(talk: ModelClient, about: CheckContext) -> CheckResult:
    """All at once, whatever the limit is elsewhere: each its own city."""
    cities = about.dice("batch").sample(about.wording.cities, BATCH)
    cases = [_weather(about, city) for city in cities]
    heard = await run_concurrently(
        about,
        [partial(ask, talk, about, case.asked, stream=bool(at % 2), tools=[tool.chat for tool in case.tools])
         for at, case in enumerate(cases)],
        at_once=BATCH,
    )  # fmt: skip
    right = 0
    for case, one in zip(cases, heard, strict=True):
        why, sentence = call_flaw(one, case.tools)
        if why:
            return failed(why, f"in a batch of {BATCH}: {sentence}", passed=right, n=BATCH)
        right += is_right(one, case.name, case.arguments)
    if is_rate_below(right, BATCH, 0.8):
        return failed("values", f"in a batch of {BATCH}: {right} calls had the right city", passed=right, n=BATCH)
    return passed(f"{right} of {BATCH} right, all at once", passed=right, n=BATCH)


async def _parallel(talk: ModelClient, about: CheckContext) -> CheckResult:
    one, two = about.dice("parallel").sample(about.wording.cities, 2)
    tool = weather_tool(about.wording)
    asked = about.wording.parallel.format(one=one, two=two)
    asks = [partial(ask, talk, about, asked, stream=s, tools=[tool.chat], parallel_tool_calls=True)
            for s in (False, True)]  # fmt: skip
    heard = await run_concurrently(about, asks)
    for found in heard:
        why, sentence = call_flaw(found, [tool], wanted=2)
        if why:
            return failed(why, sentence)
        if {str(parsed(call)["city"]) for call in found.calls} != {one, two}:
            return failed("values", f"the calls are for {[parsed(call) for call in found.calls]}, not {one} and {two}")
    return passed("two calls in one answer, streamed and not")


async def _abstain(talk: ModelClient, about: CheckContext) -> CheckResult:
    tools = [tool.chat for tool in about.wording.named.tools]
    asked = [partial(ask, talk, about, text, stream=s, tools=tools)
             for text in about.wording.abstains for s in (False, True)]  # fmt: skip
    heard = await run_concurrently(about, asked)
    calls = sum(bool(one.calls) for one in heard)
    if is_rate_below(len(heard) - calls, len(heard), 0.8):
        return failed("called", f"{calls} of {len(heard)} questions that need no tool got a call", n=len(heard))
    return passed(f"{len(heard) - calls} of {len(heard)} answered without a call", n=len(heard))


async def _required(talk: ModelClient, about: CheckContext) -> CheckResult:
    city = about.dice("required").choice(about.wording.cities)
    return await _asked(talk, about, [_weather(about, city)], tool_choice="required")


async def _named(talk: ModelClient, about: CheckContext) -> CheckResult:
    case = about.wording.named
    choice = {"type": "function", "function": {"name": case.name}}
    return await _asked(talk, about, [case], tool_choice=choice)


async def _none(talk: ModelClient, about: CheckContext) -> CheckResult:
    case = about.wording.named
    tools = [tool.chat for tool in case.tools]
    asks = [partial(ask, talk, about, case.asked, stream=s, tools=tools, tool_choice="none")
            for s in (False, True)]  # fmt: skip
    heard = await run_concurrently(about, asks)
    for one in heard:
        if one.calls:
            return failed("called", "tool_choice none, and it called a tool")
        if text_damage.leaked_token(one.text):
            return failed("text", f"tool_choice none, and a call came as text: {quoted(one.text)}")
    return passed("text alone, streamed and not")


async def _bare(talk: ModelClient, about: CheckContext) -> CheckResult:
    case = about.wording.bare
    asks = [partial(ask, talk, about, case.asked, stream=s, tools=[tool.chat for tool in case.tools])
            for s in (False, True)]  # fmt: skip
    heard = await run_concurrently(about, asks)
    for one in heard:
        if one.calls and one.calls[0].arguments.strip() in ("", "null", '""'):
            return failed("empty", f"the arguments are {one.calls[0].arguments!r}, not {{}}")
        why, sentence = call_flaw(one, case.tools)
        if why:
            return failed(why, sentence)
        if parsed(one.calls[0]) != {}:
            return failed("values", f"a tool without parameters got {quoted(one.calls[0].arguments)}")
    return passed("arguments are {}, streamed and not")


async def _round_trip(talk: ModelClient, about: CheckContext) -> CheckResult:
    """The result as text and as a list of parts, and in the other dialect; the answer must tell what only it says."""
    tool, dice = weather_tool(about.wording), about.dice("round trip")
    wrong = []
    for form in ("text", "list", "messages"):
        if form == "messages" and about.messages is None:
            continue
        city, degrees = dice.choice(about.wording.cities), dice.randint(11, 39)
        told = about.wording.told.format(degrees=degrees)
        asked = about.wording.weather.format(city=city)
        if form == "messages":
            heard = await _told_in_messages(about, tool, asked, city, told)
        else:
            call = {"id": "call_a1b2c3", "type": "function",
                    "function": {"name": tool.name, "arguments": json.dumps({"city": city})}}  # fmt: skip
            content: Any = told if form == "text" else [{"type": "text", "text": told}]
            turns = [user_turn(asked), {"role": "assistant", "content": "", "tool_calls": [call]},
                     {"role": "tool", "tool_call_id": "call_a1b2c3", "content": content}]  # fmt: skip
            heard = await ask(talk, about, turns, tools=[tool.chat])
        if str(degrees) not in heard.text:
            wrong.append(f"{form}: {quoted(heard.text or heard.timed.failure)} does not tell {degrees}")
    if wrong:
        return failed("lost", "; ".join(wrong))
    return passed("the answer tells what the tool said, however the result was written")


async def _told_in_messages(about: CheckContext, tool: OfferedTool, asked: str, city: str, told: str) -> ModelReply:
    if about.messages is None:
        raise ValueError("needs the other dialect")
    use = {"type": "tool_use", "id": "toolu_a1b2c3", "name": tool.name, "input": {"city": city}}
    result = {"type": "tool_result", "tool_use_id": "toolu_a1b2c3", "content": told}
    turns = [user_turn(asked), {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    offered = {"name": tool.name, "description": tool.about, "input_schema": tool.schema}
    asked_for = {"messages": turns, "tools": [offered], "max_tokens": about.wording.limit, "temperature": 0}
    return await about.messages.ask(asked_for)


def _has_tools(about: CheckContext) -> str:
    if "tools" in about.facts.refused:
        return f"it refuses tools: {about.facts.refused['tools']}"
    template = about.facts.props.get("chat_template")
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
        "a choice that is not the natural one",
        _named,
        _has_tools,
    ),
    PreflightCheck(
        "tool-none",
        "tool_choice none gives text",
        "a tool chosen later in the conversation",
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
