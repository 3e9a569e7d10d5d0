"""The largest context that an engine really serves, with the required concurrency.

The engine is restarted with each candidate length as its limit, because the cache left by another limit says nothing
about this one. A request near the limit, with the tokens that the engine itself counted, proves the length.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from stoker.domain.lease import Target
from stoker.domain.run import Finding, Number, Outcome
from stoker.engines import start_log
from stoker_lab.artifacts.fingerprint import EngineReport
from stoker_lab.requests.client import ModelClient, ModelReply

STEP = 256
"""Candidates are multiples of this many tokens."""
REPLY = 16
"""Tokens left for the reply."""
NEAR, TOO_SHORT = 0.97, 0.9
"""What a proving request aims at, and below what it proves nothing, as shares of the length less the reply."""
_TIMEOUT = 1800.0


class EngineNotStarted(Exception):
    """The engine did not come up with this limit; the text is its own last words, shortened.

    `kind`: what kind of failure it is, by name, if it is known; `fix`: what to do about it; `log_line`: the
    line that shows it.
    """

    def __init__(self, text: str, kind: str = "", fix: str = "", log_line: str = "") -> None:
        super().__init__(text)
        self.kind, self.fix, self.log_line = kind, fix, log_line or text


class StartedEngine(NamedTuple):
    """An engine that runs with one candidate's limit."""

    target: Target
    report: EngineReport
    """What the engine reports about itself."""
    log: str
    """The engine's output since its start."""
    stop: Callable[[], Awaitable[None]]
    failure: Callable[[], EngineNotStarted | None] = lambda: None
    """Why it exited; None: it still runs."""


StartEngine = Callable[[int], Awaitable[StartedEngine]]


class ContextTrial(msgspec.Struct):
    context: int
    outcome: str
    """`works`, or why not, in one sentence."""
    kv_tokens: int | None = None
    """Tokens that its cache holds, as the engine says."""
    concurrency: float | None = None
    """Requests of full length at once, as the engine says."""
    prompt_tokens: int | None = None
    """Prompt tokens of the proving request, as the engine counted them."""
    seconds: float | None = None
    """Seconds from sending the proving request to its end."""

    @property
    def is_working(self) -> bool:
        return self.outcome == "works"


class ContextSearch:
    """Which candidate comes next: up in doublings while it works, then halving what lies between. Pure."""

    def __init__(self, low: int, high: int, step: int = STEP) -> None:
        self._step = step
        self._high = max(step, high // step * step)
        self._next: int | None = min(max(step, -(-low // step) * step), self._high)
        self.largest_working = 0
        """The largest length that worked."""
        self._fails: int | None = None
        """The smallest length that did not work."""

    def next(self) -> int | None:
        return self._next

    def record(self, context: int, works: bool) -> None:
        """Record whether a candidate works.

        1. the highest works -> over  2. works, nothing failed yet -> twice as much  3. else -> the middle
        4. less than a step between -> over
        """
        if works:
            self.largest_working = max(self.largest_working, context)
        else:
            self._fails = context if self._fails is None else min(self._fails, context)
        if self.largest_working >= self._high:
            self._next = None  # 1
        elif self._fails is None:
            self._next = min(context * 2, self._high)  # 2
        else:
            middle = (self.largest_working + self._fails) // 2 // self._step * self._step
            self._next = middle if middle > self.largest_working and middle < self._fails else None  # 3, 4


async def search_context(
    low: int,
    high: int,
    concurrency: float,
    start: StartEngine,
    on_trial: Callable[[ContextTrial], None] = lambda trial: None,
) -> list[ContextTrial]:
    """Every trial, in order. On cancel the engine of the one under way is stopped."""
    plan, trials = ContextSearch(low, high), list[ContextTrial]()
    while (context := plan.next()) is not None:
        trial = await try_context(context, concurrency, start)
        trials.append(trial)
        on_trial(trial)
        plan.record(context, trial.is_working)
    return trials


async def try_context(context: int, wanted: float, start: StartEngine) -> ContextTrial:
    """Start the engine with this limit, look at what it says, fill it once, stop it."""
    try:
        started = await start(context)
    except EngineNotStarted as error:
        return ContextTrial(context, f"did not start: {error}")
    try:
        kv_tokens, concurrency = reported_capacity(started.report.props, started.log, context)
        trial = ContextTrial(context, "", kv_tokens, concurrency)
        own = _own_limit(started.report.props)
        if own is not None and own < context:
            trial.outcome = f"the engine set its limit to {own} tokens instead"
            return trial
        if concurrency is not None and concurrency < wanted:
            trial.outcome = f"room for {concurrency:g} requests of this length, {wanted:g} required"
            return trial
        client = ModelClient(started.target)
        try:
            await _fill(client, context, trial)
        finally:
            client.close()
        return trial
    finally:
        await started.stop()


async def _fill(client: ModelClient, context: int, trial: ContextTrial) -> None:
    """A prompt of the wanted length, found by counting what a short one takes; then the proof."""
    goal = int((context - REPLY) * NEAR)
    probe, other = await client.ask(_prompt(50)), await client.ask(_prompt(100))
    few, more = probe.timing.tokens.input, other.timing.tokens.input
    if few is None or more is None or more <= few:
        trial.outcome = f"a short request failed ({probe.timing.failure or other.timing.failure or 'no usage'})"
        return
    words = 50 + int((goal - few) * 50 / (more - few))
    reply = await client.ask(_prompt(max(words, 1)), timeout=_TIMEOUT)
    trial.prompt_tokens, trial.seconds = reply.timing.tokens.input, round(reply.timing.ended - reply.timing.t0, 3)
    trial.outcome = proof_outcome(reply, goal)


def proof_outcome(reply: ModelReply, goal: int) -> str:
    """`works`, or why not."""
    if not reply.timing.is_ok:
        return f"a request near the limit failed ({reply.timing.failure})"
    counted = reply.timing.tokens.input or 0
    if counted < TOO_SHORT * goal:
        return f"a request near the limit was cut to {counted} tokens"
    return "works"


def _prompt(words: int) -> dict[str, Any]:
    numbers = " ".join(str(n % 10) for n in range(words))
    content = f"Remember these: {numbers}\nSay pong."
    return {"messages": [{"role": "user", "content": content}], "max_tokens": REPLY // 2, "temperature": 0}


def reported_capacity(props: Any, log: str, context: int) -> tuple[int | None, float | None]:
    """(tokens of cache, requests of full length at once), as the engine says.

    1. vLLM, in its log, for this very length  2. SGLang's tokens  3. llama.cpp: slots whose own context is enough.
    None: it does not say.
    """
    kv_tokens, concurrency = start_log.capacity(log, context)
    if concurrency is not None:
        return kv_tokens, concurrency  # 1, 2
    if isinstance(props, dict) and isinstance(props.get("total_slots"), int):
        own = _own_limit(props)
        if own is not None:
            return own * props["total_slots"], float(props["total_slots"] if own >= context else 0)  # 3
    return None, None


def _own_limit(props: Any) -> int | None:
    """Tokens of one of llama.cpp's slots."""
    settings = props.get("default_generation_settings") if isinstance(props, dict) else None
    own = settings.get("n_ctx") if isinstance(settings, dict) else None
    return own if isinstance(own, int) else None


def findings(trials: list[ContextTrial]) -> list[Finding]:
    """One per candidate, in order of length. A candidate that fails does not fail the search."""
    return [
        Finding(
            f"context-{trial.context}",
            Outcome.PASSED if trial.is_working else Outcome.FAILED,
            trial.outcome,
            numbers={
                "context": trial.context,
                "kv_tokens": trial.kv_tokens,
                "concurrency": trial.concurrency,
                "prompt_tokens": trial.prompt_tokens,
            },
            seconds=trial.seconds,
        )
        for trial in sorted(trials, key=lambda one: one.context)
    ]


def numbers(trials: list[ContextTrial]) -> dict[str, Number]:
    largest = max((trial for trial in trials if trial.is_working), key=lambda one: one.context, default=None)
    if largest is None:
        return {"context": None}
    return {"context": largest.context, "kv_tokens": largest.kv_tokens, "concurrency": largest.concurrency}
