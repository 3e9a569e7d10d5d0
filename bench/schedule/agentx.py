"""Sessions of agents, made from a seed with published statistics. Pure: the same seed, the same sessions.

Published, and the same here: a median of 43 turns and a longest prompt of 142,000 tokens (median), of which more than
96 % are cached; subagents in 44 % of the sessions (vllm-project/vllm#57103). 86 % of the gaps within a session are
below 1 s, 95 % below 10 s (vllm-project/router#285).

Not published, and so assumed: turns are log-normal (sigma 0.6); gaps are log-uniform between 0.05, 1, 10 and 120 s;
half of the gaps above 10 s follow an answer to a person, not a call of a tool; the
parent waits for its subagent, of 10 turns; every other subagent has a model of its own; answers have 150 tokens
(median).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from random import Random
from typing import NamedTuple

from bench.schedule.traces import BLOCK, Trace, TraceRequest

MEDIAN_TURNS, TURNS_SIGMA, MOST_TURNS = 43, 0.6, 150
SYSTEM_TOKENS, GROWTH_TOKENS = 10_000, 3_100
WITH_SUBAGENTS = 0.44
SUBAGENT_TURNS = 10
GAPS = ((0.86, 0.05, 1.0), (0.95, 1.0, 10.0), (1.0, 10.0, 120.0))
"""Up to this share of the gaps: from and to how many seconds."""
ASKS_PERSON = 0.5
"""Of the gaps above 10 s."""
OUTPUT_TOKENS, OUTPUT_SIGMA = 150, 0.8


class Gap(NamedTuple):
    seconds: float
    is_call: bool
    """The answer before it was a call of a tool."""


def draw_gap(random: Random) -> Gap:
    """Between an answer and the next turn of its session."""
    share = random.random()
    low, high = next((low, high) for upto, low, high in GAPS if share <= upto)
    is_call = low < 10.0 or random.random() >= ASKS_PERSON
    return Gap(round(exp(random.uniform(log(low), log(high))), 2), is_call)


class _Blocks:
    """Numbers of blocks that no other prompt has."""

    def __init__(self) -> None:
        self.next = 1_000

    def take(self, tokens: float) -> tuple[int, ...]:
        first, self.next = self.next, self.next + max(1, round(tokens / BLOCK))
        return tuple(range(first, self.next))


class SessionMaker:
    """Appends sessions to a trace."""

    def __init__(self, random: Random, models: Sequence[str]) -> None:
        self.requests: list[TraceRequest] = []
        self._random = random
        self._models = models
        self._blocks = _Blocks()
        self._system = {model: self._blocks.take(SYSTEM_TOKENS) for model in models}

    def add(self, name: str, start: float, model: str) -> None:
        """A session, with its subagents."""
        random = self._random
        turns = min(MOST_TURNS, max(3, round(random.lognormvariate(log(MEDIAN_TURNS), TURNS_SIGMA))))
        subagents = random.randint(1, 3) if random.random() < WITH_SUBAGENTS else 0
        calls = set(random.sample(range(turns - 1), min(subagents, turns - 1)))
        blocks, gap, after = self._system[model], Gap(start, True), None
        for turn in range(turns):
            blocks += self._blocks.take(random.expovariate(1 / GROWTH_TOKENS))
            following = Gap(0.05, True) if turn in calls else draw_gap(random)
            is_call = following.is_call and turn < turns - 1
            after = self._turn(name, name, model, blocks, gap.seconds, after, is_call)
            if turn in calls:
                after = self._subagent(f"{name}/{turn}", name, model, after)
            gap = following

    def _subagent(self, session: str, key: str, model: str, after: int) -> int:
        random = self._random
        own = random.choice(self._models) if random.random() < 0.5 else model
        turns = max(2, round(random.lognormvariate(log(SUBAGENT_TURNS), TURNS_SIGMA)))
        blocks, gap = self._system[own], Gap(0.05, True)
        for turn in range(turns):
            blocks += self._blocks.take(random.expovariate(1 / GROWTH_TOKENS))
            after = self._turn(session, key, own, blocks, gap.seconds, after, turn < turns - 1)
            gap = Gap(min(draw_gap(random).seconds, 10.0), True)
        return after

    def _turn(
        self, session: str, key: str, model: str, blocks: tuple[int, ...], gap: float, after: int | None, is_call: bool
    ) -> int:
        written = min(2_000, max(20, round(self._random.lognormvariate(log(OUTPUT_TOKENS), OUTPUT_SIGMA))))
        self.requests.append(
            TraceRequest(gap, model, len(blocks) * BLOCK, written, blocks, key, after, session=session, is_call=is_call)
        )
        return len(self.requests) - 1


def agentx(seed: int, sessions: int = 16, slots: int = 1) -> Trace:
    """Sessions that begin at random, about one a minute in each slot, and one model more than fits, at least three."""
    random = Random(seed)
    times = {"small": 8.0, "coder": 15.0, "large": 30.0} if slots == 1 else {
        "small": 8.0, "coder": 15.0, "writer": 15.0, "large": 30.0,
    }  # fmt: skip
    maker, at = SessionMaker(random, list(times)), 0.0
    for number in range(sessions):
        maker.add(f"s{number}", round(at, 2), random.choice(list(times)))
        at += random.expovariate(slots / 60)
    return Trace(f"agentx, {slots} slot{'s' * (slots > 1)}", slots, times, maker.requests, 8, cached_tokens=2_000_000,
                 description=f"{sessions} sessions, {len(times)} models that load in 8 to 30 s")  # fmt: skip


def team(seed: int) -> Trace:
    """Eight agents that begin within a second, twelve turns each with 0.1 to 1 s between them, three models on one slot
    that load in 3 s: what was measured beside llama-swap itself.
    """
    random = Random(seed)
    models = ("a", "b", "c")
    requests: list[TraceRequest] = []
    for number in range(8):
        name, model = f"s{number}", models[number % 3]
        for turn in range(12):
            at = random.uniform(0.1, 1.0) if turn else random.uniform(0.0, 1.0)
            after = len(requests) - 1 if turn else None
            requests.append(
                TraceRequest(round(at, 2), model, key=name, after=after, seconds=round(random.uniform(0.2, 0.6), 2),
                             session=name, is_call=turn < 11)
            )  # fmt: skip
    return Trace("team", 1, dict.fromkeys(models, 3.0), requests, 8,
                 description="eight agents, twelve turns each, three models, one slot, 3 s to load")  # fmt: skip


def alone(trace: Trace) -> dict[str, Trace]:
    """By session, subagents included: what it would be if it were the only one."""
    parts: dict[str, list[TraceRequest]] = {}
    position: dict[int, int] = {}
    for id, request in enumerate(trace.requests):
        part = parts.setdefault(root(request.session), [])
        position[id] = len(part)
        part.append(request if request.after is None else request._replace(after=position[request.after]))
    return {
        name: Trace(name, trace.slots, trace.swap_times, part, trace.places, cached_tokens=trace.cached_tokens)
        for name, part in parts.items()
    }


def root(session: str) -> str:
    """The session to which a subagent's belongs; else the session itself."""
    return session.partition("/")[0]
