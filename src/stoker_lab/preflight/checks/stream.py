"""The wire: stop strings, counts, the frames of a stream, and a client that leaves."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec

from stoker.domain.answer import StopReason
from stoker_lab.preflight import text_damage, wire_flaws
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    ask,
    chat_request,
    failed,
    not_applicable,
    passed,
    quoted,
    run_concurrently,
)
from stoker_lab.preflight.facts import running_requests
from stoker_lab.preflight.wordings import StopQuestion
from stoker_lab.requests.client import ModelClient, ModelReply

LEFT = 2.0
"""Seconds within which the engine must have noticed that its client is gone."""
SOON = 0.1
"""Within these seconds the answer cannot have ended by itself."""
_BRIEF, _LONG = 6, 160
"""Short answers, and tokens of the long one, whose counts are compared with what they show."""
_MARKS = 16
"""Invisible tokens of an answer: its end, turn marks and empty thoughts."""
MUCH = 4096
"""Tokens of the answer that the client abandons."""


async def _stop(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. the text is cut  2. without the marker  3. at the right place  4. and the reason is said"""
    cases = [(case, stream) for case in ctx.wording.stops for stream in (False, True)]
    replies = await run_concurrently(
        ctx, [partial(ask, client, ctx, case.question, stream=s, stop=[case.stop]) for case, s in cases]
    )
    for (case, stream), one in zip(cases, replies, strict=True):
        way = "streamed" if stream else "not streamed"
        text = one.text
        if case.stop in text:
            after = text.split(case.stop, 1)[1]
            if after.strip():  # 1
                return failed("ignored", f"{way}: it went on after {case.stop!r}: {quoted(text)}")
            return failed("left-in", f"{way}: {case.stop!r} is in the text: {quoted(text)}")  # 2
        if _has_part(text.rstrip(), case):
            return failed("part", f"{way}: a part of {case.stop!r} is in the text: {quoted(text)}")
        if not text.rstrip().endswith(case.before):  # 3
            return failed("elsewhere", f"{way}: it ended at {quoted(text[-40:])}, not after {case.before!r}")
        if one.answer.stop not in (StopReason.END, StopReason.SEQUENCE):  # 4
            return failed("reason", f"{way}: the reason given is {one.answer.stop.value}")
    return passed(
        f"cut before the marker, {len(replies)} of {len(replies)}, also where it is several tokens", n=len(replies)
    )


def _has_part(text: str, case: StopQuestion) -> bool:
    marker = case.stop.strip()
    parts = (marker[:length] for length in range(2, len(marker)))
    return not text.endswith(case.before) and any(text.endswith(part) for part in parts)


async def _usage(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. there  2. the sum is right  3. cached is a part  4. streamed and not the same  5. plausible"""
    question = ctx.wording.brief[1]
    whole = await ask(client, ctx, question)
    flow = await ask(client, ctx, question, stream=True)
    usage = _usage_of(whole.body)
    if usage is None:  # 1
        return failed("missing", "an answer that is not streamed has no usage")
    if flow.timing.tokens.output is None:
        return failed("missing", "a stream that was asked for usage has none")
    prompt, completion, total = (usage.get(f"{word}_tokens") for word in ("prompt", "completion", "total"))
    if total != (prompt or 0) + (completion or 0):  # 2
        return failed("sum", f"{prompt} prompt and {completion} completion tokens make {total}")
    for one in (whole, flow):
        tokens = one.timing.tokens
        if (tokens.cached or 0) > (tokens.input or 0):  # 3
            return failed("cached", f"{tokens.cached} of {tokens.input} prompt tokens are said to be cached")
    if whole.text == flow.text and (whole.timing.tokens.output, whole.timing.tokens.input) != (
        flow.timing.tokens.output,
        flow.timing.tokens.input,
    ):  # 4
        text = f"whole {_pair(whole)}, streamed {_pair(flow)} tokens for the same answer"
        return failed("stream", text)
    if not whole.timing.tokens.output:
        return failed("zero", "an answer with text is said to have 0 tokens")
    if bad := await _implausible(client, ctx):  # 5
        return failed("counts", bad)
    return passed(f"{prompt} + {completion} = {total}, streamed the same")


async def _implausible(client: ModelClient, ctx: CheckContext) -> str:
    """1. short answers cost no more tokens than they have bytes  2. a long one costs what it costs in a prompt
    of the same server: rough counts are let pass, twice as many or half as many are not. Thoughts count too."""
    brief = await run_concurrently(ctx, [partial(ask, client, ctx, text) for text in ctx.wording.brief[:_BRIEF]])
    high = [one for one in brief if (one.timing.tokens.output or 0) > len(one.visible_text.encode()) + _MARKS]
    if len(high) > len(brief) // 2:  # 1
        return (
            f"{high[0].timing.tokens.output} tokens are counted for an answer that shows {quoted(high[0].visible_text)}"
        )
    long = await ask(client, ctx, ctx.wording.prose[1], max_tokens=_LONG, is_cut=True)
    bare, repeated = [
        await ask(client, ctx, text, max_tokens=1) for text in ("It says:", f"It says: {long.visible_text}")
    ]
    counted, cost = long.timing.tokens.output, (repeated.timing.tokens.input or 0) - (bare.timing.tokens.input or 0)
    if counted is None or cost < _MARKS or 0.5 * cost - _MARKS / 2 <= counted <= 2 * cost + _MARKS:  # 2
        return ""
    return f"{counted} tokens are counted for an answer that costs {cost} in a prompt"


def _pair(reply: ModelReply) -> str:
    return f"{reply.timing.tokens.input}+{reply.timing.tokens.output}"


def _usage_of(body: Any) -> dict[str, Any] | None:
    found = body.get("usage") if isinstance(body, dict) else None
    return found if isinstance(found, dict) else None


async def _frames(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. ends with [DONE], once  2. one finish  3. usage only when asked  4. the same text as not streamed"""
    question = ctx.wording.prose[1]
    asked = await ask(client, ctx, question, stream=True)
    plain = await ask(client, ctx, question, stream=True, stream_options=None)
    whole = await ask(client, ctx, question)
    for one in (asked, plain):
        chunks = [_chunk(frame) for frame in one.frames if frame != b"[DONE]"]
        dones = one.frames.count(b"[DONE]")
        if dones != 1 or one.frames[-1] != b"[DONE]":  # 1
            return failed("done", f"[DONE] came {dones} times" if dones != 1 else "something came after [DONE]")
        ends = [choice["finish_reason"] for chunk in chunks for choice in chunk.get("choices") or ()
                if isinstance(choice, dict) and choice.get("finish_reason")]  # fmt: skip
        if len(ends) != 1:  # 2
            return failed("finish", f"a stream has {len(ends)} finish reasons")
        if (late := wire_flaws.order_flaw(one))[0]:
            return failed(*late)
    if any(_chunk(frame).get("usage") for frame in plain.frames):  # 3
        return failed("usage", "a usage chunk came although the request did not ask for one")
    if not asked.text and whole.text:  # 4
        return failed("silent", "the stream carries no text, the same answer not streamed does")
    if ctx.facts.thinks or ctx.is_sampled:
        return passed(f"{len(asked.frames)} frames, one finish, [DONE] last")
    shared = text_damage.common_prefix(asked.text, whole.text)
    if shared < 0.5 * len(whole.text) or abs(len(asked.text) - len(whole.text)) > 0.5 * len(whole.text) + 20:
        return failed("text", f"streamed {quoted(asked.text[-60:])}, whole {quoted(whole.text[-60:])}")
    if whole.text.startswith(asked.text) and asked.text != whole.text:
        return failed("text", f"the stream lacks the end: {quoted(whole.text[len(asked.text) :])}")
    return passed(f"{len(asked.frames)} frames, one finish, [DONE] last, the same text as not streamed")


def _chunk(frame: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(frame)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


async def _cancel(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """Several leave while much is still to come (`ignore_eos` where the engine knows it); then the engine's count.

    A tiny model may be done within the two seconds by itself. Where it took more than a moment, the same answers are
    heard out, for twice that time: if they are whole by then, it had not stopped.
    """
    page = ctx.facts.running_page
    if not page:
        return not_applicable("no page counts running requests: /metrics and /slots are off")
    before = await running_requests(ctx.pages, page) or 0
    most = min((ctx.facts.context or 4096) - 256, MUCH)
    ask = chat_request(ctx, ctx.wording.long, ignore_eos=True, max_tokens=most)
    flow = {**ask, "stream": True}
    replies = await run_concurrently(ctx, [partial(client.ask, flow, drop_after=3)] * ctx.concurrency)
    if early := [one.timing.failure or "whole" for one in replies if one.timing.failure != "dropped"]:
        return failed("early", f"a stream ended before its third chunk: {early[0]}")
    took = await _until_idle(client, ctx, before)
    if took is None:
        return failed("goes-on", f"still running {LEFT:g} s after its clients left", seconds=LEFT)
    if took > SOON:
        whole = await run_concurrently(ctx, [partial(client.ask, ask, timeout=2 * took)] * ctx.concurrency)
        if all(one.timing.is_ok for one in whole):
            text = f"it ran for {took:.2f} s after its clients left: until it was done, or nearly"
            return failed("goes-on", text, seconds=round(took, 3))
    return passed(f"stopped {took * 1000:.0f} ms after its clients left", seconds=round(took, 3))


async def _until_idle(client: ModelClient, ctx: CheckContext, before: int) -> float | None:
    """Seconds until the engine's count is down again; None: it was not."""
    began = client.clock()
    while (took := client.clock() - began) < LEFT:
        left = await running_requests(ctx.pages, ctx.facts.running_page)
        if left is not None and left <= before:
            return took
        await asyncio.sleep(0.01)
    return None


STREAM = (
    PreflightCheck(
        "stop",
        "stop strings cut the text, also when they are several tokens",
        "stop strings while it thinks, in calls, and more than one of them",
        _stop,
    ),
    PreflightCheck(
        "usage",
        "counts add up, streamed and not the same",
        "counts of long answers up to twice too high or too low (max-tokens sees those of short ones); other dialects",
        _usage,
    ),
    PreflightCheck(
        "frames",
        "[DONE] last, one finish, usage only when asked",
        "faults that not every stream has; comments and fields that clients skip",
        _frames,
    ),
    PreflightCheck(
        "cancel",
        "the engine stops when its client leaves",
        "a serve whose running requests no page counts; other callers make it blind",
        _cancel,
    ),
)
