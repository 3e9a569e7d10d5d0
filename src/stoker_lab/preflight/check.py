"""What a check is and what it comes to, and the requests that all checks share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from stoker.domain.run import Number, Outcome
from stoker_lab.preflight import wire_flaws
from stoker_lab.preflight.facts import REFUSALS, ServeFacts
from stoker_lab.preflight.pages import PageClient
from stoker_lab.preflight.wordings import Wording
from stoker_lab.requests.client import ModelClient, ModelReply
from stoker_lab.statistics.stats import wilson

T = TypeVar("T")
THOUGHTS = 4096
"""Tokens that a model which cannot be kept from thinking gets on top."""
_FLAWS = 8
_CUT = 16
"""Answers of so few tokens are meant to be cut."""


class CheckResult(NamedTuple):
    """What a check came to. `cause_key`: the key of the failure in `causes.CAUSES`; empty: none."""

    outcome: Outcome
    summary: str
    cause_key: str = ""
    numbers: Mapping[str, Number] = {}


def passed(summary: str, **numbers: Number) -> CheckResult:
    return CheckResult(Outcome.PASSED, summary, "", numbers)


def failed(cause_key: str, summary: str, **numbers: Number) -> CheckResult:
    return CheckResult(Outcome.FAILED, summary, cause_key, numbers)


def not_applicable(why: str) -> CheckResult:
    """It does not apply; the sentence says why."""
    return CheckResult(Outcome.NOT_APPLICABLE, why)


class RepeatedRequest(NamedTuple):
    """One of many equal requests, and what came of it."""

    prompt: int
    reply: ModelReply


class CheckContext(msgspec.Struct):
    facts: ServeFacts
    wording: Wording
    pages: PageClient
    messages: ModelClient | None = None
    """The same serve in Anthropic's dialect; None: it does not speak it."""
    needle_ctx: int | None = None
    """Prompt tokens of the longest needle; None: what the wording and the context allow."""
    baseline: Mapping[str, Number] = {}
    """As recorded: prompt tokens of the fixed conversations, marks of the usual answers, by name."""
    seed: int = 1
    run: int = 0
    """Another number in each run: see `filler_dice`."""
    concurrency: int = 4
    """Requests under way at once."""
    wire_flaws: list[tuple[str, str]] = []
    """The first few faults in the bytes of answers so far."""
    prompt_tokens: dict[str, int] = {}
    """Tokens of the fixed conversations, as they were counted, by name."""
    per_sentence: tuple[float, float] | None = None
    """Tokens of a sentence of filler, and of everything else in a prompt; None: not measured yet."""
    is_sampled: bool = False
    """Whether temperature 0 was seen not to be heeded: answers differ by themselves then."""
    repeats: list[RepeatedRequest] = []
    """The same short questions again and again, as `repeat` asked them."""

    def dice(self, name: str) -> random.Random:
        """The same words for the same seed, whichever checks ran before."""
        return random.Random(f"{self.seed} {name}")

    def filler_dice(self, name: str) -> random.Random:
        """Other words in each run: a text that an engine has in its cache is not read again, and proves nothing."""
        return self.dice(f"{self.run} {name}")

    def words(self, dice: random.Random, count: int) -> list[str]:
        return dice.sample(self.wording.words, count)


RunCheck = Callable[[ModelClient, CheckContext], Awaitable[CheckResult]]
Applies = Callable[[CheckContext], str]
"""Why it does not apply; empty: it does."""


class PreflightCheck(NamedTuple):
    name: str
    proves: str
    cannot_see: str
    """Faults that it misses."""
    run: RunCheck
    applies: Applies | None = None
    seconds: float = 300.0
    asks_chat: bool = True


def why_skipped(check: PreflightCheck, ctx: CheckContext) -> str:
    """1. what makes embeddings alone answers no chat  2. a known gap of the model  3. the check's own reason
    Empty: the check is run."""
    if ctx.facts.refuses_chat and check.asks_chat:  # 1
        return ctx.facts.refuses_chat
    if gap := ctx.wording.known_gaps.get(check.name, ""):  # 2
        return gap
    return check.applies(ctx) if check.applies else ""  # 3


class RequestFailed(Exception):
    """A request that had to be answered was not."""

    def __init__(self, reply: ModelReply) -> None:
        super().__init__(reply.timing.failure)
        self.reply = reply

    @property
    def is_refusal(self) -> bool:
        """Of what was asked for, not an error of the server's own."""
        return self.reply.timing.status in REFUSALS

    def sentence(self) -> str:
        text = self.reply.error_message
        return f"a plain request failed: {self.reply.timing.failure}" + (f" ({text[:160]})" if text else "")


async def ask(
    client: ModelClient,
    ctx: CheckContext,
    asked: str | Sequence[Mapping[str, Any]],
    *,
    stream: bool = False,
    **fields: Any,
) -> ModelReply:
    """Ask at temperature 0. Raises RequestFailed."""
    reply = await client.ask(chat_request(ctx, asked, stream=stream, **fields))
    if not reply.timing.is_ok:
        raise RequestFailed(reply)
    if (flaw := wire_flaws.bytes_flaw(reply))[0] and len(ctx.wire_flaws) < _FLAWS:
        ctx.wire_flaws.append(flaw)
    return reply


def chat_request(
    ctx: CheckContext,
    asked: str | Sequence[Mapping[str, Any]],
    *,
    stream: bool = False,
    is_cut: bool = False,
    **fields: Any,
) -> dict[str, Any]:
    """A request of Chat Completions; `None` takes a field out. `is_cut`: its limit is not raised for thoughts."""
    turns = [user_turn(asked)] if isinstance(asked, str) else list(asked)
    found: dict[str, Any] = {"messages": turns, "temperature": 0, "max_tokens": ctx.wording.limit}
    if ctx.facts.thinks:
        found["chat_template_kwargs"] = {"enable_thinking": False}
    if stream:
        found |= {"stream": True, "stream_options": {"include_usage": True}}
    found |= fields
    if ctx.facts.always_thinks and not is_cut and found["max_tokens"] > _CUT:
        found["max_tokens"] += THOUGHTS
    return {name: value for name, value in found.items() if value is not None}


async def run_concurrently(
    ctx: CheckContext, asking: Iterable[Callable[[], Awaitable[T]]], at_once: int | None = None
) -> list[T]:
    """All of them, at most `concurrency` at once; results in order. Raises the first RequestFailed."""
    places = asyncio.Semaphore(at_once or ctx.concurrency)

    async def ask_in_turn(ask: Callable[[], Awaitable[T]]) -> T:
        async with places:
            return await ask()

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask_in_turn(ask)) for ask in asking]
    except BaseExceptionGroup as errors:
        found = errors.subgroup(RequestFailed)
        raise (found.exceptions[0] if found is not None else errors.exceptions[0]) from None
    return [task.result() for task in tasks]


def answers_vary(ctx: CheckContext) -> str:
    """Why answers cannot be compared; empty: they can."""
    return "temperature 0 is not heeded (determinism): answers to one question differ by themselves" * ctx.is_sampled


def user_turn(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def is_rate_below(passed_: int, n: int, at_least: float) -> bool:
    """Whether the true rate is surely below: Wilson's 95 % interval lies under it."""
    return n > 0 and wilson(passed_, n).high < at_least


def quoted(text: str, most: int = 70) -> str:
    """As a report quotes it: the beginning, on one line, with what cannot be seen spelled out."""
    line = " ".join(text.split())
    return repr(line if len(line) <= most else line[:most] + "...")
