"""A benchmark under way: prompts, warm-up, steps, ladder, over one or more routes in turn.

Results are stored as they arrive: after a cancel, `measured` has all of them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.domain.errors import UpstreamError
from stoker_lab.load.figures import StepSample, figures
from stoker_lab.load.generator import (
    LoadClock,
    SendRequest,
    StepRequests,
    poisson_arrivals,
    run_closed_loop,
    run_open_loop,
)
from stoker_lab.load.ladder import SHARES, LadderStop, Rung, next_clients, open_rates
from stoker_lab.load.presets import BenchmarkOptions, BenchmarkPlan, BenchmarkStep, clients_step, rate_step
from stoker_lab.load.prompts import BenchmarkPrompt, PromptSharing, ReplayPrompts, calibrate_replay, make_prompt
from stoker_lab.load.replay import arrivals
from stoker_lab.load.step_times import StepTimes
from stoker_lab.requests.client import ModelClient
from stoker_lab.requests.endpoint import MeasuredEndpoint, PromptCounter, user_turns
from stoker_lab.requests.timing import RequestTiming, Slo

_EXACT_OUTPUT = {"ignore_eos": True}
"""So that an answer has its full length; a server that refuses it is asked without."""
_REFUSES = ("http_400", "http_422")


_USUAL_RUNGS = (1, 2, 4, 8, 16)


@dataclass
class MeasuredStep:
    """One step over one route, with its repeats."""

    step: BenchmarkStep
    route: str
    repeats: list[StepRequests] = field(default_factory=list)

    def samples(self, now: float) -> list[StepSample]:
        return [repeat.sample(now) for repeat in self.repeats]


@dataclass
class BenchmarkObserver:
    """`show(what, share_done, seconds_left)` gets the progress. None seconds: nothing was measured yet."""

    show: Callable[[str, float, float | None], None] = lambda what, share, left: None
    is_full: Callable[[], bool] = lambda: False
    """Whether memory is short."""


class Benchmark:
    """Runs a plan. `servers`: the first one decides about the ladder; the others are measured beside it."""

    def __init__(
        self, servers: Sequence[MeasuredEndpoint], wanted: BenchmarkOptions, plan: BenchmarkPlan, size: tuple[int, int],
        observer: BenchmarkObserver | None = None,
        clock: LoadClock | None = None,
    ) -> None:  # fmt: skip
        self.servers, self.options, self.plan = servers, wanted, plan
        self.prompt_tokens, self.output_tokens = size
        self.observer = observer or BenchmarkObserver()
        self.clock = clock or LoadClock()
        self.measured: list[MeasuredStep] = []
        self.cold: dict[str, RequestTiming] = {}
        """The first request of all, by route."""
        self.stops: dict[PromptSharing, LadderStop] = {}
        self.first_rung_again: MeasuredStep | None = None
        """The first rung, measured again at the end."""
        self.prompt: BenchmarkPrompt | None = None
        self.counted_by = ""
        self.is_full_length = True
        """Whether the server was asked to answer at full length; False: it refuses that."""
        self.seed = wanted.seed if wanted.seed is not None else secrets.randbits(32)
        """The seed of the prompts; each prompt begins with it."""
        self._clients: dict[str, ModelClient] = {}
        self._replay_prompts: ReplayPrompts | None = None
        self._salt = 0
        self._done = 0.0
        self._times = StepTimes()
        self._to_come: list[BenchmarkStep] = [step for step in plan.steps for _ in range(self._each)]
        """Repeats after the present one; of a ladder, whose length is unknown, what is assumed."""

    @property
    def _each(self) -> int:
        """How often a step runs: its repeats, over each route."""
        return self.plan.repeats * len(self.servers)

    @property
    def slo(self) -> Slo | None:
        wanted = self.options
        return None if wanted.slo_ttft is wanted.slo_tpot is None else Slo(wanted.slo_ttft, wanted.slo_tpot)

    def rungs(self, mode: PromptSharing) -> list[Rung]:
        """The ladder so far, as the first route saw it."""
        first = self.servers[0].route
        steps = [one for one in self.measured if one.route == first and one.step.mode is mode]
        return [self.rung(one) for one in steps if not one.step.is_open]

    def rung(self, measured: MeasuredStep) -> Rung:
        found = figures(measured.samples(self.clock.now()), self.slo)
        every = (found["requests_ok"] or 0) + (found["requests_failed"] or 0)
        failed = (found["requests_failed"] or 0) / every if every else 0.0
        rate, requests = found["output_rate"], found["request_rate"]
        return Rung(measured.step.clients, rate, requests, failed, found.get("goodput_share"), self.observer.is_full())

    async def run(self) -> None:
        """Raises UpstreamError where the server cannot even be asked; prompts.PromptTooShort. On cancel, connections
        close and the results so far stay."""
        try:
            self._clients = {server.route: ModelClient(server.target) for server in self.servers}
            await self._prepare()
            for step in self.plan.steps:
                await self._step(step)
            if self.plan.climbs:
                for place, mode in enumerate(self.options.modes, 1):
                    await self._climb(mode, self.options.modes[place:])
        finally:
            for client in self._clients.values():
                client.close()

    # -- the parts ---------------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        self.observer.show("making prompts", 0.0, None)
        counter = PromptCounter(self.servers[0])
        try:
            if any(step.trace for step in self.plan.steps):
                self._replay_prompts = await calibrate_replay(counter)
            self.prompt = await make_prompt(self.prompt_tokens, counter)
            self.counted_by = counter.counted_by
        finally:
            counter.close()
        for server in self.servers:
            first = await self._first(server)
            if first.failure in _REFUSES:
                self.is_full_length = False
                first = await self._first(server)
            if not first.is_ok:
                raise UpstreamError(f"the first request failed: {first.failure}", code=first.failure)
            self.cold[server.route] = first
            self._times.on_request(first.ended - first.t0, self.output_tokens)

    async def _first(self, server: MeasuredEndpoint) -> RequestTiming:
        self._salt += 1
        text = self._text(-self._salt, PromptSharing.WARM)
        reply = await self._clients[server.route].ask(self._document(text, self.output_tokens))
        return reply.timing

    async def _climb(self, mode: PromptSharing, later: Sequence[PromptSharing]) -> None:
        """`later`: the ladders that come after this one."""
        first: BenchmarkStep | None = None
        after = [step for one in later for step in self._assumed(one, 0)]
        while isinstance(clients := next_clients(self.rungs(mode), self.plan.top), int):
            step = clients_step(self.options, clients, self.prompt_tokens, self.output_tokens, mode)
            first = first or step
            self._to_come = [step] * self._each + self._assumed(mode, clients) + after
            await self._step(step)
        self.stops[mode] = clients
        if self.plan.rates_by_knee:
            rates = [rate_step(self.options, rate, self.prompt_tokens, self.output_tokens, mode)
                     for rate in open_rates(self.rungs(mode))]  # fmt: skip
            self._to_come = [step for step in rates for _ in range(self._each)] + after
            for step in rates:
                await self._step(step)
        if first is not None and self.first_rung_again is None and len(self.rungs(mode)) > 1:
            self.first_rung_again = MeasuredStep(first, self.servers[0].route)
            self._to_come = [first, *after]
            await self._repeat(self.first_rung_again, 0)

    async def _step(self, step: BenchmarkStep) -> None:
        """All repeats, the routes taking turns."""
        rows = [MeasuredStep(step, server.route) for server in self.servers]
        self.measured += rows
        for repeat in range(self.plan.repeats):
            for row in rows:
                await self._repeat(row, repeat)

    async def _repeat(self, row: MeasuredStep, repeat: int) -> None:
        step, sent = row.step, StepRequests()
        row.repeats.append(sent)
        begun = self.clock.now()
        expected = self._times.expected(step, self.options.speed) or 0.0
        self._to_come = self._to_come[1:]
        rest = sum(self._times.expected(one, self.options.speed) or 0.0 for one in self._to_come)
        over = f" over {row.route}" if len(self.servers) > 1 else ""
        times = f", {repeat + 1} of {self.plan.repeats}" if self.plan.repeats > 1 else ""
        words = f"{step.name}{over}{times}"

        def show() -> None:
            passed = self.clock.now() - begun
            left = max(0.0, expected - passed) + rest
            self.observer.show(words, (self._done + passed) / max(self._done + passed + left, 0.001), left)

        show()
        self._salt += 1  # no two repeats send the same prompts, over no route: a cache would answer the second one
        send = self._sender(step, row.route, self._salt)
        if step.trace:
            await run_open_loop(send, arrivals(step.trace, self.options.speed), sent, self.clock, show)
        elif step.rate is not None:
            for number in range(step.warm_up):
                sent.warm.append(await send(-1 - number, None))
            offsets = poisson_arrivals(step.rate, step.length.seconds, seed=repeat, at_least=step.length.requests)
            await run_open_loop(send, offsets, sent, self.clock, show)
        else:
            await run_closed_loop(send, step.clients, step.warm_up, step.length, sent, self.clock, show)
        took = self.clock.now() - begun
        self._done += took
        self._times.on_step(step, len(sent.warm) + len(sent.requests), took)

    # -- one request -------------------------------------------------------------------------------------------------

    def _sender(self, step: BenchmarkStep, route: str, salt: int) -> SendRequest:
        client = self._clients[route]

        async def send(number: int, due: float | None) -> RequestTiming:
            seed = salt * 1_000_003 + number
            if step.trace and self._replay_prompts is not None:
                line = step.trace[number]
                text = self._replay_prompts.text(line.input_length, tuple(line.hash_ids), seed, self.seed)
                document = self._document(text, max(1, line.output_length))
            else:
                document = self._document(self._text(seed, step.mode), step.output)
            return (await client.ask(document, scheduled=due)).timing

        return send

    def _text(self, seed: int, mode: PromptSharing) -> str:
        assert self.prompt is not None
        return self.prompt.text(seed, mode, self.seed)

    def _document(self, text: str, output: int) -> dict[str, Any]:
        exact = {**_EXACT_OUTPUT, "min_tokens": output} if self.is_full_length else {}
        return {
            "messages": user_turns(text), "max_tokens": output, "temperature": 0, "stream": True,
            "stream_options": {"include_usage": True}, **exact,
        }  # fmt: skip

    # -- time left ---------------------------------------------------------------------------------------------------

    def _assumed(self, mode: PromptSharing, clients: int) -> list[BenchmarkStep]:
        """What may follow the rung with so many clients: a ladder of five rungs, three rates, the first rung again."""
        rungs = [each for each in _USUAL_RUNGS if clients < each <= self.plan.top]
        steps = [clients_step(self.options, one, self.prompt_tokens, self.output_tokens, mode) for one in rungs]
        steps += [clients_step(self.options, 1, self.prompt_tokens, self.output_tokens, mode)] * (
            len(SHARES) * self.plan.rates_by_knee
        )
        return [step for step in steps for _ in range(self._each)] + steps[:1]
